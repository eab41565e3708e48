"""Run a program at kernel level on tensors: on the GPU without copying them, or on a CPU as the simulator does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from itertools import compress, takewhile
from operator import add, attrgetter, le, or_
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.errors import Error
from deplodock.frontend.arrays import to_array, to_tensor
from deplodock.frontend.importer import is_scalar
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.pytorch.signature import TensorFacts
from deplodock.runtime.device import Executable
from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.simulated import LANE_STEP_LIMIT, lane_steps

_ADDRESS = torch.Tensor.data_ptr
_IS_CONTIGUOUS = torch.Tensor.is_contiguous
_IS_NEGATED = torch.Tensor.is_neg
_DEVICE, _DTYPE = attrgetter("device"), attrgetter("dtype")

_LOG = logging.getLogger("deplodock")
_WORK = 10_000
"""The steps that comparing the addresses of two tensors may take."""


class Runner(Protocol):
    """Computes the results of a program from its inputs, which have the shapes and dtypes that it was compiled for."""

    device: torch.device

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """What keeps other calls away while it lasts, for whoever reads results that the next call overwrites."""
        ...

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors that share no memory with inputs or each other; a result that is None is left out."""
        ...


class CudaRunner:
    """Launches the kernels on tensors of a GPU, in the order of PyTorch's current stream there, and waits for nothing.

    Tensors that are elsewhere, that are not contiguous or that start at no multiple of 16 bytes are copied first.
    """

    def __init__(
        self,
        program: ModuleOp | PlannedProgram,
        device: torch.device,
        results: Sequence[torch.Tensor] | Sequence[TensorFacts],
        reused: int = 0,
    ) -> None:
        """`results` say shapes and dtypes; so many first ones, as `reused` says, lie in memory that calls reuse."""
        self.device, self._gpu = device, device.index or 0
        self.executable = Executable(program, self._gpu)
        # One thread at a time: what is placed is launched, and what is launched is known when the next stream waits.
        self.turn = threading.RLock()
        self._stream: int | None = None
        self._last: torch.cuda.Stream | None = None
        plan = self.executable.plan
        # A buffer has the bytes of its result, whose dtype numpy may not have.
        facts = {
            number: (result.shape, result.dtype)
            for number, result in zip(plan.outputs, results, strict=True)
            if number not in plan.inputs
        }
        new = [number for number in facts if number in plan.outputs[reused:]]
        kept = [number for number in facts if number not in new]
        unseen = [
            number
            for number, buffer in enumerate(plan.buffers)
            if buffer.offset is None and number not in facts and number not in plan.inputs
        ]
        self._new = [facts[number] for number in new]
        self._kept = [self._empty(*facts[number]) for number in kept]
        self._unseen = [self._empty((plan.buffers[number].bytes,), torch.uint8) for number in unseen]
        self._fixed = [value.data_ptr() for value in (*self._kept, *self._unseen)]
        self._launches = self.executable.bind([*plan.inputs, *new, *kept, *unseen])
        places = {number: place for place, number in enumerate([*plan.inputs, *new, *kept])}
        self._places = [places[number] for number in plan.outputs]
        earlier = enumerate(plan.outputs)
        self._copied = [n for n, number in earlier if number in plan.inputs or number in plan.outputs[:n]]

    def _empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        # What kernels read is kept until they are launched.
        read, addresses = placed(inputs, self.device)
        made = [self._empty(*facts) for facts in self._new]
        with self.turn:
            self._launches.place([*addresses, *map(_ADDRESS, made), *self._fixed])
            self._launch()
        values = [*read, *made, *self._kept]
        results = [values[place] for place in self._places]
        for number in self._copied:
            results[number] = results[number].clone()
        return results

    def _launch(self) -> None:
        """Launch on the current stream.

        All runs share memory, so a run on another stream than the last waits for that. A CUDA graph is captured without
        that: whoever replays it on several streams at once orders them.
        """
        stream = current_stream(self._gpu)
        if stream != self._stream and not self.executable.is_capturing(stream):
            current = torch.cuda.current_stream(self.device)
            if self._last is not None:
                current.wait_stream(self._last)
            self._stream, self._last = stream, current
        self.executable.launch(self._launches, stream)


def current_stream(gpu: int) -> int:
    """The handle of PyTorch's current stream of a GPU, without an object for it."""
    return torch._C._cuda_getCurrentRawStream(gpu)


class CpuRunner:
    """Runs the kernels in the simulator, or, where that would take too long, the program at loop level in numpy."""

    def __init__(self, module: ModuleOp, loops: ModuleOp) -> None:
        self.device = torch.device("cpu")
        self.turn = nullcontext()
        steps = lane_steps(module)
        self.simulates = steps <= LANE_STEP_LIMIT
        self.module = module
        self._loops = loops
        if not self.simulates:
            _LOG.warning(
                "deplodock: simulating about %.1e lane steps would take too long (the limit is %.0e): "
                "each call evaluates the program at loop level instead",
                steps,
                LANE_STEP_LIMIT,
            )

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Raises Error where the simulator finds a mistake, which is one of the compiler's."""
        arrays = [to_array(value.to(self.device)) for value in inputs]
        if not self.simulates:
            return distinct([to_tensor(array.copy()) for array in evaluate(self._loops, arrays)], inputs)
        simulation = simulate(self.module, arrays, counts=False)
        if simulation.findings:
            raise Error(f"the simulator finds a mistake in a compiled kernel: {simulation.findings[0]}")
        return distinct([to_tensor(array) for array in simulation.outputs], inputs)


