"""Rings of the tile dialect: copies that run ahead of the loop that reads them.

A ring has a depth: step `s` of its slabs lies in slot `s mod depth` of every buffer on it. `tile.copy` fills the slot
of a step, `tile.wait` waits until the copies of a step have landed, `tile.release` ends the reads of a step. A copy of
step `s` comes after the release of step `s - depth`, whose slot it takes.

    %ring = tile.ring 3
    %xs = tile.alloc : memref<3x32xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[%p * 32 + d0] to %xs at %ring[%p] async : memref<320xf32> to memref<3x32xf32, #tile.memory<shared>>
    }
    loop.for %i = 0 to 10 {
      tile.wait %ring[%i]
      tile.copy %x[(%i + 2) * 32 + d0] to %xs at %ring[%i + 2] async where (%i + 2 < 10) : ..
      .. loop.load %xs[%i mod 3, %t] ..
      tile.release %ring[%i]
    }

A slab may be computed by a launch, too: what its threads hold, kept on chip for readers that want it elsewhere.

%ys = tile.keep %y[%m_c, %n_c] : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
tile.store %ys to %out[%m_b * 128 + d0, %n_b * 64 + d1]
  : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> to memref<512x18944xbf16>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, MemRefType, UnitAttr, f32, i64
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import (
    verify_conditions,
    verify_map,
)
from deplodock.dialects.buffers import Memory, memory_of, memref_of, verify_buffer
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import AllocatesResult
from deplodock.dialects.loop.access import WritesDestination, verify_subscripts
from deplodock.dialects.tile.slab import KeptType, SlabSubscripts, SlotsType, verify_slab

Step: TypeAlias = tuple[AffineMap, Sequence[SSAValue]]
"""A step as an affine map with one result, and its operands."""


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """`!tile.ring`: a ring of slots."""

    name = "tile.ring"


@op_definition
class RingOp(IRDLOperation):
    """A ring of `depth` slots, none of them filled.

    Barriers of the CTA keep its steps in order or, for an `mbarrier` ring, phases of barriers in shared memory. With a
    `producer` a warpgroup of its own makes the copies, as far ahead of the readers as there are slots.

        %ring = tile.ring 3
        %ring = tile.ring 3 mbarrier
        %ring = tile.ring 3 mbarrier producer
    """

    name = "tile.ring"
    depth = prop_def(IntegerAttr.constr(i64))
    is_mbarrier = opt_prop_def(UnitAttr, prop_name="mbarrier")
    has_producer = opt_prop_def(UnitAttr, prop_name="producer")
    ring = result_def(RingType)
    traits = traits_def(AllocatesResult())
    assembly_format = "$depth (`mbarrier` $mbarrier^)? (`producer` $producer^)? attr-dict"

    def __init__(self, depth: int, *, is_mbarrier: bool = False, has_producer: bool = False):
        super().__init__(
            properties={
                "depth": IntegerAttr(depth, i64),
                "mbarrier": UnitAttr() if is_mbarrier else None,
                "producer": UnitAttr() if has_producer else None,
            },
            result_types=[RingType()],
        )

    def verify_(self) -> None:
        if self.depth.value.data < 1:
            raise VerifyException(f"a ring has at least one slot, got {self.depth.value.data}")
        if self.has_producer and not self.is_mbarrier:
            raise VerifyException("a producer and the readers go on by phases, which only an mbarrier ring has")


def depth_of(ring: SSAValue) -> int:
    """The number of slots of a ring. Raises VerifyException if no tile.ring makes it."""
    if not isinstance(ring.owner, RingOp):
        raise VerifyException("the ring must be the result of a tile.ring")
    return ring.owner.depth.value.data


@op_definition
class AllocOp(IRDLOperation):
    """A shared buffer of a CTA whose first dimension counts the slots of a ring.

    %xs = tile.alloc : memref<3x32x128xf32, #tile.memory<shared>>
    """

    name = "tile.alloc"
    result = result_def(MemRefType)
    traits = traits_def(AllocatesResult())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type: MemRefType[Attribute]):
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        if memory_of(self.result) is not Memory.SHARED:
            raise VerifyException(f"tile.alloc needs #tile.memory<shared>, got {self.result.type}")
        shape = memref_of(self.result).get_shape()
        if not shape or any(extent < 0 for extent in shape):
            raise VerifyException(f"a buffer on a ring needs a static shape of slots first, got {self.result.type}")
        verify_buffer(memref_of(self.result))


class CopiesSlab(Protocol):
    """An operation that fills a slab, with the engine that copies: threads, `async` or `tma`."""

    @property
    def is_async(self) -> UnitAttr | None: ...
    @property
    def is_tma(self) -> UnitAttr | None: ...
    @property
    def is_tf32(self) -> UnitAttr | None: ...
    @property
    def source(self) -> SSAValue: ...


def engine_of(op: CopiesSlab) -> dict[str, Attribute]:
    """The properties that say which engine copies a slab, and whether it rounds."""
    engines = {"async": op.is_async, "tma": op.is_tma, "tf32": op.is_tf32}
    return {name: attribute for name, attribute in engines.items() if attribute is not None}


def verify_engine(op: CopiesSlab) -> None:
    """Check that one engine copies a slab, which rounds it only if it can. Raises VerifyException."""
    if op.is_async and op.is_tma:
        raise VerifyException("a slab is copied by async or tma, not both")
    if op.is_tf32 and not (op.is_tma and memref_of(op.source).element_type == f32):
        raise VerifyException("tf32 rounds slabs of f32 that tma copies")


class _FillsSlot(MemoryEffect):
    """Reads the first operand's buffer, and writes the second's and the state of the ring, the third."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {
            EffectInstance(MemoryEffectKind.READ, op.operands[0]),
            EffectInstance(MemoryEffectKind.WRITE, op.operands[1]),
            EffectInstance(MemoryEffectKind.WRITE, op.operands[2]),
        }


