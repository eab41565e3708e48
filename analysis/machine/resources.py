"""What a kernel takes of an SM, the shared memory of its allocations, and the bytes of its parameters.

From these follow how many CTAs share an SM, what limits them, and how many registers a thread can have. The rules are
those of NVIDIA's occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit), for sm_80 and later:
registers are given to warps in units of 256, each of the four partitions of an SM holds a quarter of them, and a CTA's
shared memory is given in units of 128 bytes, with 1 KB besides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from deplodock.analysis.access.alignment import element_bytes, strides_of
from deplodock.analysis.machine.targets import (
    ACCESS_BYTES,
    MBARRIER_BYTES,
    PARTITIONS,
    POINTER_BYTES,
    REGISTER_UNIT,
    RESERVED,
    SHARED_UNIT,
    STATIC_LIMIT,
    TENSOR_MAP_ALIGNMENT,
    TENSOR_MAP_BYTES,
    WARP,
    has_feature,
    target_at,
)
from deplodock.dialects.buffers import box_alignment
from deplodock.dialects.interfaces import DescribesBuffer, Feature, accesses_of
from deplodock.dialects.kernel import FuncOp, TargetAttr
from deplodock.dialects.kernel.order import MakeBarriers, order_of
from deplodock.dialects.kernel.roles import REGISTERS
from deplodock.dialects.loop import memref_of
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.tile import Binding, LaunchOp, Memory, memory_of


@dataclass(frozen=True)
class SharedLayout:
    """The shared memory of a kernel.

    `offsets` holds each buffer in order with its first byte; `size` is their sum in bytes, each padded to the
    widest access, or to the alignment of a box. The barriers with phases take `barriers` bytes besides, which are
    always declared statically.
    """

    offsets: tuple[tuple[SSAValue, int], ...]
    size: int
    barriers: int

    @property
    def alignment(self) -> int:
        """What the address of the pool is a multiple of, in bytes."""
        return max((alignment_of(buffer) for buffer, _ in self.offsets), default=ACCESS_BYTES)

    @property
    def is_static(self) -> bool:
        """Whether the buffers are declared statically; else all of them share one dynamic pool."""
        return self.size + self.barriers <= STATIC_LIMIT

    @property
    def static_bytes(self) -> int:
        """The bytes declared statically, up to where the pool starts if there is one."""
        return self.barriers + self.size if self.is_static else _padded(self.barriers, self.alignment)

    @property
    def dynamic_bytes(self) -> int:
        """The bytes to ask for at launch."""
        return 0 if self.is_static else self.size

    @property
    def total(self) -> int:
        """All bytes of a CTA."""
        return self.static_bytes + self.dynamic_bytes


def shared_memory(function: FuncOp) -> SharedLayout:
    """The layout of a kernel's shared memory. Raises UnsupportedError for elements without a size."""
    offsets: list[tuple[SSAValue, int]] = []
    size = barriers = 0
    for op in function.body.walk():
        if isinstance(made := order_of(op), MakeBarriers):
            barriers += made.slots * MBARRIER_BYTES
        for buffer in op.results:
            if isinstance(buffer.type, MemRefType) and memory_of(buffer) is Memory.SHARED:
                first = _padded(size, alignment_of(buffer))
                offsets.append((buffer, first))
                size = first + _padded(buffer_bytes(buffer), ACCESS_BYTES)
    return SharedLayout(tuple(offsets), size, barriers)


def alignment_of(buffer: SSAValue) -> int:
    """What the address of a shared buffer is a multiple of, in bytes: that of a box where the proxy accesses any."""
    accesses = (access for use in buffer.uses for access in accesses_of(use.operation))
    is_tiled = any(access.by_proxy and access.buffer is buffer for access in accesses)
    return box_alignment(memref_of(buffer)) if is_tiled else ACCESS_BYTES


def _padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def shared_bytes(function: FuncOp) -> int:
    """The bytes of a kernel's shared memory, static or dynamic. Raises UnsupportedError for elements without a size."""
    return shared_memory(function).total


def parameter_bytes(parameters: Iterable[tuple[int, int]]) -> int:
    """The bytes of a kernel's parameters, each at a multiple of its alignment; `parameter` gives both."""
    size = 0
    for bytes, unit in parameters:
        size = _padded(size, unit) + bytes
    return size


def parameter(type: Attribute) -> tuple[int, int]:
    """The bytes of a parameter, a pointer, tensor map or scalar, and what its address is a multiple of.

    Raises UnsupportedError for a type that has no size.
    """
    if isinstance(type, DescribesBuffer):
        return TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT
    size = POINTER_BYTES if isinstance(type, MemRefType) else element_bytes(type)
    return size, size


def buffer_elements(type: MemRefType[Attribute]) -> int:
    """The number of elements from the start of a verified on-chip buffer to its last one, with the layout's gaps."""
    shape, offset = type.get_shape(), type.get_offset()
    assert offset is not None
    if 0 in shape:
        return 0
    return offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides_of(type), strict=True)) + 1


