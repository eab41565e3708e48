"""Where the intermediate buffers of a host function may lie in one block of scratch memory.

Two buffers share memory if no operation uses one while the other still holds a value. The offsets are those of "greedy
by size": the largest buffer first, each at the lowest place where nothing that lives at the same time lies (Pisarchyk
and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func, memref
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.dialects.kernel.tma import TensorMapType
from deplodock.dialects.loop import PartOp, memref_of

ALIGNMENT = 256
"""Bytes to which buffers are aligned, as `cudaMalloc` aligns them (CUDA C++ Programming Guide 13.0, section 5.3.2)."""


@dataclass(frozen=True)
class Scratch:
    """The offset in bytes of each planned buffer, in the order of the function, and the size of the whole."""

    offsets: dict[SSAValue, int]
    size: int


@dataclass(frozen=True)
class _Lifetime:
    """A buffer, its size in bytes, and the first and last operation that use it, a part or a tensor map of it."""

    buffer: SSAValue
    size: int
    first: int
    last: int

    def meets(self, other: _Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan(function: func.FuncOp) -> Scratch:
    """A place for every buffer that a host function allocates, uses and does not return.

    Buffers of dynamic shape are left out: they need allocations of their own.
    """
    lifetimes = _lifetimes(function.body.block)
    placed: list[tuple[int, _Lifetime]] = []
    for lifetime in sorted(lifetimes, key=lambda lifetime: (-lifetime.size, lifetime.first)):
        start = 0
        for offset, other in sorted(placed, key=lambda place: place[0]):
            if other.meets(lifetime) and offset < start + lifetime.size:
                start = max(start, offset + other.size)
        placed.append((start, lifetime))
    found = {lifetime.buffer: start for start, lifetime in placed}
    offsets = {lifetime.buffer: found[lifetime.buffer] for lifetime in lifetimes}
    return Scratch(offsets, max((start + lifetime.size for start, lifetime in placed), default=0))


def _lifetimes(block: Block) -> list[_Lifetime]:
    positions = {op: position for position, op in enumerate(block.ops)}
    found: list[_Lifetime] = []
    for op in block.ops:
        if not isinstance(op, memref.AllocOp) or op.dynamic_sizes:
            continue
        users = [block.find_ancestor_op_in_block(user) for user in _users(op.memref)]
        uses = [positions[user] for user in users if user is not None]
        if uses and not any(isinstance(user, func.ReturnOp) for user in users):
            found.append(_Lifetime(op.memref, _padded_size(op.memref), min(uses), max(uses)))
    return found


def _users(buffer: SSAValue) -> Iterator[Operation]:
    """The operations that use a buffer, a part or a tensor map of it."""
    for use in buffer.uses:
        yield use.operation
        for result in use.operation.results:
            if isinstance(result.type, TensorMapType) or isinstance(use.operation, PartOp):
                yield from _users(result)


def _padded_size(buffer: SSAValue) -> int:
    type = memref_of(buffer)
    size = prod(type.get_shape()) * element_bytes(type.element_type)
    return -(-size // ALIGNMENT) * ALIGNMENT
