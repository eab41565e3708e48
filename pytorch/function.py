"""`deplodock.compile`: a function or module of PyTorch as a callable of kernels, for one set of shapes or for many."""

from __future__ import annotations

import copy
import functools
import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from deplodock.dialects.torch import set_precision
from deplodock.errors import InvalidInputError
from deplodock.frontend.caches import register_caches
from deplodock.frontend.capture import Call, export
from deplodock.frontend.program import CapturedProgram
from deplodock.frontend.symbolic import SymbolicProgram
from deplodock.pytorch.compiled import CompiledProgram, compiled_program, lower_ahead, place_on
from deplodock.pytorch.options import BackendOptions, check_max_shapes, check_tuned
from deplodock.pytorch.reads import ReadFacts, Reads, modes
from deplodock.pytorch.shapes import MANY_SHAPES, MAX_SHAPES, Shapes
from deplodock.pytorch.signature import shown, sorted_call
from deplodock.pytorch.traced import is_traced, opaque, refuse_transforms, unpicklable

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
    precision: str | None = None,
    tuned: str | Path | None = None,
) -> CompiledProgram: ...


@overload
def compile(
    function: Callable[..., Any] | ExportedProgram,
    example_args: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
    precision: str | None = None,
    tuned: str | Path | None = None,
    dynamic: bool = False,
    dynamic_shapes: Any = None,
    max_shapes: int = MAX_SHAPES,
) -> CompiledFunction | CompiledProgram: ...


@overload
def compile(
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
    precision: str | None = None,
    tuned: str | Path | None = None,
    dynamic: bool = False,
    dynamic_shapes: Any = None,
    max_shapes: int = MAX_SHAPES,
) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


