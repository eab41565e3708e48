"""Slabs that a launch computes: what its threads hold, kept on chip for readers that want it elsewhere."""

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
from deplodock.dialects.loop.access import verify_subscripts


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
