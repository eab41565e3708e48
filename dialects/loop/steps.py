"""Steps of a program: calls in a host function that run again and again, on other parts of buffers.

loop.repeat %t = 0 to 511 {
  %before = loop.part %hs[%t] : memref<512x4xf32> -> memref<4xf32>
  %after = loop.part %hs[%t + 1] : memref<512x4xf32> -> memref<4xf32>
  func.call @cell(%before, %after) : (memref<4xf32>, memref<4xf32>) -> ()
}
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Self, cast

from xdsl.dialects.builtin import AffineMapAttr, FixedBitwidthType, IndexType, IntegerAttr, MemRefType
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.irdl import IRDLOperation, operand_def, prop_def, region_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_map
from deplodock.dialects.buffers import memory_of, verify_buffer
from deplodock.dialects.formats import op_definition, parse_body, print_body
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.interfaces import HostCode
from deplodock.dialects.loop.access import memref_of

PART_BYTES = 16
"""Parts of buffers start at multiples of so many bytes, as all buffers do."""


@op_definition
class RepeatOp(IRDLOperation, IntroducesIndices):
    """Runs its body in a host function for every value of the induction variable, from 0 below a number, in order.

    loop.repeat %t = 0 to 511 {
    }
    """

    name = "loop.repeat"
    count = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(HostCode(), NoTerminator(), RecursiveMemoryEffect())

    def __init__(self, count: int, body: Region):
        super().__init__(properties={"count": IntegerAttr(count, IndexType())}, regions=[body])

    @property
    def iv(self) -> BlockArgument:
        """The induction variable."""
        return self.body.block.args[0]

    @property
    def trips(self) -> int:
        """The number of iterations."""
        return self.count.value.data

    def extent(self, index: SSAValue) -> int | None:
        return self.trips if index.owner is self.body.block else None

    def verify_(self) -> None:
        if [arg.type for arg in self.body.block.args] != [IndexType()]:
            raise VerifyException("the body of loop.repeat takes one argument, the induction variable of type index")
        if self.trips < 0:
            raise VerifyException(f"loop.repeat runs 0 times or more, not {self.trips}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.iv)
        printer.print_string(f" = 0 to {self.trips}")
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        iv = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        pos = parser.pos
        if parser.parse_integer(allow_boolean=False) != 0:
            parser.raise_error("a loop starts at 0; shift the subscripts instead", pos)
        parser.parse_keyword("to")
        count = parser.parse_integer(allow_boolean=False)
        body, attributes = parse_body(parser, [iv])
        op = cls(count, body)
        op.attributes |= attributes
        return op


@op_definition
class PartOp(IRDLOperation):
    """The part of a buffer that starts with one of its rows, as a buffer of its own shape; both are contiguous.

    A row is what has one subscript of the first dimension. The part starts at a multiple of 16 bytes.

        %after = loop.part %hs[%t + 1] : memref<512x4xf32> -> memref<2x2xf32>
    """

    name = "loop.part"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(HostCode(), Pure())
    assembly_format = (
        "$source custom<Subscript>($indices, $map) attr-dict `:` custom<Memref>(type($source))"
        " `->` custom<Memref>(type($result))"
    )

    def __init__(self, source: SSAValue, map: AffineMap, indices: Sequence[SSAValue], type: MemRefType[Attribute]):
        super().__init__(operands=[source, indices], properties={"map": AffineMapAttr(map)}, result_types=[type])

    @property
    def row(self) -> int:
        """The elements of a row."""
        return prod(memref_of(self.source).get_shape()[1:])

    @property
    def size(self) -> int:
        """The elements of the part."""
        return prod(memref_of(self.result).get_shape())

    def start(self, indices: Sequence[int]) -> int:
        """The number of the part's first element, for values of the indices.

        Raises:
            ValueError: the part is not inside the buffer then.
        """
        (first,) = self.map.data.eval([*indices], [])
        rows = memref_of(self.source).get_shape()[0]
        if first < 0 or first * self.row + self.size > rows * self.row:
            raise ValueError(f"the part from row {first} on is not inside of {self.source.type}")
        return first * self.row

    def verify_(self) -> None:
        source, result = memref_of(self.source), memref_of(self.result)
        for type, value in ((source, self.source), (result, self.result)):
            verify_buffer(type)
            if not type.has_static_shape() or memory_of(value) is not None:
                raise VerifyException(f"parts are of buffers of static shapes in global memory, got {type}")
        if source.element_type != result.element_type or not source.get_shape():
            raise VerifyException(f"a part of {source} has its element type, and starts with a row, got {result}")
        verify_map("the row", self.map.data, self.indices, results=1)
        if self.row * max(1, cast(FixedBitwidthType, source.element_type).size) % PART_BYTES:
            raise VerifyException(f"a row of {source} is no multiple of {PART_BYTES} bytes")
        if isinstance(self.map.data.results[0], AffineConstantExpr):
            try:
                self.start([])
            except ValueError as error:
                raise VerifyException(str(error)) from None


def whole(buffer: SSAValue) -> SSAValue:
    """The buffer of which a buffer is a part; itself if it is none."""
    while isinstance(buffer.owner, PartOp):
        buffer = buffer.owner.source
    return buffer