def buffer_bytes(buffer: SSAValue) -> int:
    """The bytes of a verified on-chip buffer. Raises UnsupportedError where its elements have no size."""
    type = memref_of(buffer)
    return buffer_elements(type) * element_bytes(type.element_type)


def shared_budget(launch: LaunchOp) -> int:
    """The bytes of shared memory that a CTA of a launch can have, with as many on an SM as it wants.

    Every resident CTA takes 1 KB besides its own (CUDA C++ Programming Guide, "Compute Capability 8.x" and later).
    """
    target = target_at(launch)
    share = target.fact("shared_per_sm") // launch.ctas_per_sm // SHARED_UNIT * SHARED_UNIT
    return min(target.fact("shared_per_block") - _bytes_of_folds(launch), share - RESERVED)


def _bytes_of_folds(launch: LaunchOp) -> int:
    """The bytes of a CTA each of whose threads leaves the others one value of each fold over threads.

    Folds within warps need none of that.
    """
    extents = {axis: launch.extent(axis) or 1 for axis in launch.bound_to(Binding.THREAD)}
    threads = {axis for axis, extent in extents.items() if extent > 1}
    folds = [op for op in launch.body.walk() if isinstance(op, AxisFold) and not threads.isdisjoint(op.axes)]
    values = [result.type for op in folds for result in op.results]
    return math.prod(extents.values()) * sum(map(element_bytes, values))


THREAD_UNIT = REGISTER_UNIT // WARP
"""The registers in which a thread is given them."""


@dataclass(frozen=True)
class Occupancy:
    """CTAs that share an SM, and what keeps it from more: threads, registers, shared memory or CTAs."""

    ctas: int
    limited_by: str

    def __str__(self) -> str:
        return f"{self.ctas} CTAs on an SM, limited by {self.limited_by}"


def occupancy(target: TargetAttr, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of CTAs of `threads`, with these registers a thread and bytes of shared memory a CTA."""
    limits = {
        "threads": _by_threads(target, threads),
        "registers": _by_registers(target, threads, registers),
        "shared memory": _by_shared(target, shared),
        "CTAs": target.fact("blocks_per_sm"),
    }
    limiting = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limiting], limiting)


def register_limit(target: TargetAttr, threads: int, ctas: int) -> int:
    """The most registers of a thread with which `ctas` CTAs of `threads` share an SM; 0 if the threads are too many."""
    if ctas > _by_threads(target, threads):
        return 0
    warps = -(-_warps(threads) * ctas // PARTITIONS)
    each = target.fact("registers_per_sm") // PARTITIONS // warps
    limit = min(each // REGISTER_UNIT * THREAD_UNIT, target.fact("registers_per_thread"))
    return limit if _by_registers(target, threads, limit) >= ctas else 0


def role_registers(target: TargetAttr, readers: int, producers: int, ctas: int) -> tuple[int, int] | None:
    """The registers of a thread that copies and of one that reads, where `ctas` CTAs of both share an SM.

    The producers keep the fewest there are, the readers get what is left of what the CTA starts with. None where the
    target gives roles no registers of their own, or the readers would not have more than without.
    """
    if not has_feature(target, Feature.ROLE_REGISTERS):
        return None
    threads = readers + producers
    start = start_registers(target, threads, ctas)
    left = (start * threads - REGISTERS[0] * producers) // readers // THREAD_UNIT * THREAD_UNIT
    most = min(left, target.fact("registers_per_thread") // THREAD_UNIT * THREAD_UNIT)
    return (REGISTERS[0], most) if most > start else None


def start_registers(target: TargetAttr, threads: int, ctas: int) -> int:
    """The registers that a thread starts with where roles change them: as many as `ctas` CTAs leave to each."""
    return register_limit(target, threads, ctas) // THREAD_UNIT * THREAD_UNIT


def threads_of_sm(threads: int) -> int:
    """The threads of an SM that a CTA of so many takes: whole warps."""
    return _warps(threads) * WARP


def shared_of_sm(shared: int) -> int:
    """The bytes of an SM's shared memory that a CTA with so many takes."""
    return -(-(shared + RESERVED) // SHARED_UNIT) * SHARED_UNIT


def _warps(threads: int) -> int:
    return -(-threads // WARP)


def _by_threads(target: TargetAttr, threads: int) -> int:
    if threads > target.fact("threads_per_block"):
        return 0
    return target.fact("threads_per_sm") // threads_of_sm(threads)


def _by_registers(target: TargetAttr, threads: int, registers: int) -> int:
    """The CTAs that the registers allow. A CTA is started only if the warps of all partitions could take as many."""
    per_warp = -(-max(registers, 1) * WARP // REGISTER_UNIT) * REGISTER_UNIT
    total, assumed = target.fact("registers_per_sm"), -(-_warps(threads) // PARTITIONS) * PARTITIONS
    if registers > target.fact("registers_per_thread") or per_warp * assumed > total:
        return 0
    return total // PARTITIONS // per_warp * PARTITIONS // _warps(threads)


def _by_shared(target: TargetAttr, shared: int) -> int:
    if shared > target.fact("shared_per_block"):
        return 0
    return target.fact("shared_per_sm") // shared_of_sm(shared)
