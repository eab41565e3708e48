"""Operations by which the CTAs of a grid work together through global memory.

    %part = memref.alloc() : memref<8x4x16x128xf32>          // host: a part of each of 4 CTAs for each of 8 tiles
    %turns = kernel.counters : memref<8xi32>
    kernel.launch @k(%x, %out, %part, %turns) : ..

    loop.store %v, %part[%tile, %s, %r, %thread] : ..        // kernel
    kernel.fence
    %last = kernel.ticket %turns[%tile] of 4 : memref<8xi32>
    loop.guard where (0 < %last) {
      kernel.fence
      ..
    }

What a thread did before its fence and its CTA's ticket is seen by what threads of a CTA that takes a later ticket of
the same counter do after a fence of their own.

A kernel that begins with `kernel.await_launches` may start while the launches before it still run.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
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
from deplodock.dialects.buffers import memory_of, verify_buffer
from deplodock.dialects.formats import op_definition
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.interfaces import (
    Access,
    AccessEffects,
    AllocatesResult,
    Collective,
    Feature,
    GivesUniform,
    HostCode,
    MakesZeros,
    NeedsFeature,
    TouchesMemory,
    accesses_of,
    row,
)
from deplodock.dialects.kernel.order import Meet, OrdersAccesses, OrdersMemory
from deplodock.dialects.loop import memref_of, verify_subscripts


@op_definition
class CountersOp(IRDLOperation):
    """A buffer of zeros in a host function, made once for the program: the kernels that write it leave it zero.

    %turns = kernel.counters : memref<8xi32>
    """

    name = "kernel.counters"
    result = result_def(MemRefType)
    traits = traits_def(AllocatesResult(), HostCode(), MakesZeros())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, count: int):
        super().__init__(result_types=[MemRefType(i32, [count])])

    def verify_(self) -> None:
        _verify_counter(self.result)
        if not memref_of(self.result).has_static_shape():
            raise VerifyException(f"counters are of a static number, got {self.result.type}")


@op_definition
class AwaitLaunchesOp(IRDLOperation, NeedsFeature):
    """Waits until the launches before have ended, and sees their memory; then the one behind may start.

    A kernel that has it is started early, before those have ended (CUDA: programmatic dependent launch), so it stands
    before all that touches memory.

        kernel.await_launches
    """

    name = "kernel.await_launches"
    traits = traits_def(OrdersMemory(), Collective())
    assembly_format = "attr-dict"

    def needs(self) -> Feature:
        """Launches that begin early."""
        return Feature.EARLY_LAUNCHES

    def verify_(self) -> None:
        before = self.prev_op
        while before is not None:
            if any(accesses_of(op) for op in before.walk()):
                raise VerifyException(f"{before.name} before it touches memory, which launches before may still write")
            before = before.prev_op


@op_definition
class FenceOp(IRDLOperation):
    """Orders what this thread did to memory before and what it does after, as threads of other CTAs see it.

    kernel.fence
    """

    name = "kernel.fence"
    traits = traits_def(OrdersMemory())
    assembly_format = "attr-dict"


@op_definition
class TicketOp(IRDLOperation, IntroducesIndices, TouchesMemory, OrdersAccesses):
    """Counts the CTAs that come here: 1 for all threads of the last of them, else 0; the counter is then 0 again.

    All threads of a CTA take part, and meet before and after as at a kernel.barrier. All CTAs of a counter name the
    same number of them.

        %last = kernel.ticket %turns[%tile] of 4 : memref<8xi32>
    """

    name = "kernel.ticket"
    counter = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    cta_indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    ctas = prop_def(AffineMapAttr)
    result = result_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects(), OrdersMemory(), Collective(), GivesUniform())
    assembly_format = (
        "$counter custom<Subscripts>($indices, $map) `of` custom<Index>($cta_indices, $ctas) attr-dict"
        " `:` custom<Memref>(type($counter))"
    )

    def __init__(
        self,
        counter: SSAValue,
        place: tuple[AffineMap, Sequence[SSAValue]],
        ctas: tuple[AffineMap, Sequence[SSAValue]],
    ):
        super().__init__(
            operands=[counter, place[1], ctas[1]],
            properties={"map": AffineMapAttr(place[0]), "ctas": AffineMapAttr(ctas[0])},
            result_types=[IndexType()],
        )

    def extent(self, index: SSAValue) -> int | None:
        """It is 0 or 1."""
        return 2

    def accesses(self) -> list[Access]:
        """It counts: an atomic read and write of the counter."""
        place = self.map.data, self.indices, row(len(self.map.data.results))
        return [Access(self, self.counter, writes, *place, is_atomic=True) for writes in (False, True)]

    def order(self) -> Meet:
        """All threads of the CTA meet."""
        return Meet()

    def verify_(self) -> None:
        _verify_counter(self.counter)
        verify_subscripts(self.counter, self.map.data, self.indices)
        verify_map("the number of CTAs", self.ctas.data, self.cta_indices, results=1)
        (ctas,) = self.ctas.data.results
        if isinstance(ctas, AffineConstantExpr) and not 1 <= ctas.value < 1 << 31:
            raise VerifyException(f"a ticket counts 1 or more CTAs, below 2^31, got {ctas.value}")


def _verify_counter(counter: SSAValue) -> None:
    type: MemRefType[Attribute] = memref_of(counter)
    verify_buffer(type)
    if type.element_type != i32 or memory_of(counter) is not None:
        raise VerifyException(f"counters are i32 in global memory, got {type}")