def placed(inputs: Sequence[torch.Tensor], device: torch.device) -> tuple[Sequence[torch.Tensor], list[int]]:
    """The inputs as kernels read them, with their addresses.

    They are themselves, or as `moved` makes those that are on another device, or as `aligned` does.
    """
    if [*map(_DEVICE, inputs)].count(device) != len(inputs):
        inputs = [moved(value, device) for value in inputs]
    addresses = [*map(_ADDRESS, inputs)]
    is_ready = all(map(_IS_CONTIGUOUS, inputs)) and not any(map(_IS_NEGATED, inputs))
    if is_ready and not reduce(or_, addresses, 0) % ACCESS_BYTES:
        return inputs, addresses
    inputs = [*map(aligned, inputs)]
    return inputs, [*map(_ADDRESS, inputs)]


def moved(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device. A scalar goes from the CPU to a GPU by a launch, for which nothing waits."""
    if is_scalar(value) and device.type != "cpu":
        return torch.full((), value.item(), dtype=value.dtype, device=device)
    return value.to(device)


def aligned(value: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy where it is not contiguous, negates, or is not aligned as wide accesses need it."""
    value = value.detach().resolve_neg().contiguous()
    return value.clone() if value.data_ptr() % ACCESS_BYTES else value


def lie_apart(inputs: Sequence[torch.Tensor], sizes: Sequence[int]) -> bool:
    """Whether tensors of so many bytes are all contiguous, and none shares memory with another."""
    if not all(map(_IS_CONTIGUOUS, inputs)):
        return False
    addresses = [*map(_ADDRESS, inputs)]
    starts, ends = sorted(addresses), sorted(map(add, addresses, sizes))
    # Each ends before the next starts.
    return all(map(le, ends, starts[1:]))


def repeats(value: torch.Tensor) -> bool:
    """Whether a tensor sees an element more than once, as an expanded one does."""
    return any(extent > 1 and not stride for extent, stride in zip(value.shape, value.stride(), strict=True))


def write_back(inputs: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy new values, from memory of their own, into inputs: those of each dtype at once."""
    dtypes = [*map(_DTYPE, inputs)]
    for dtype in {*dtypes}:
        chosen = [own is dtype for own in dtypes]
        targets, sources = [*compress(inputs, chosen)], [*compress(values, chosen)]
        torch._foreach_copy_(targets, sources)  # pyright: ignore[reportPrivateImportUsage]


def distinct(results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Results, copied where one is the memory of an input or of an earlier result."""
    known = set(map(_ADDRESS, inputs))
    made: list[torch.Tensor] = []
    for result in results:
        made.append(result.clone() if result.data_ptr() in known else result)
        known.add(made[-1].data_ptr())
    return made


def laid_out(
    value: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...], order: Sequence[int] | None = None
) -> torch.Tensor:
    """A contiguous tensor whose dimension `i` is `order[i]` of the result, as a tensor of that shape and those strides.

    It is the same memory if that is dense, and is no view. Without an order the dimensions are those of the result.
    """
    if value.stride() == strides and value.shape == shape:
        return value
    order = range(len(shape)) if order is None else order
    wanted = [strides[dim] for dim in order]
    pairs = zip(value.shape, value.stride(), wanted, strict=True)
    if all(extent == 1 or own == other for extent, own, other in pairs):
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        return made.set_(value.untyped_storage(), value.storage_offset(), torch.Size(shape), strides)
    made = torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
    target, source = made.permute(tuple(order)), value
    for dim, stride in enumerate(wanted):
        # All elements along a dimension without a stride are one.
        if not stride and value.shape[dim] > 1:
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    target.copy_(source)
    return made


def overlaps_of(values: Sequence[Any]) -> set[tuple[int, int, int]]:
    """Which tensors share memory: the numbers of each two, and how many bytes after the first the second starts."""
    groups: dict[int, list[tuple[int, int, int]]] = {}
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.numel():
            last = sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
            start, size = value.data_ptr(), (last + 1) * value.element_size()
            groups.setdefault(value.untyped_storage().data_ptr(), []).append((start, start + size, number))
    return {
        (one, other, start - first)
        for group in map(sorted, groups.values())
        for place, (first, end, one) in enumerate(group)
        for start, _, other in takewhile(lambda following, end=end: following[0] < end, group[place + 1 :])
        if share_memory(values[one], values[other])
    }


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have an element in common; where that takes long to find out, they count as having one."""
    arrays = _addresses(one), _addresses(other)
    try:
        return np.shares_memory(*arrays, max_work=_WORK)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


def _addresses(value: torch.Tensor) -> np.ndarray[Any, Any]:
    """An array at the addresses of a tensor's elements, which may be on a GPU: they must not be read."""
    size = value.element_size()
    strides = tuple(stride * size for stride in value.stride())
    memory = SimpleNamespace(
        __array_interface__={
            "version": 3, "typestr": f"|V{size}", "shape": tuple(value.shape), "strides": strides,
            "data": (value.data_ptr(), False),
        }
    )  # fmt: skip
    return np.asarray(memory)