class _AdvancesRing(MemoryEffect):
    """Writes the state of the ring, the first operand; no access moves across it."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.WRITE, op.operands[0])}


@op_definition
class CopyOp(IRDLOperation):
    """Copies the slab of a step into its slot: destination[step mod depth, d0, d1, ...] = source[subscripts].

    The subscripts are as in tile.stage. All threads of the CTA take part. `async` and `tma` copies run beside the
    program until a `tile.wait` for their step; `tma` copies may round f32 to TF32, as in tile.stage. Where a condition
    fails nothing is copied.

        tile.copy %x[%mb * 128 + d1, (%ko + 2) * 32 + d0] to %xs at %ring[%ko + 2] async where (%ko + 2 < 112)
          : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
    """

    name = "tile.copy"
    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    ring = operand_def(RingType)
    indices = var_operand_def(IndexType)
    step_indices = var_operand_def(IndexType)
    where_indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    step = prop_def(AffineMapAttr)
    where = opt_prop_def(AffineMapAttr)
    is_async = opt_prop_def(UnitAttr, prop_name="async")
    is_tma = opt_prop_def(UnitAttr, prop_name="tma")
    is_tf32 = opt_prop_def(UnitAttr, prop_name="tf32")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(_FillsSlot())
    custom_directives = (SlabSubscripts, SlotsType)
    assembly_format = (
        "$source custom<SlabSubscripts>($indices, $map) `to` $destination `at` $ring"
        " custom<Subscript>($step_indices, $step) (`async` $async^)? (`tma` $tma^)? (`tf32` $tf32^)?"
        " (`where` custom<Conditions>($where_indices, $where)^)? attr-dict `:`"
        " custom<Memref>(type($source)) `to` custom<SlotsType>(type($destination), ref($map))"
    )

    def __init__(
        self,
        source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        destination: SSAValue,
        ring: SSAValue,
        step: Step,
        where: tuple[AffineMap, Sequence[SSAValue]] | None = None,
        engine: Mapping[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[source[0], destination, ring, source[2], step[1], where[1] if where else []],
            properties={
                "map": AffineMapAttr(source[1]),
                "step": AffineMapAttr(step[0]),
                "where": AffineMapAttr(where[0]) if where else None,
                **(engine or {}),
            },
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the slab: that of the destination without its slots."""
        return memref_of(self.destination).get_shape()[1:]

    def verify_(self) -> None:
        verify_slab("copy", self.source, self.destination, self.shape, self.map.data, self.indices)
        if memref_of(self.destination).get_shape()[:1] != (depth_of(self.ring),):
            raise VerifyException(
                f"the first dimension of {self.destination.type} must be the {depth_of(self.ring)} slots of the ring"
            )
        verify_map("the step", self.step.data, self.step_indices, results=1)
        verify_engine(self)
        if self.where is None and self.where_indices:
            raise VerifyException("operands of conditions need the property `where` that says the conditions")
        if self.where is not None:
            verify_conditions("the conditions of the copy", self.where.data, self.where_indices)


