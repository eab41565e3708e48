"""Run a program at kernel level on tensors: on the GPU without copying them, or on a CPU as the simulator does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from itertools import takewhile
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.errors import Error
from deplodock.frontend.arrays import to_array, to_tensor
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.pytorch.signature import TensorFacts
from deplodock.runtime.device import Executable, new_stream
from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.simulated import LANE_STEP_LIMIT, lane_steps

_LOG = logging.getLogger("deplodock")
_WORK = 10_000
"""The steps that comparing the addresses of two tensors may take."""


class Runner(Protocol):
    """Computes the results of a program from its inputs, which have the shapes and dtypes that it was compiled for."""

    device: torch.device

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """New tensors, but for a result that is an input or a constant; a result that is None is left out."""
        ...


class CudaRunner:
    """Launches the kernels on tensors of the GPU, in the order of PyTorch's current stream, and waits for nothing.

    Tensors that are not contiguous or that start at no multiple of 16 bytes are copied first.
    """

    def __init__(
        self, program: ModuleOp | PlannedProgram, results: Sequence[torch.Tensor] | Sequence[TensorFacts]
    ) -> None:
        """`results` say shapes and dtypes."""
        self.device = torch.device("cuda", 0)
        self.executable = Executable(program)
        self._results = [(result.shape, result.dtype) for result in results]
        # One thread at a time: what is bound is launched, and what is launched is known when the next stream waits.
        self._launching = threading.Lock()
        self._bound: tuple[dict[int, int], Any] = {}, ()
        self._stream: Any = None
        self._last: torch.cuda.Stream | None = None

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        plan = self.executable.plan
        given = dict(zip(plan.inputs, map(aligned, inputs), strict=True))
        # A buffer has the bytes of its result, whose dtype numpy may not have.
        made = {
            number: torch.empty(shape, dtype=dtype, device=self.device)
            for number, (shape, dtype) in zip(plan.outputs, self._results, strict=True)
            if number not in given
        }
        unused = {
            number: torch.empty(buffer.bytes, dtype=torch.uint8, device=self.device)
            for number, buffer in enumerate(plan.buffers)
            if buffer.offset is None and number not in given and number not in made
        }
        memory = {**given, **made, **unused}
        addresses = {number: value.data_ptr() for number, value in memory.items()}
        with self._launching:
            if addresses != self._bound[0]:
                self._bound = addresses, self.executable.bind(addresses)
            self._launch(self._bound[1])
        own = dict(zip(plan.inputs, inputs, strict=True))
        return [own[number] if number in own else made[number] for number in plan.outputs]

    def _launch(self, calls: Any) -> None:
        """Launch on the current stream; pycuda takes over none but the null stream, so work for others waits for them.

        All runs share scratch memory, so a run on another stream than the last waits for that, too. A CUDA graph is
        captured without that: whoever replays it on several streams at once orders them.
        """
        current = torch.cuda.current_stream(self.device)
        if not torch.cuda.is_current_stream_capturing():
            if self._last is not None and self._last != current:
                current.wait_stream(self._last)
            self._last = current
        if current.cuda_stream == 0:
            self.executable.launch(calls)
            return
        if self._stream is None:
            self._stream = new_stream()
        shared = torch.cuda.ExternalStream(self._stream.handle, self.device)
        shared.wait_stream(current)
        self.executable.launch(calls, self._stream)
        current.wait_stream(shared)


class CpuRunner:
    """Runs the kernels in the simulator, or, where that would take too long, the program at loop level in numpy."""

    def __init__(self, module: ModuleOp, loops: ModuleOp) -> None:
        self.device = torch.device("cpu")
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
        arrays = [to_array(value) for value in inputs]
        if not self.simulates:
            return [to_tensor(array.copy()) for array in evaluate(self._loops, arrays)]
        simulation = simulate(self.module, arrays)
        if simulation.findings:
            raise Error(f"the simulator finds a mistake in a compiled kernel: {simulation.findings[0]}")
        return [to_tensor(array) for array in simulation.outputs]


def aligned(value: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy where it is not contiguous, negates, or is not aligned as wide accesses need it."""
    value = value.detach().resolve_neg().contiguous()
    return value.clone() if value.data_ptr() % ACCESS_BYTES else value


def distinct(results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a runner, copied where one is the memory of an input or of an earlier result."""
    known = {value.data_ptr() for value in inputs}
    made: list[torch.Tensor] = []
    for result in results:
        made.append(result.clone() if result.data_ptr() in known else result)
        known.add(made[-1].data_ptr())
    return made


def laid_out(value: torch.Tensor, shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> torch.Tensor:
    """A contiguous tensor whose dimension `i` is `order[i]` of the result, as a tensor of that shape and those strides.

    It is the same memory if that is dense, and is no view.
    """
    if value.stride() == tuple(strides) and value.shape == tuple(shape):
        return value
    wanted = [strides[dim] for dim in order]
    pairs = zip(value.shape, value.stride(), wanted, strict=True)
    if all(extent == 1 or own == other for extent, own, other in pairs):
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        return made.set_(value.untyped_storage(), value.storage_offset(), torch.Size(shape), tuple(strides))
    made = torch.empty_strided(tuple(shape), tuple(strides), dtype=value.dtype, device=value.device)
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
