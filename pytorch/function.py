"""`deplodock.compile`: a function or module of PyTorch as a callable of kernels, for one set of shapes or for many."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError
from deplodock.frontend.caches import register_caches
from deplodock.frontend.capture import Call, export
from deplodock.pytorch.compiled import CompiledProgram, compiled_program
from deplodock.pytorch.options import MANY_SHAPES, BackendOptions
from deplodock.pytorch.signature import shown, sorted_call

_LOG = logging.getLogger("deplodock")


@overload
def compile(
    function: Callable[..., Any] | ExportedProgram,
    example_args: Sequence[Any],
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
) -> CompiledProgram: ...


@overload
def compile(
    function: Callable[..., Any],
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
) -> CompiledFunction | CompiledProgram: ...


@overload
def compile(
    *, target: str | None = None, device: str | torch.device | None = None, schedule: str | None = None
) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


def compile(
    function: Callable[..., Any] | ExportedProgram | None = None,
    example_args: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
) -> Any:
    """Compile a function or module for arguments of the shapes, dtypes and other values of the examples.

        norm = deplodock.compile(torch.nn.RMSNorm(2048), (torch.randn(32, 2048),))
        y = norm(torch.randn(32, 2048))

    Without examples the result, a `CompiledFunction`, is compiled on its first call with each set of those, so that
    `@deplodock.compile` and `@deplodock.compile(target="a100")` decorate functions. The examples of an
    `ExportedProgram` are by default those that it was exported with.

    Args:
        function: a function of tensors, a module in the mode (`eval()`) it is to run in, or what torch.export gives.
        example_args: its positional arguments: tensors, nests of tensors, and other values, which are compiled in. So
            are the strides and offsets of tensors where the program asks for them.
        example_kwargs: its arguments by keyword, which each call must name, in any order.
        target: the architecture or card to compile for; by default the GPU's own, sm_90 on a CPU.
        device: where to run, by default where the tensors are. On `cuda` kernels read and write PyTorch's tensors
            without copies, in the order of the current stream. On `cpu` the simulator runs the kernels, or, above
            `LANE_STEP_LIMIT` lane steps, numpy the loop IR, which one warning of the logger `deplodock` says.
            Tensors that are elsewhere are copied at each call.
        schedule: the schedule of every kernel, as a pass pipeline; by default chosen for each.

    Raises:
        InvalidInputError: the program raises on the examples, or a device or target does not exist.
        UnsupportedError: the program uses something that deplodock does not support, or the schedule does not fit.
        CompileError: the generated code does not compile.
    """
    options = BackendOptions(target, schedule)
    if function is None:
        return lambda function: compile(function, target=target, device=device, schedule=schedule)
    if isinstance(function, ExportedProgram):
        if example_args is None and example_kwargs is None and function.example_inputs is not None:
            example_args, example_kwargs = function.example_inputs
        function = function.module(check_guards=False)
    if example_args is None and example_kwargs is None:
        return CompiledFunction(function, options, device)
    args = () if example_args is None else example_args
    if not isinstance(args, tuple | list):
        raise InvalidInputError(f"example_args must be a tuple of arguments, not {type(args).__name__}")
    return _compile(function, (tuple(args), dict(example_kwargs or {})), options, device)


def _compile(
    function: Callable[..., Any], call: Call, options: BackendOptions, device: str | torch.device | None
) -> CompiledProgram:
    """Compile for the arguments of a call; see `compile`."""
    call = sorted_call(call)
    return compiled_program(function, call, export(function, *call, is_called=True), options, device)


class CompiledFunction:
    """A function that is compiled on its first call with each set of shapes, strides, dtypes and other values.

    `programs` are what it is compiled into.
    """

    def __init__(
        self, function: Callable[..., Any], options: BackendOptions, device: str | torch.device | None = None
    ) -> None:
        if not isinstance(function, nn.Module):
            functools.update_wrapper(self, function)
        self.programs: dict[Any, CompiledProgram] = {}
        self._function, self._options, self._device = function, options, device
        self._with_offsets = False
        self._compiling = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments. Raises what `compile` and `CompiledProgram` raise."""
        key = self._key((args, kwargs))
        program = self.programs.get(key)
        if program is None:
            with self._compiling:
                program = self.programs.get(key) or self._compile((args, kwargs))
                self.programs[self._key((args, kwargs))] = program
        return program.run((args, kwargs), callers=2)

    def _compile(self, call: Call) -> CompiledProgram:
        start = time.perf_counter()
        program = _compile(self._function, call, self._options, self._device)
        # The offset of a tensor decides as its strides do, but only few programs ask for it.
        self._with_offsets |= program.signature.asks_layout
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        count, seconds = len(self.programs) + 1, time.perf_counter() - start
        arguments = ", ".join(map(shown, pytree.tree_leaves(call)))
        message = f"deplodock: compiled {name} for {arguments} in {seconds:.1f} s, its set {count} of shapes"
        _LOG.info(message)
        if count == MANY_SHAPES:
            _LOG.warning("%s; each takes a compilation, so pad to fewer", message)
        return program

    def _key(self, call: Call) -> Any:
        register_caches()
        leaves, form = pytree.tree_flatten(sorted_call(call))
        return form, tuple(_kind(leaf, self._with_offsets) for leaf in leaves)


def _kind(leaf: Any, with_offset: bool) -> Any:
    """What a program is compiled for in an argument."""
    if not isinstance(leaf, torch.Tensor):
        return type(leaf), repr(leaf)
    return leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.storage_offset() if with_offset else 0
