"""A program of PyTorch compiled for one set of shapes: its kernels, and what a call of it takes and gives."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import CheckError, Error, InvalidInputError, UnsupportedError
from deplodock.frontend.capture import Call
from deplodock.frontend.importer import is_scalar, is_whole
from deplodock.frontend.inputs import span_of
from deplodock.frontend.program import CapturedProgram, results_of
from deplodock.passes.driver import new_context, set_target
from deplodock.pytorch.artifacts import Artifacts, is_watched, new_name
from deplodock.pytorch.counting import count_falls
from deplodock.pytorch.options import BackendOptions
from deplodock.pytorch.runners import (
    CpuRunner,
    CudaRunner,
    Runner,
    laid_out,
    lie_apart,
    overlaps_of,
    repeats,
    write_back,
)
from deplodock.pytorch.saved import ProgramFile, program_file, state_names, write_file
from deplodock.pytorch.signature import CallSignature, signature_of
from deplodock.pytorch.traced import is_traced, opaque, refuse_transforms, unpicklable
from deplodock.runtime.device import device_count, device_target, missing
from deplodock.runtime.falls import falls_of
from deplodock.runtime.lowering import lower_by_loops
from deplodock.runtime.net import lower_held, lower_in_steps
from deplodock.runtime.tuned import Tuned, read_tuned
from deplodock.runtime.workers import Request, lower_all

_REQUIRES_GRAD = attrgetter("requires_grad")


def compiled_program(
    function: Callable[..., Any],
    call: Call,
    captured: CapturedProgram,
    options: BackendOptions,
    device: str | torch.device | None,
) -> CompiledProgram:
    """Compile what was captured of a function for the arguments of a call; see `deplodock.compile`."""
    place = place_on(device, captured)
    source = captured.module.clone()
    try:
        name, writes = new_name("program"), len(captured.writes)
        runner = make_runner(captured.module, captured.graph, place, options, name, writes)
    except Error:
        raise
    except DiagnosticException as error:
        raise UnsupportedError(str(error)) from error
    signature = signature_of(captured, call)
    owner = function if isinstance(function, nn.Module) else None
    values = captured.originals[len(captured.originals) - len(signature.paths) :]
    entries = [
        value if owner is None or path is None else path for value, path in zip(values, signature.paths, strict=True)
    ]
    state = ProgramState(owner, entries, () if owner is None else signature.ties)
    file = cache(partial(program_file, source, captured.module, signature, place.type))
    return CompiledProgram(signature, state, runner, file, learns=learns(owner))


def place_on(device: str | torch.device | None, captured: CapturedProgram) -> torch.device:
    """Where a program runs: on a device that is named, else where its tensors are. Raises as these two."""
    return place_of(device) if device is not None else device_of(captured.inputs, results_of(captured.graph))


def learns(owner: nn.Module | None) -> bool:
    """Whether the parameters of a module are there to be trained."""
    return owner is not None and owner.training and not isinstance(owner, fx.GraphModule)


def place_of(name: str | torch.device) -> torch.device:
    """The device of a name on which programs run.

    Raises:
        InvalidInputError: there is none.
        Error: it is a GPU, and none can be used here.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidInputError(f"device {name!r}: {error}") from None
    check_place(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_initialized() else 0)
    return device


def check_place(device: torch.device) -> None:
    """Raise an Error where programs do not run on a device: see `place_of`."""
    if device.type not in ("cpu", "cuda"):
        raise InvalidInputError(f"deplodock runs on cpu and cuda, not on {device}")
    if device.type == "cuda":
        if (reason := missing()) is not None:
            raise Error(f"{reason}; with device='cpu' the simulator runs the program")
        if (device.index or 0) >= (count := device_count()):
            raise InvalidInputError(f"there is no {device}: the CUDA driver finds {count} GPU{'s' * (count > 1)}")