def compile(
    function: Callable[..., Any] | ExportedProgram | None = None,
    example_args: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
    precision: str | None = None,
    tuned: str | Path | None = None,
    dynamic: bool = False,
    dynamic_shapes: Any = None,
    max_shapes: int = MAX_SHAPES,
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
        device: where to run, by default where the tensors are. On `cuda`, PyTorch's current GPU, or on one by its
            number, as `cuda:1`, kernels read and write PyTorch's tensors without copies, in the order of the current
            stream. On `cpu` the simulator runs the kernels, or, above `LANE_STEP_LIMIT` lane steps, numpy the loop IR,
            which one warning of the logger `deplodock` says. Tensors that are elsewhere are copied at each call.
        schedule: the schedule of every kernel, as a pass pipeline; by default chosen for each.
        precision: that of products of FP32 matrices; by default what torch.get_float32_matmul_precision() says then.
        tuned: a file that `deplodock tune` wrote; the kernels and programs that it knows take what was found.
        dynamic: whether to capture the program once for tensors of all shapes. Its kernels are compiled for those of
            each call that brings others; the result is a `CompiledFunction`, also with examples.
        dynamic_shapes: which extents may vary, as torch.export takes it; implies `dynamic`. By default all may that the
            program does not ask to be some number.
        max_shapes: how many sets of shapes a `CompiledFunction` keeps, the last used; four times as many in all.

    Raises:
        InvalidInputError: the program raises on the examples, or a device, target or precision does not exist.
        UnsupportedError: the program uses something that deplodock does not support, or the schedule does not fit.
        CompileError: the generated code does not compile.
    """
    options = _options(target, schedule, precision, tuned, max_shapes)
    symbols = SymbolicCapture(dynamic_shapes) if dynamic or dynamic_shapes is not None else None
    if function is None:
        return lambda function: CompiledFunction(function, options, device, symbols)
    if isinstance(function, ExportedProgram):
        if example_args is None and example_kwargs is None and function.example_inputs is not None:
            example_args, example_kwargs = function.example_inputs
        function = function.module(check_guards=False)
    compiled = CompiledFunction(function, options, device, symbols)
    if example_args is None and example_kwargs is None:
        return compiled
    program = compiled.prepare(_example_call(example_args, example_kwargs))
    return program if symbols is None else compiled


def _options(
    target: str | None, schedule: str | None, precision: str | None, tuned: str | Path | None, max_shapes: int
) -> BackendOptions:
    """The options of `compile`. Raises InvalidInputError for what is none."""
    check_max_shapes(max_shapes)
    given = None if tuned is None else str(tuned)
    options = BackendOptions(target, schedule, precision, given, max_shapes=max_shapes)
    check_tuned(options)
    return options


def _example_call(args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Call:
    """The call that examples give. Raises InvalidInputError where the positional ones are no sequence."""
    if not isinstance(args, tuple | list | None):
        raise InvalidInputError(f"example_args must be a tuple of arguments, not {type(args).__name__}")
    return tuple(args or ()), dict(kwargs or {})


class SymbolicCapture:
    """What was captured of a function for tensors of all shapes, as torch.export's `dynamic_shapes` allows."""

    def __init__(self, dynamic_shapes: Any) -> None:
        self._dynamic_shapes = dynamic_shapes
        self._programs: dict[Any, list[SymbolicProgram]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> SymbolicCapture:
        """One for a copy of the function, of which nothing was captured."""
        return SymbolicCapture(self._dynamic_shapes)

    def at(self, function: Callable[..., Any], read: Hashable, call: Call) -> tuple[CapturedProgram, str]:
        """A function for the shapes of a call, and why it was captured anew; empty if it was not.

        `read` is what it reads beside its arguments: programs are kept for each.

        Raises InvalidInputError where `dynamic_shapes` are given that do not allow the call.
        """
        known = self._programs.setdefault(read, [])
        refusals = [program.refusal(call) for program in known]
        allowed = next((program for program, refusal in zip(known, refusals, strict=True) if not refusal), None)
        if allowed is not None:
            return allowed.at(call), ""
        if refusals and self._dynamic_shapes is not None:
            raise InvalidInputError(
                f"dynamic_shapes do not allow these arguments: {refusals[0]}; compile again for them, or allow more"
            )
        known.append(SymbolicProgram.of(function, call, self._dynamic_shapes))
        return known[-1].at(call), refusals[-1] if refusals else ""


@dataclass(frozen=True)
class _Captured:
    """A program for a call, why it was captured anew, empty if it was not, and the seconds of that."""

    call: Call
    program: CapturedProgram
    refusal: str
    seconds: float


class CompiledFunction:
    """A function that is compiled on its first call with each set of shapes, strides, dtypes and other values.

    It is compiled anew where `modes`, what it `Reads`, or, unless an option says it, the precision that PyTorch is set
    to, is another than before.
    `programs` are what it is compiled into, those that were used last. With `symbols` it is captured for all shapes at
    once, of contiguous tensors; arguments that are not contiguous are copied.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: BackendOptions,
        device: str | torch.device | None = None,
        symbols: SymbolicCapture | None = None,
    ) -> None:
        if not isinstance(function, nn.Module):
            functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self.programs = Shapes[CompiledProgram](options.max_shapes)
        self._function, self._options, self._device, self._symbols = function, options, device, symbols
        self._reads = Reads(function)
        self._with_offsets = False
        self._last: list[str] = []
        self._last_facts: ReadFacts | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments. In what is traced it is the function itself, whatever traces.

        Raises what `compile` and `CompiledProgram` raise, and UnsupportedError in a transform of functions.
        """
        if is_traced():
            return self._function(*args, **kwargs)
        return self._called((args, kwargs))

    @opaque
    def _called(self, call: Call) -> Any:
        refuse_transforms()
        return self.prepare(call).run(call, callers=4)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        """A compiled function of a copy, without programs."""
        function = copy.deepcopy(self._function, memo)
        return CompiledFunction(function, self._options, self._device, copy.deepcopy(self._symbols, memo))

    def __reduce_ex__(self, protocol: object) -> Any:
        raise unpicklable("a compiled function")

    def prepare(self, call: Call) -> CompiledProgram:
        """The program for the arguments of a call, compiled if there is none yet.

        Raises what `compile` raises, and InvalidInputError where too many were compiled.
        """
        program = self.programs.get(self._key(call))
        if program is None:
            with self.programs.lock:
                program = self.programs.get(self._key(call)) or self._compile(self._captured(call))
        return program

    def prepare_all(self, calls: Sequence[Call]) -> list[CompiledProgram]:
        """The programs for the arguments of several calls. New ones are lowered at once, in worker processes.

        Raises what `prepare` raises.
        """
        programs: dict[Any, CompiledProgram] = {}
        new: dict[Any, _Captured] = {}
        keys = [self._key(call) for call in calls]
        with self.programs.lock:
            for key, call in zip(keys, calls, strict=True):
                if (program := self.programs.get(key)) is not None:
                    programs[key] = program
                elif key not in new:
                    new[key] = self._captured(call)
            captured = [found.program for found in new.values()]
            lower_ahead([(each.module.clone(), place_on(self._device, each)) for each in captured], self._options)
            programs |= {key: self._compile(found) for key, found in new.items()}
        return [programs[key] for key in keys]

    def _captured(self, call: Call) -> _Captured:
        """The function for the shapes of a call."""
        self.programs.check(self._name)
        start, call = time.perf_counter(), sorted_call(call)
        if self._symbols is None:
            program, refusal = export(self._function, *call, is_called=True), ""
        else:
            program, refusal = self._symbols.at(self._function, self._read(), call)
        set_precision(program.module, self._options.precision_now)
        return _Captured(call, program, refusal, time.perf_counter() - start)

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def _compile(self, captured: _Captured) -> CompiledProgram:
        start, call = time.perf_counter() - captured.seconds, captured.call
        self.programs.check(self._name)
        shapes, reasons = [shown(leaf) for leaf in pytree.tree_leaves(call)], list[str]()
        reasons += [f"captured anew, as {captured.refusal}"] if captured.refusal else []
        program = compiled_program(self._function, call, captured.program, self._options, self._device)
        # The offset of a tensor decides as its strides do, but only few programs ask for it.
        self._with_offsets |= program.signature.asks_layout
        kept = self.programs.add(self._key(call), program)
        seconds = f"{time.perf_counter() - start:.1f} s, {captured.seconds:.1f} of them to capture it"
        message = f"deplodock: compiled {self._name} for {', '.join(shapes)} in {seconds}, {kept}"
        pairs = enumerate(zip(shapes, self._last, strict=False))
        reasons[:0] = [f"argument {number} was {old}" for number, (new, old) in pairs if new != old]
        facts = self._reads.facts()
        if self._last_facts is not None and (change := facts.change_from(self._last_facts)):
            reasons.append(change)
        message += f": {'; '.join(reasons)}" if reasons else ""
        self._last, self._last_facts = shapes, facts
        _LOG.info(message)
        if self.programs.count == MANY_SHAPES:
            _LOG.warning("%s; each takes a compilation, so pad to fewer", message)
        return program

    def _key(self, call: Call) -> Any:
        register_caches()
        leaves, form = pytree.tree_flatten(sorted_call(call))
        return form, tuple(map(self._kind, leaves)), *self._read(), self._options.precision_now

    def _read(self) -> tuple[Hashable, ReadFacts]:
        """What decides what a call gives beside its arguments."""
        return modes(), self._reads.facts()

    def _kind(self, leaf: Any) -> Any:
        """What a program is compiled for in an argument."""
        if not isinstance(leaf, torch.Tensor):
            return type(leaf), repr(leaf)
        if leaf.is_nested or leaf.layout != torch.strided:
            return type(leaf), leaf.layout  # It is refused, and has no shape or no strides.
        kind = leaf.shape, leaf.dtype, leaf.device
        if self._symbols is not None:
            return kind
        return *kind, leaf.stride(), leaf.storage_offset() if self._with_offsets else 0
