"""`deplodock.compile`: a function or module of PyTorch as a callable of compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import CheckError, Error, InvalidInputError, UnsupportedError
from deplodock.frontend.capture import export
from deplodock.frontend.program import CapturedGraph, output_values, results_of
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch.artifacts import Artifacts, new_name
from deplodock.pytorch.options import BackendOptions
from deplodock.pytorch.runners import CpuRunner, CudaRunner, Runner, distinct, laid_out, overlaps_of
from deplodock.runtime.device import device_target, missing


def compile(
    function: Callable[..., Any],
    example_args: Sequence[Any],
    *,
    target: str | None = None,
    device: str | torch.device | None = None,
    schedule: str | None = None,
) -> CompiledProgram:
    """Compile a function or module for arguments of the shapes, dtypes and other values of `example_args`.

        norm = deplodock.compile(torch.nn.RMSNorm(2048), (torch.randn(32, 2048),))
        y = norm(torch.randn(32, 2048))

    Args:
        function: a function of tensors, or a module in the mode (`eval()`) it is to run in.
        example_args: its positional arguments: tensors, nests of tensors, and other values, which are compiled in. So
            are the strides and offsets of tensors where the program asks for them.
        target: the architecture or card to compile for; by default the GPU's own, sm_90 on a CPU.
        device: where to run, by default where the tensors are. On `cuda` kernels read and write PyTorch's tensors
            without copies, in the order of the current stream. On `cpu` the simulator runs the kernels, or, above
            `LANE_STEP_LIMIT` lane steps, numpy the loop IR, which one warning of the logger `deplodock` says.
            Tensors that are elsewhere are copied at each call.
        schedule: the schedule of every kernel, as a pass pipeline; by default chosen for each.

    Raises:
        InvalidInputError: the program raises on `example_args`, or a device or target does not exist.
        UnsupportedError: the program uses something that deplodock does not support, or the schedule does not fit.
        CompileError: the generated code does not compile.
    """
    if not isinstance(example_args, tuple | list):
        raise InvalidInputError(f"example_args must be a tuple of arguments, not {type(example_args).__name__}")
    captured = export(function, tuple(example_args), is_called=True)
    place = _device(device) if device is not None else device_of([*captured.inputs, *results_of(captured.graph)])
    owner = function if isinstance(function, nn.Module) else None
    try:
        options = BackendOptions(target, schedule)
        runner = make_runner(captured.module, captured.graph, place, options, new_name("program"))
    except Error:
        raise
    except DiagnosticException as error:
        raise UnsupportedError(str(error)) from error
    return CompiledProgram(captured, owner, runner)


def _device(name: str | torch.device) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise InvalidInputError(f"device {name!r}: {error}") from None


def make_runner(
    module: ModuleOp,
    graph: fx.GraphModule,
    device: torch.device,
    options: BackendOptions,
    name: str,
) -> CudaRunner | CpuRunner:
    """Lower a program, captured from a graph, and load it where it is to run; see `compile`.

    `name` is the program's in what is written of it, see `Artifacts`.
    """
    target, schedule = options.target, options.schedule
    if device.type not in ("cpu", "cuda") or device.index not in (None, 0):
        raise InvalidInputError(f"deplodock runs on cpu and cuda:0, not on {device}")
    if device.type == "cuda" and (reason := missing()) is not None:
        raise Error(f"{reason}; with device='cpu' the simulator runs the program")
    if device.type == "cuda" and target is None:
        target = device_target()
    context, artifacts = new_context(), Artifacts(name, options.folder)
    artifacts.begin(module)
    lower(module, context, Level.LOOP, target=target, observer=artifacts)
    loops = module.clone()
    lower(module, context, Level.KERNEL, schedule=schedule, observer=artifacts)
    artifacts.finish(module)
    return CudaRunner(module, results_of(graph)) if device.type == "cuda" else CpuRunner(module, loops)


def device_of(values: Sequence[Any]) -> torch.device:
    """Where the tensors among the values of a program are. Raises UnsupportedError if that is not one device."""
    devices = list(dict.fromkeys(value.device for value in values if isinstance(value, torch.Tensor)))
    if len(devices) > 1:
        raise UnsupportedError(f"the program's tensors are on several devices: {', '.join(map(str, devices))}")
    return devices[0]


class CompiledProgram:
    """A compiled function: calls take arguments like those it was compiled for, and give what the function gives.

    Results are new tensors without a gradient, which share no memory with arguments or each other. Their strides are
    those of the function's own results on the example arguments. Parameters and buffers are those that the module has
    at the time of a call; tensors that a function takes from elsewhere are those that it took when it was compiled.
    Arguments and buffers that the function writes into are written into after the kernels have run.
    """

    def __init__(self, captured: CapturedGraph, owner: nn.Module | None, runner: Runner) -> None:
        self.runner = runner
        self._captured = captured
        self._example, self._form = pytree.tree_flatten(captured.args)
        values = output_values(captured.graph)
        results = values[len(captured.writes) : len(values) - len(captured.checks)]
        self._layouts = [None if value is None else _layout(value) for value in results]
        self._state = [
            _Slot(owner, path) if owner is not None and path is not None else None for path in captured.paths
        ]

    def __call__(self, *args: Any) -> Any:
        """Run the program on tensors of the compiled shapes and dtypes.

        Raises:
            InvalidInputError: the arguments do not fit, or one that is written into shares memory with another.
            CheckError: something that the program asserts of them does not hold; nothing is written into then. On a GPU
                that is a device-side assertion, as PyTorch's own: the next call that waits for the GPU raises it.
        """
        with torch.no_grad():
            inputs = self._inputs(args)
            if self._captured.writes and (conflict := self._conflict(inputs)):
                raise InvalidInputError(conflict)
            device = self.runner.device
            results = self.runner([value.to(device) for value in inputs])
            results, asserted = self._split(results)
            for message, holds in zip(self._captured.checks, asserted, strict=True):
                assert_holds(holds, message)
            count = len(self._captured.writes)
            for number, value in zip(self._captured.writes, results[:count], strict=True):
                inputs[number].copy_(value)
            home = inputs[0].device if inputs else device
            moved = distinct([value.to(home) for value in results[count:]], inputs)
            given = iter(moved)
            leaves = [None if layout is None else laid_out(next(given), *layout) for layout in self._layouts]
            return pytree.tree_unflatten(leaves, self._captured.result_spec)

    def _split(self, results: Sequence[Any]) -> tuple[Sequence[Any], Sequence[torch.Tensor]]:
        """What a run gives, and what it asserts."""
        count = len(results) - len(self._captured.checks)
        return results[:count], results[count:]

    def _conflict(self, inputs: Sequence[torch.Tensor]) -> str:
        """Which input shares memory with one that the program writes into; empty if none does."""
        for pair in sorted(overlaps_of(inputs)):
            written, read = sorted(pair[:2], key=lambda number: number not in self._captured.writes)
            if written in self._captured.writes:
                names = self._captured.names
                return (
                    f"the program writes into {names[written]}, which shares memory with {names[read]}: "
                    "pass a clone of one"
                )
        return ""

    def _inputs(self, args: tuple[Any, ...]) -> list[torch.Tensor]:
        """The arguments of `@main`: the tensors given, then parameters, buffers and constants."""
        leaves, form = pytree.tree_flatten(args)
        if form != self._form:
            raise InvalidInputError(f"the program was compiled for {_nest(self._form)}, got {_nest(form)}")
        given = [value for value, own in zip(leaves, self._example, strict=True) if self._is_tensor(value, own)]
        rest = zip(self._state[len(given) :], self._captured.originals[len(given) :], strict=True)
        inputs = [*given, *(value if slot is None else slot.value() for slot, value in rest)]
        for name, value, own in zip(self._captured.names, inputs, self._captured.inputs, strict=True):
            if value.shape != own.shape or value.dtype != own.dtype:
                raise InvalidInputError(
                    f"{name} must be {own.dtype} of shape {tuple(own.shape)}, "
                    f"got {value.dtype} of shape {tuple(value.shape)}: compile again for it"
                )
        if self._captured.asks_layout:
            self._check_layout(inputs)
        if error := self._captured.layout_error(inputs):
            raise InvalidInputError(error)
        return inputs

    def _check_layout(self, inputs: Sequence[torch.Tensor]) -> None:
        """Raise InvalidInputError where a tensor lies in memory in another way than that of the compiled program."""
        for name, value, own in zip(self._captured.names, inputs, self._captured.originals, strict=True):
            found, wanted = ((tensor.stride(), tensor.storage_offset()) for tensor in (value, own))
            if found != wanted:
                raise InvalidInputError(
                    f"{name} must have strides {wanted[0]} and offset {wanted[1]}, for which the program asks, "
                    f"got {found[0]} and {found[1]}: compile again for it"
                )

    def _is_tensor(self, value: Any, own: Any) -> bool:
        """Whether an argument is a tensor; any other must be what it was when the program was compiled."""
        if isinstance(own, torch.Tensor) and isinstance(value, torch.Tensor):
            return True
        # Numbers are compared by their text, which tells 0.0 from -0.0, and NaN from nothing but itself.
        if type(value) is not type(own) or repr(value) != repr(own):
            raise InvalidInputError(f"the program was compiled for the argument {_shown(own)}, got {_shown(value)}")
        return False


class _Slot:
    """A parameter or buffer of a module by its path: the tensor that is there now."""

    def __init__(self, owner: nn.Module, path: str) -> None:
        self._owner, self._path = owner, path
        *self._modules, self._name = path.split(".")

    def value(self) -> torch.Tensor:
        """Raises InvalidInputError if nothing is there any more."""
        module: nn.Module | None = self._owner
        for name in self._modules:
            module = None if module is None else module._modules.get(name)
        if module is not None:
            for tensors in (module._parameters, module._buffers):
                if (value := tensors.get(self._name)) is not None:
                    return value
        raise InvalidInputError(f"the module has no {self._path} any more: compile it again")


def _layout(value: Any) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The shape and strides of a result, and the order of its dimensions, for `laid_out`."""
    assert isinstance(value, fx.Node)
    found = value.meta["val"]
    return found.shape, found.stride(), range(found.dim())


def assert_holds(holds: torch.Tensor, message: str) -> None:
    """Raise CheckError where a boolean is false; on a GPU its driver does, without a wait here."""
    if holds.is_cuda:
        torch.ops.aten._assert_async.msg(holds, message)
    elif not holds:
        raise CheckError(message)


def _nest(form: pytree.TreeSpec) -> str:
    """The nest of arguments as one line, such as `(*, {x: *})`."""
    shown = pytree.tree_unflatten(["*"] * form.num_leaves, form)
    return f"the arguments {shown}".replace("'*'", "*")


def _shown(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