def make_runner(
    module: ModuleOp,
    graph: fx.GraphModule,
    device: torch.device,
    options: BackendOptions,
    name: str,
    reused: int = 0,
) -> CudaRunner | CpuRunner:
    """Lower a program, captured from a graph, and load it where it is to run; see `deplodock.compile`.

    `name` is the program's in what is written of it, see `Artifacts`, `reused` see `CudaRunner`.
    """
    artifacts = Artifacts(name, options.folder)
    artifacts.begin(module)
    if is_watched(options.folder):
        set_target(module, target_on(device, options))
        step = partial(lower_held, module, new_context(), observer=artifacts)
        loops = lower_in_steps(module, _tuned(options), step, schedule=options.schedule)
    else:
        loops = lower_on(module, device, options)
    count_falls(falls_of(module))
    artifacts.finish(module)
    if device.type == "cpu":
        return CpuRunner(module, loops)
    return CudaRunner(module, device, results_of(graph), reused)


def lower_on(module: ModuleOp, device: torch.device, options: BackendOptions) -> ModuleOp:
    """Lower a program for a device to kernel level; what it was at loop level. Raises as `lower_by_loops`."""
    target = target_on(device, options)
    return lower_by_loops(module, new_context(), target=target, schedule=options.schedule, tuned=_tuned(options))


def _tuned(options: BackendOptions) -> Tuned | None:
    return None if options.tuned is None else read_tuned(Path(options.tuned))


def target_on(device: torch.device, options: BackendOptions) -> str | None:
    """The target of a program on a device: by default the GPU's own. Raises as `check_place`."""
    check_place(device)
    return device_target(device.index or 0) if device.type == "cuda" and options.target is None else options.target


def lower_ahead(programs: Sequence[tuple[ModuleOp, torch.device]], options: BackendOptions) -> None:
    """Lower programs that `make_runner` will be asked for, all at once in worker processes, and for a GPU compile them.

    Raises an Error where programs do not run on a device.
    """
    if len(programs) > 1 and not is_watched(options.folder):
        targets = [target_on(device, options) for _, device in programs]
        lower_all(
            [
                Request.of(module, target, options.schedule, compiles=device.type == "cuda", tuned=options.tuned)
                for (module, device), target in zip(programs, targets, strict=True)
            ]
        )


def device_of(inputs: Sequence[Any], results: Sequence[Any]) -> torch.device:
    """Where a program runs: where its tensors are, but for scalars among its inputs where others are elsewhere.

    Raises UnsupportedError if that is not one device.
    """
    given, made = ([value for value in part if isinstance(value, torch.Tensor)] for part in (inputs, results))
    others = [value for value in given if not is_scalar(value)] + made
    devices = list(dict.fromkeys(value.device for value in others or given))
    if len(devices) > 1:
        raise UnsupportedError(f"the program's tensors are on several devices: {', '.join(map(str, devices))}")
    return devices[0]


