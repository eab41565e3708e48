"""What operations say of themselves: the memory that they touch, who takes part, and what the GPU must have.

Analyses, passes, the bank model and the simulator ask an operation for these facts, and so do its effects on memory.
How operations of kernels order accesses is in `kernel/order.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, OpTrait
from xdsl.utils.str_enum import StrEnum

from deplodock.dialects.buffers import Memory, memory_of

Place: TypeAlias = tuple[AffineMap, Sequence[SSAValue]]
"""An affine map, and its operands."""


class Landing(Enum):
    """When an asynchronous access is over.

    A copy lands for its thread at a wait for its group, or for those who wait for a phase. A product of a warpgroup has
    read its factors, and added to its accumulators, at a wait for its own group; a store of a box has read it at one
    for its own.
    """

    GROUP = "group"
    PHASE = "phase"
    PRODUCT = "product"
    STORE = "store"


@dataclass(frozen=True, eq=False)
class Access:
    """One read or write of an operation: a box of elements of a buffer, from the subscripts on.

    The buffer is a memref, or a tensor map that stands for one in global memory.
    """

    op: Operation
    buffer: SSAValue
    writes: bool
    map: AffineMap
    indices: Sequence[SSAValue]
    extents: tuple[int, ...]
    """The elements of the box along each dimension."""
    where: Place | None = None
    """The conditions under which it happens, as those of `loop.guard`; None: always."""
    lands: Landing | None = None
    """When it takes effect and is over; None: at the operation."""
    by_proxy: bool = False
    """Whether the asynchronous proxy makes it, which sees what threads wrote only after their fences."""
    rank: Place | None = None
    """The CTA of the cluster whose memory it touches; None: that of the thread."""
    is_atomic: bool = False
    along: int = -1
    """The dimension of neighbours in memory: the last one, or the last of several elements."""

    @cached_property
    def width(self) -> int:
        """The elements along the dimension of neighbours in memory."""
        return self.extents[self.along] if self.extents else 1

    @cached_property
    def memory(self) -> Memory | None:
        """The memory of the buffer; None: global memory."""
        return memory_of(self.buffer) if isinstance(self.buffer.type, MemRefType) else None


def row(rank: int, width: int = 1, along: int = -1) -> tuple[int, ...]:
    """The extents of `width` elements along one of so many dimensions."""
    extents = [1] * rank
    if rank:
        extents[along] = width
    return tuple(extents)


def last_elements(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """The extents of `count` neighbours in row-major order, which fill the last dimensions of a shape."""
    extents: list[int] = []
    for extent in reversed(shape):
        extents.append(min(count, extent))
        count = max(1, count // max(1, extent))
    return tuple(reversed(extents))


class TouchesMemory:
    """An operation that reads or writes elements of buffers."""

    def accesses(self) -> Sequence[Access]:
        """What it reads and writes, reads first; not what operations inside of it do."""
        raise NotImplementedError


def accesses_of(op: Operation) -> Sequence[Access]:
    """The accesses of one operation, none if it touches no elements of buffers."""
    return op.accesses() if isinstance(op, TouchesMemory) else ()


class AccessEffects(MemoryEffect):
    """Reads and writes the buffers that the op's accesses say."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        kinds = {False: MemoryEffectKind.READ, True: MemoryEffectKind.WRITE}
        return {EffectInstance(kinds[access.writes], access.buffer) for access in accesses_of(op)}


class AllocatesResult(MemoryEffect):
    """Allocates the op's own result, so an unused allocation is dead."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.ALLOC, op.results[0])}


class HostCode(OpTrait):
    """The op stands in a host function, beside the launches of kernels."""


class MakesZeros(OpTrait):
    """In a host function the result is a buffer of zeros, made once for the program."""


class Collective(OpTrait):
    """All threads of a CTA, or of a role of it, must reach the op, or none."""


class GivesUniform(OpTrait):
    """The results are the same for all threads of a CTA, or of a role of it."""


class Feature(StrEnum):
    """What GPUs have only from some architecture on, as messages call it."""

    ASYNC_COPIES = "asynchronous copies"
    GROUPS = "groups of asynchronous copies"
    PHASES = "barriers with phases"
    EXPECTED_BYTES = "phases that expect bytes"
    BOXES = "copies of boxes"
    CLUSTERS = "operations of clusters"
    MMA = "products of matrices by warps"
    WARPGROUPS = "products of warpgroups"
    ROLE_REGISTERS = "registers of roles"
    EARLY_LAUNCHES = "launches that begin early"
    TF32_ROUNDING = "rounding to TF32, ties to even"


class DescribesBuffer:
    """A type of kernel parameters that stand for a buffer of global memory: tensor maps."""


class NeedsFeature:
    """An operation that not every GPU has."""

    def needs(self) -> Feature | None:
        """What the GPU must have for it."""
        raise NotImplementedError
