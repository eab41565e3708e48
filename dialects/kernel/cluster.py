"""Operations of CTAs that run together as a cluster and see each other's shared memory (PTX ISA, sm_90).

    kernel.func @k(%out: memref<8xf32>) blocks(%block = 8) threads(%thread = 32) cluster 4 {
      %part = kernel.alloc : memref<32xf32, #tile.memory<shared>>
      ..
      kernel.cluster_barrier
      %v = kernel.cluster_load %part[%thread] of (%block + 1) mod 4 : memref<32xf32, #tile.memory<shared>>
      kernel.cluster_barrier
    }

The CTAs of a cluster have consecutive ids; the rank of one is its id modulo the size of the cluster. The last barrier
keeps a CTA, and so its shared memory, there until others have read it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_map
from deplodock.dialects.buffers import Memory, memory_of
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import (
    Access,
    AccessEffects,
    Collective,
    Feature,
    NeedsFeature,
    Place,
    TouchesMemory,
    row,
)
from deplodock.dialects.kernel.order import Meet, OrdersAccesses, OrdersSharedMemory
from deplodock.dialects.loop.access import memref_of, verify_subscripts


@op_definition
class ClusterBarrierOp(IRDLOperation, OrdersAccesses, NeedsFeature):
    """Waits for all threads of the cluster; what they did to shared memory before it is seen by all accesses after it.

    kernel.cluster_barrier
    """

    name = "kernel.cluster_barrier"
    traits = traits_def(OrdersSharedMemory(), Collective())
    assembly_format = "attr-dict"

    def order(self) -> Meet:
        """All threads of the cluster meet."""
        return Meet(is_cluster=True)

    def needs(self) -> Feature:
        """Clusters."""
        return Feature.CLUSTERS


@op_definition
class ClusterLoadOp(IRDLOperation, TouchesMemory, NeedsFeature):
    """Reads an element of the shared memory of a CTA of the cluster, by its rank.

    %v = kernel.cluster_load %part[%r, %thread] of %s : memref<16x128xf32, #tile.memory<shared>>
    """

    name = "kernel.cluster_load"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    rank_indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    rank = prop_def(AffineMapAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects())
    assembly_format = (
        "$source custom<Subscripts>($indices, $map) `of` custom<Index>($rank_indices, $rank) attr-dict `:`"
        " custom<MemrefOf>(type($source), type($result))"
    )

    def __init__(self, source: SSAValue, place: Place, rank: Place):
        super().__init__(
            operands=[source, place[1], rank[1]],
            properties={"map": AffineMapAttr(place[0]), "rank": AffineMapAttr(rank[0])},
            result_types=[memref_of(source).element_type],
        )

    def accesses(self) -> list[Access]:
        """It reads an element of a CTA of the cluster."""
        rank = self.rank.data, self.rank_indices
        extents = row(len(self.map.data.results))
        return [Access(self, self.source, False, self.map.data, self.indices, extents, rank=rank)]

    def needs(self) -> Feature:
        """Clusters."""
        return Feature.CLUSTERS

    def verify_(self) -> None:
        verify_subscripts(self.source, self.map.data, self.indices)
        verify_map("the rank", self.rank.data, self.rank_indices, results=1)
        if memory_of(self.source) is not Memory.SHARED:
            raise VerifyException(f"CTAs of a cluster share no more than shared memory, got {self.source.type}")
        if self.result.type != memref_of(self.source).element_type:
            raise VerifyException(f"loading from {self.source.type} gives its element type, not {self.result.type}")