class CompiledProgram:
    """A compiled function: calls take arguments like those it was compiled for, and give what the function gives.

    Results are new tensors without a gradient, which share no memory with arguments or each other. Their strides are
    those of the function's own results on the example arguments. Parameters and buffers are those that the module has
    at the time of a call, tied as they were; all else that the function reads is as it was when it was compiled.
    Arguments and buffers that the function writes into are written into after the kernels have run. A nest of
    arguments, such as a cache of keys and values, is read, and its tensors may be written into; what else the function
    does to it is left out.
    """

    def __init__(
        self,
        signature: CallSignature,
        state: ProgramState,
        runner: Runner,
        file: Callable[[], ProgramFile],
        *,
        learns: bool,
    ) -> None:
        """A program that runs.

        Args:
            signature: its arguments and results.
            state: its inputs that no call gives.
            runner: what computes the results of all inputs.
            file: gives what a file holds of it, tensors aside.
            learns: whether its state is that of a module in training.
        """
        self.signature, self.runner = signature, runner
        self._state, self._file, self._learns = state, file, learns
        self._has_warned = False

    def __repr__(self) -> str:
        wanted = ", ".join(f"{own.name}: {own.dtype}{list(own.shape)}" for own in self.signature.inputs)
        return f"<CompiledProgram of ({wanted}) on {self.runner.device}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on tensors of the compiled shapes and dtypes.

        A warning says once that gradients are lost: where an argument requires one, or a parameter of a module in
        training mode does, and gradients are not turned off.

        Raises:
            InvalidInputError: the arguments do not fit, one that is written into shares memory with another, or tied
                parameters are no more.
            UnsupportedError: the call is traced, or in a transform of functions.
            CheckError: something that the program asserts of them does not hold; nothing is written into then. On a GPU
                that is a device-side assertion, as PyTorch's own: the next call that waits for the GPU raises it.
        """
        return self._called((args, kwargs))

    @opaque
    def _called(self, call: Call) -> Any:
        if is_traced():
            raise UnsupportedError(
                "a compiled program is called in what is traced: call the function that it was compiled from"
            )
        refuse_transforms()
        return self.run(call, callers=4)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise unpicklable("a compiled program")

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledProgram:
        """A program of copies of what it reads, with the same kernels."""
        state = self._state.copied(memo)
        return CompiledProgram(self.signature, state, self.runner, self._file, learns=self._learns)

    def save(self, path: str | Path, *, weights: bool = False) -> None:
        """Write the program to a file; `deplodock.load` reads it, in any process, without capturing anything.

        Parameters and buffers of a module are in it by name, with `weights` by value. Tensors that a function takes
        from elsewhere are in it by value. Kernels are in it as machine code if there is a compiler of CUDA.

        Raises:
            InvalidInputError: the file cannot be written, or safetensors is missing, which writes tensors.
            UnsupportedError: the arguments or results form a nest that a file cannot hold, a tensor from elsewhere has
                strides that the program asks for, or the program is larger than files may be (`SECURITY.md`).
            CompileError: the compiler of CUDA rejects the kernels.
        """
        held: dict[str, torch.Tensor] = {}
        values = self._state.tensors() if weights else self._state.find()
        for name, (facts, path_in_module), own in zip(
            state_names(self.signature), self.signature.state, values, strict=True
        ):
            if own is not None and (weights or path_in_module is None):
                held[name] = own
                if self.signature.asks_layout and not is_whole(held[name]):
                    raise UnsupportedError(
                        f"the program asks for the strides of {facts.name}, which a file cannot hold"
                    )
        write_file(Path(path), replace(self._file(), tensors=held))

    def run(self, call: Call, *, callers: int) -> Any:
        """`__call__`; a warning points so many frames up."""
        own = self.signature
        inputs = [*own.tensors(call), *self._state.tensors()]
        own.check(inputs)
        is_recording = torch.is_grad_enabled()
        if is_recording and not self._has_warned:
            self._warn_of_gradients(inputs, callers + 2)
        with torch.no_grad() if is_recording else nullcontext():
            if own.writes and not lie_apart(inputs, own.sizes) and (conflict := self._conflict(inputs)):
                raise InvalidInputError(conflict)
            with self.runner.turn:
                results = self.runner(inputs)
                given = results[len(own.writes) : len(results) - len(own.checks)]
                for message, holds in zip(own.checks, results[len(results) - len(own.checks) :], strict=True):
                    assert_holds(holds, message)
                if own.writes:
                    write_back([inputs[number] for number in own.writes], results[: len(own.writes)])
            if inputs and inputs[0].device != self.runner.device:
                given = [value.to(inputs[0].device) for value in given]
            pairs = zip(filter(None, own.results), given, strict=True)
            return own.given([laid_out(value, facts.shape, facts.strides) for facts, value in pairs])

    def _warn_of_gradients(self, inputs: Sequence[torch.Tensor], callers: int) -> None:
        own = len(inputs) if self._learns else len(inputs) - len(self.signature.paths)
        if any(map(_REQUIRES_GRAD, inputs[:own])):
            wanted = self.signature.inputs[:own]
            names = [facts.name for facts, value in zip(wanted, inputs, strict=False) if value.requires_grad]
            self._has_warned = True
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            warnings.warn(
                f"deplodock.compile gives results without gradients, but {', '.join(names[:3])}{more} require them: "
                'train with torch.compile(.., backend="deplodock"), or call under torch.no_grad()',
                stacklevel=callers,
            )

    def _conflict(self, inputs: Sequence[torch.Tensor]) -> str:
        """Which input shares memory with one that the program writes into; empty if none does."""
        for number in self.signature.writes:
            if repeats(inputs[number]):
                name = self.signature.inputs[number].name
                return f"the program writes into {name}, an element of which shares memory with others: pass a clone"
        for pair in sorted(overlaps_of(inputs)):
            written, read = sorted(pair[:2], key=lambda number: number not in self.signature.writes)
            if written in self.signature.writes:
                one, other = (self.signature.inputs[number].name for number in (written, read))
                return f"the program writes into {one}, which shares memory with {other}: pass a clone of one"
        return ""


class ProgramState:
    """What a program reads beside its arguments: parameters and buffers of a module by path, or tensors.

    Those of a module are the tensors that are there when they are asked for. `ties` are paths at which it must have the
    tensors of entries, which they number.
    """

    def __init__(
        self,
        owner: nn.Module | None,
        entries: Sequence[str | torch.Tensor],
        ties: Sequence[tuple[int, str]] = (),
    ) -> None:
        self._owner, self._entries, self._ties = owner, entries, ties
        # The modules on the way to them, each after the one that holds it.
        numbers: dict[tuple[str, ...], int] = {(): 0}
        self._steps: list[tuple[int, str]] = []
        self._slots: list[tuple[int, str, torch.Tensor | None]] = []
        for entry in (*entries, *(path for _, path in ties)):
            if isinstance(entry, torch.Tensor):
                self._slots.append((0, "", entry))
                continue
            *modules, name = entry.split(".")
            for depth, step in enumerate(modules):
                path = (*modules[: depth + 1],)
                if path not in numbers:
                    numbers[path] = len(numbers)
                    self._steps.append((numbers[path[:-1]], step))
            self._slots.append((numbers[(*modules,)], name, None))

    def copied(self, memo: dict[int, Any]) -> ProgramState:
        """That of a copy of the module, and copies of the tensors."""
        return ProgramState(*copy.deepcopy((self._owner, self._entries, self._ties), memo))

    def find(self) -> list[torch.Tensor | None]:
        """The tensors, None for one that the module has no more."""
        return self._find()[: len(self._entries)]

    def _find(self) -> list[torch.Tensor | None]:
        """The tensors of the entries, then those that are tied to them."""
        modules = [self._owner]
        for number, step in self._steps:
            holder = modules[number]
            modules.append(None if holder is None else holder._modules.get(step))
        tables = [({}, {}) if module is None else (module._parameters, module._buffers) for module in modules]
        found: list[torch.Tensor | None] = []
        for number, name, value in self._slots:
            if value is None:
                parameters, buffers = tables[number]
                value = parameters.get(name)
                if value is None:
                    value = buffers.get(name)
            found.append(value)
        return found

    def tensors(self) -> list[torch.Tensor]:
        """The tensors. Raises InvalidInputError if the module has one no more, or has two where there was one."""
        found: list[torch.Tensor] = []
        values = self._find()
        for number, value in enumerate(values[: len(self._entries)]):
            if value is None:
                raise InvalidInputError(f"the module has no {self._entries[number]} any more: compile it again")
            found.append(value)
        for (number, path), value in zip(self._ties, values[len(found) :], strict=True):
            if value is not found[number] and (value is None or span_of(value) != span_of(found[number])):
                raise InvalidInputError(
                    f"{self._entries[number]} and {path} of the module were one tensor, and are no more: tie them, or "
                    "compile it again"
                )
        return found


def assert_holds(holds: torch.Tensor, message: str) -> None:
    """Raise CheckError where a boolean is false; on a GPU its driver does, without a wait here."""
    if holds.is_cuda:
        torch.ops.aten._assert_async.msg(holds, message)
    elif not holds:
        raise CheckError(message)
