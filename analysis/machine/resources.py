"""What a kernel takes of an SM, the shared memory of its allocations, and the bytes of its parameters."""

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
    POINTER_BYTES,
    RESERVED,
    SHARED_UNIT,
    STATIC_LIMIT,
    TENSOR_MAP_ALIGNMENT,
    TENSOR_MAP_BYTES,
    target_at,
)
from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.kernel import FuncOp, TensorMapType
from deplodock.dialects.kernel.order import MakeBarriers, order_of
from deplodock.dialects.kernel.tma import box_alignment
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
    if isinstance(type, TensorMapType):
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
