"""Operations of CTAs that run together as a cluster and see each other's shared memory (PTX ISA, sm_90).

    kernel.func @k(%out: memref<8xf32>) blocks(%block = 8) threads(%thread = 32) cluster 4 {
      %part = kernel.alloc : memref<32xf32, #tile.memory<shared>>
      ..
      kernel.cluster_barrier
      %v = kernel.alloc : memref<1xf32, #tile.memory<register>>
      kernel.cluster_move 1 %part[%thread] of (%block + 1) mod 4 to %v[0] : ..
      kernel.cluster_barrier
    }

The CTAs of a cluster have consecutive ids; the rank of one is its id modulo the size of the cluster. The last barrier
keeps a CTA, and so its shared memory, there until others have read it.

A barrier waits for the threads of the cluster that have not ended. So in a CTA of roles one of them alone has such
barriers, behind which it is the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_map
from deplodock.dialects.buffers import Memory, last_dimension, memory_of
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
from deplodock.dialects.kernel.move import verify_width
from deplodock.dialects.kernel.order import Meet, OrdersAccesses, OrdersSharedMemory
from deplodock.dialects.loop.access import memref_of, verify_subscripts


@op_definition
class ClusterBarrierOp(IRDLOperation, OrdersAccesses, NeedsFeature):
    """Waits for all threads of the cluster that have not ended; what they did to shared memory before it is seen by all
    accesses after it.

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
class ClusterMoveOp(IRDLOperation, TouchesMemory, NeedsFeature):
    """Copies `width` consecutive elements of the shared memory of a CTA of the cluster, by its rank, to registers.

    It is one access, along the last dimension of both sides, of an address that is a multiple of its size.

        kernel.cluster_move 4 %part[%r, %thread, 0] of %s to %v[0]
          : memref<16x128x4xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
    """

    name = "kernel.cluster_move"
    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    source_indices = var_operand_def(IndexType)
    rank_indices = var_operand_def(IndexType)
    destination_indices = var_operand_def(IndexType)
    width = prop_def(IntegerAttr.constr(i64))
    source_map = prop_def(AffineMapAttr)
    rank = prop_def(AffineMapAttr)
    destination_map = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects())
    assembly_format = (
        "$width $source custom<Subscripts>($source_indices, $source_map)"
        " `of` custom<Index>($rank_indices, $rank)"
        " `to` $destination custom<Subscripts>($destination_indices, $destination_map) attr-dict `:`"
        " custom<Memref>(type($source)) `to` custom<Memref>(type($destination))"
    )

    def __init__(
        self,
        width: int,
        source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        rank: Place,
        destination: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
    ):
        super().__init__(
            operands=[source[0], destination[0], source[2], rank[1], destination[2]],
            properties={
                "width": IntegerAttr(width, i64),
                "source_map": AffineMapAttr(source[1]),
                "rank": AffineMapAttr(rank[0]),
                "destination_map": AffineMapAttr(destination[1]),
            },
        )

    @property
    def elements(self) -> int:
        """The number of elements moved."""
        return self.width.value.data

    def accesses(self) -> list[Access]:
        """It reads elements of a CTA of the cluster, and writes those of registers."""
        source, destination = self.source_map.data, self.destination_map.data
        along = [last_dimension(memref_of(buffer)) for buffer in (self.source, self.destination)]
        read = row(len(source.results), self.elements, along[0])
        written = row(len(destination.results), self.elements, along[1])
        rank = self.rank.data, self.rank_indices
        return [
            Access(self, self.source, False, source, self.source_indices, read, rank=rank, along=along[0]),
            Access(self, self.destination, True, destination, self.destination_indices, written, along=along[1]),
        ]

    def needs(self) -> Feature:
        """Clusters."""
        return Feature.CLUSTERS

    def verify_(self) -> None:
        verify_subscripts(self.source, self.source_map.data, self.source_indices)
        verify_subscripts(self.destination, self.destination_map.data, self.destination_indices)
        verify_map("the rank", self.rank.data, self.rank_indices, results=1)
        if memory_of(self.source) is not Memory.SHARED:
            raise VerifyException(f"CTAs of a cluster share no more than shared memory, got {self.source.type}")
        if memory_of(self.destination) is not Memory.REGISTER:
            raise VerifyException(f"elements of other CTAs go to registers, got {self.destination.type}")
        if memref_of(self.source).element_type != memref_of(self.destination).element_type:
            raise VerifyException(f"a move keeps the element type, got {self.source.type} and {self.destination.type}")
        verify_width(self.elements, (self.source, self.destination))
