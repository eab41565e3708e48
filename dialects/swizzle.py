"""The layout of a swizzled buffer: which 16-byte units of a row change places, so that columns meet all banks.

`#tile.swizzle<128>` is the layout of a row-major buffer in shared memory whose rows have 128 bytes. A byte lies at

    address xor (address floordiv 128 mod 8) * 16

which puts unit u of row r at unit u xor r mod 8. Spans of 64 and 32 bytes do so modulo 4 and 2. These are the modes
CU_TENSOR_MAP_SWIZZLE_128B, _64B and _32B of the CUDA driver API (PTX ISA, "Swizzling Modes"), in which the tensor
memory accelerator writes boxes. Subscripts stay those of the row-major buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, MemRefLayoutAttr, MemRefType, i64
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import parse_i64

SPANS = (128, 64, 32)
"""The bytes of a row that can be swizzled."""

LINE_BYTES = 128
"""The bytes of shared memory that the banks hold side by side."""

UNIT_BYTES = 16
"""The bytes that keep together."""


class Number(Protocol):
    """An integer, an array of integers, or a form of them."""

    def __mod__(self, divisor: int, /) -> Self: ...
    def __mul__(self, factor: int, /) -> Self: ...


Line = TypeVar("Line", bound=Number)


@irdl_attr_definition
class SwizzleAttr(ParametrizedAttribute, MemRefLayoutAttr):
    """`#tile.swizzle<128>`: rows of 128, 64 or 32 bytes whose 16-byte units are permuted."""

    name = "tile.swizzle"
    bytes: IntegerAttr

    def __init__(self, span: int):
        super().__init__(IntegerAttr(span, i64))

    @property
    def span(self) -> int:
        """The bytes of a row."""
        return self.bytes.value.data

    @property
    def alignment(self) -> int:
        """What the address of a buffer is a multiple of, in bytes: the pattern repeats after as many."""
        return 8 * self.span

    def flips(self, line: Line) -> Line:
        """What flips the bits of the addresses of a line, `address floordiv 128`: units times their bytes."""
        return line % (self.span // UNIT_BYTES) * UNIT_BYTES

    def verify(self) -> None:
        if self.span not in SPANS:
            raise VerifyException(f"rows of 128, 64 or 32 bytes are swizzled, got {self.span}")

    def get_affine_map(self) -> AffineMap:
        raise VerifyException("a swizzled layout is no affine map")

    def get_offset(self) -> int:
        """The offset of the first row."""
        return 0

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.span))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntegerAttr(parse_i64(parser), i64)]


def verify_swizzle(type: MemRefType[Attribute]) -> None:
    """Check that the rows of a buffer are as wide as its swizzle, if it has one. Raises VerifyException."""
    if not isinstance(type.layout, SwizzleAttr):
        return
    element, shape = type.element_type, type.get_shape()
    if not shape or not isinstance(element, FixedBitwidthType) or shape[-1] * element.size != type.layout.span:
        raise VerifyException(f"a swizzle of {type.layout.span} bytes is for rows of as many, got {type}")
