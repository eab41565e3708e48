"""Reads of matrices from shared memory by a warp (PTX ISA, `ldmatrix`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, FixedBitwidthType, IndexType, IntegerAttr, MemRefType, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.buffers import Memory, memory_of, memref_of
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import Access, AccessEffects, Feature, NeedsFeature, TouchesMemory, row
from deplodock.dialects.kernel.mma import Fragment
from deplodock.dialects.loop.access import verify_subscripts

SIDE = 8
"""Rows of a matrix, and elements of a row: 16 bytes."""

PAIR = 2
"""Neighbours of a matrix that a lane gets, one register."""

COUNTS = (1, 2, 4)
"""How many matrices one instruction reads."""


@op_definition
class LdmatrixOp(IRDLOperation, TouchesMemory, NeedsFeature):
    """A warp reads matrices of 8 rows of 8 elements of 16 bits from shared memory, so that each lane has a pair.

    Lane `8 * i + r` gives the place of row r of matrix i, of which the source is read from the subscripts on; lanes
    beyond the matrices give places that are read as well. Lane `4 * g + t` gets the elements `2 * t` and `2 * t + 1` of
    row g, and with `trans` the elements g of the rows `2 * t` and `2 * t + 1`. The destination has them at subscripts
    over `d0`, the matrix, and `d1`, the place in the pair. All lanes of the warp take part.

        kernel.ldmatrix 4 trans %vs[%lane mod 16, %j * 16 + %lane floordiv 16 * 8] to %b[%j * 2 + d0 floordiv 2, d1]
          : memref<16x64xbf16, #tile.memory<shared>> to memref<8x2xbf16, #tile.memory<register>>
    """

    name = "kernel.ldmatrix"
    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    source_indices = var_operand_def(IndexType)
    destination_indices = var_operand_def(IndexType)
    count = prop_def(IntegerAttr.constr(i64))
    source_map = prop_def(AffineMapAttr)
    destination_map = prop_def(AffineMapAttr)
    is_transposed = opt_prop_def(UnitAttr, prop_name="trans")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects())
    assembly_format = (
        "$count (`trans` $trans^)? $source custom<Subscripts>($source_indices, $source_map)"
        " `to` $destination custom<MatrixSubscripts>($destination_indices, $destination_map) attr-dict `:`"
        " custom<Memref>(type($source)) `to` custom<Memref>(type($destination))"
    )

    def __init__(
        self,
        count: int,
        source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        destination: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        is_transposed: bool = False,
    ):
        super().__init__(
            operands=[source[0], destination[0], source[2], destination[2]],
            properties={
                "count": IntegerAttr(count, i64),
                "source_map": AffineMapAttr(source[1]),
                "destination_map": AffineMapAttr(destination[1]),
                "trans": UnitAttr() if is_transposed else None,
            },
        )

    @property
    def matrices(self) -> int:
        """The number of matrices."""
        return self.count.value.data

    @property
    def fragment(self) -> Fragment:
        """What a lane gets: a pair of each matrix."""
        extents = (self.matrices, PAIR)
        return Fragment(self.destination, self.destination_map.data, self.destination_indices, extents, PAIR)

    def accesses(self) -> list[Access]:
        """Each lane reads a row, and writes its registers."""
        map = self.source_map.data
        read = Access(self, self.source, False, map, self.source_indices, row(len(map.results), SIDE))
        return [read, *self.fragment.accesses(self, writes=True)]

    def needs(self) -> Feature:
        """What multiplies such matrices."""
        return Feature.MMA

    def verify_(self) -> None:
        verify_subscripts(self.source, self.source_map.data, self.source_indices)
        source, destination, map = memref_of(self.source), memref_of(self.destination), self.destination_map.data
        verify_divisors("the subscripts of the destination", map)
        if self.matrices not in COUNTS:
            raise VerifyException(f"it reads 1, 2 or 4 matrices, got {self.matrices}")
        if memory_of(self.source) is not Memory.SHARED or memory_of(self.destination) is not Memory.REGISTER:
            raise VerifyException(f"it reads shared memory to registers, got {source} to {destination}")
        element = source.element_type
        if element != destination.element_type:
            raise VerifyException(f"it keeps the element type, got {source} and {destination}")
        if not isinstance(element, FixedBitwidthType) or element.bitwidth != 16:
            raise VerifyException(f"it reads elements of 16 bits, got {element}")
        if len(map.results) != destination.get_num_dims():
            raise VerifyException(
                f"{destination} needs {destination.get_num_dims()} subscripts, got {len(map.results)}"
            )
        if source.get_shape()[-1] < SIDE:
            raise VerifyException(f"a row of {source} has no {SIDE} elements")