class _Advance(IRDLOperation):
    """Changes the state of a ring at a step."""

    ring = operand_def(RingType)
    step_indices = var_operand_def(IndexType)
    step = prop_def(AffineMapAttr)
    traits = traits_def(_AdvancesRing())
    assembly_format = "$ring custom<Subscript>($step_indices, $step) attr-dict"

    def __init__(self, ring: SSAValue, step: Step):
        super().__init__(operands=[ring, step[1]], properties={"step": AffineMapAttr(step[0])})

    def verify_(self) -> None:
        depth_of(self.ring)
        verify_map("the step", self.step.data, self.step_indices, results=1)


@op_definition
class WaitOp(_Advance):
    """Waits until all copies of a step have landed; from here to the step's release its slot may be read.

    tile.wait %ring[%ko]
    """

    name = "tile.wait"


@op_definition
class ReleaseOp(_Advance):
    """Ends the reads of a step: its slot may be filled again.

    tile.release %ring[%ko]
    """

    name = "tile.release"


@op_definition
class KeepOp(IRDLOperation):
    """Keeps a value of all points of a CTA in shared memory: slab[subscripts] = value.

    The counterpart of tile.stage for what is computed: one thread's values become readable by the others. The slab is
    immutable; its readers stand behind it, in the same iteration. Each element is that of one point of the CTA, or of
    points that differ along axes that the subscripts do not mention; an element of no point has no value. All points
    keep theirs, active or not; only inactive points may load what an inactive one keeps.

        %ps = tile.keep %p[%q, %n] : memref<64x68xf32, #tile.memory<shared>>
    """

    name = "tile.keep"
    value = operand_def()
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    slab = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = (
        "$value custom<Subscripts>($indices, $map) attr-dict `:` custom<MemrefOf>(type($slab), type($value))"
    )

    def __init__(self, value: SSAValue, map: AffineMap, indices: Sequence[SSAValue], slab: MemRefType[Attribute]):
        super().__init__(operands=[value, indices], properties={"map": AffineMapAttr(map)}, result_types=[slab])

    def verify_(self) -> None:
        verify_subscripts(self.slab, self.map.data, self.indices)
        slab = memref_of(self.slab)
        if memory_of(self.slab) is not Memory.SHARED:
            raise VerifyException(f"a value is kept in #tile.memory<shared>, got {slab}")
        if not slab.has_static_shape():
            raise VerifyException(f"a slab needs a static shape, got {slab}")
        if self.value.type != slab.element_type:
            raise VerifyException(f"cannot keep {self.value.type} in {slab}: the element types differ")


@op_definition
class StoreOp(IRDLOperation):
    """Stores a kept slab in boxes: destination[subscripts] = slab[d0, d1, ...], by the tensor memory accelerator.

    The subscripts are affine in the slab's own coordinates, written bare (`d0`, `d1`), and in SSA indices that are the
    same for a CTA. What lies outside of the destination is not stored. It is done when the kernel ends; a value that
    the next tile of the CTA keeps in the slab waits until this one has been read.

        tile.store %ys to %out[%m_b * 128 + d0, %n_b * 64 + d1]
          : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> to memref<512x18944xbf16>
    """

    name = "tile.store"
    slab = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    traits = traits_def(WritesDestination())
    custom_directives = (SlabSubscripts, KeptType)
    assembly_format = (
        "$slab `to` $destination custom<SlabSubscripts>($indices, $map) attr-dict `:`"
        " custom<KeptType>(type($slab), ref($map)) `to` custom<Memref>(type($destination))"
    )

    def __init__(self, slab: SSAValue, destination: SSAValue, map: AffineMap, indices: Sequence[SSAValue]):
        super().__init__(operands=[slab, destination, indices], properties={"map": AffineMapAttr(map)})

    def verify_(self) -> None:
        shape = memref_of(self.slab).get_shape()
        verify_slab("store", self.destination, self.slab, shape, self.map.data, self.indices)
        if memory_of(self.slab) is not Memory.SHARED:
            raise VerifyException(f"a slab is stored from #tile.memory<shared>, got {self.slab.type}")
