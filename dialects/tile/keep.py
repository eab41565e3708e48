"""Slabs that a launch computes: what its threads hold, kept on chip for readers that want it elsewhere.

%ys = tile.keep %y[%m_c, %n_c] : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
tile.store %ys to %out[%m_b * 128 + d0, %n_b * 64 + d1]
  : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> to memref<512x18944xbf16>
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.buffers import Memory, memory_of, memref_of
from deplodock.dialects.formats import op_definition
from deplodock.dialects.loop.access import WritesDestination, verify_subscripts
from deplodock.dialects.tile.slab import KeptType, SlabSubscripts, verify_slab


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
