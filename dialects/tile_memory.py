"""The on-chip memory of the tile dialect: where buffers live, and slabs of global buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.loop import memref_of
from deplodock.dialects.tile_swizzle import SwizzleAttr, verify_swizzle


class Memory(StrEnum):
    """Where an on-chip buffer lives; a memref without a memory space is in global memory."""

    SHARED = "shared"
    REGISTER = "register"


@irdl_attr_definition
class MemoryAttr(EnumAttribute[Memory]):
    """`#tile.memory<shared>`: the memory space of a buffer owned by a CTA, or by one thread (`register`)."""

    name = "tile.memory"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Memory:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Memory)


def memory_of(buffer: SSAValue) -> Memory | None:
    """The memory of a buffer: shared, register, or None for global memory."""
    space = memref_of(buffer).memory_space
    return space.data if isinstance(space, MemoryAttr) else None


def verify_layout(buffer: SSAValue) -> None:
    """Check the layout of an on-chip buffer. Raises VerifyException."""
    type = memref_of(buffer)
    if isinstance(type.layout, SwizzleAttr) and memory_of(buffer) is not Memory.SHARED:
        raise VerifyException(f"only buffers in #tile.memory<shared> are swizzled, got {type}")
    verify_swizzle(type)


def verify_slab(
    what: str, source: SSAValue, slab: SSAValue, shape: Sequence[int], map: AffineMap, indices: Sequence[SSAValue]
) -> None:
    """Check a copy from global memory to a slab of this shape in the buffer `slab`.

    `map` gives the source's subscripts over the slab's coordinates and `indices`. Raises VerifyException, naming
    `what`.
    """
    read, written = memref_of(source), memref_of(slab)
    if memory_of(source) is not None:
        raise VerifyException(f"{what} copies from global memory, got {read}")
    if memory_of(slab) is None:
        raise VerifyException(f"a slab lives in #tile.memory<shared> or #tile.memory<register>, got {written}")
    if any(extent < 0 for extent in written.get_shape()):
        raise VerifyException(f"a slab needs a static shape, got {written}")
    verify_layout(slab)
    if read.element_type != written.element_type:
        raise VerifyException(f"{what} keeps the element type, got {read} and {written}")
    verify_divisors("the subscripts", map)
    if (map.num_dims, map.num_symbols) != (len(shape), len(indices)):
        raise VerifyException(
            f"the map must be over {len(shape)} slab coordinates and {len(indices)} operands, got {map}"
        )
    if len(map.results) != len(read.get_shape()):
        raise VerifyException(f"{read} needs {len(read.get_shape())} subscripts, got {len(map.results)}")


def check_coordinates(parser: Parser, subscripts: Sequence[AffineExpr], rank: int, pos: int) -> None:
    """Raise a ParseError at `pos` if a subscript names a coordinate that a slab of this rank does not have."""
    used = {position for expr in subscripts for position in expr.used_dims()}
    if used and max(used) >= rank:
        parser.raise_error(f"the slab has {rank} dimensions, so d{max(used)} is not one of its coordinates", pos)
