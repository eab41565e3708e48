"""Slabs: parts of global buffers that the tile dialect copies on chip."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl.declarative_assembly_format import AttributeVariable, ParsingState, TypeDirective, irdl_custom_directive
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.buffers import memory_of, memref_of, verify_buffer
from deplodock.dialects.formats import Conditions, Memref, Subscripts, parse_memref, set_coordinates


def verify_slab(
    what: str, source: SSAValue, slab: SSAValue, shape: Sequence[int], map: AffineMap, indices: Sequence[SSAValue]
) -> None:
    """Check a copy between global memory and a slab of this shape in the buffer `slab`.

    `map` gives the subscripts in global memory over the slab's coordinates and `indices`. Raises VerifyException,
    naming `what`.
    """
    read, written = memref_of(source), memref_of(slab)
    if memory_of(source) is not None:
        way = "to" if what == "store" else "from"
        raise VerifyException(f"{what} copies {way} global memory, got {read}")
    if memory_of(slab) is None:
        raise VerifyException(f"a slab lives in #tile.memory<shared> or #tile.memory<register>, got {written}")
    if any(extent < 0 for extent in written.get_shape()):
        raise VerifyException(f"a slab needs a static shape, got {written}")
    verify_buffer(read)
    verify_buffer(written)
    if read.element_type != written.element_type:
        raise VerifyException(f"{what} keeps the element type, got {read} and {written}")
    verify_divisors("the subscripts", map)
    if (map.num_dims, map.num_symbols) != (len(shape), len(indices)):
        raise VerifyException(
            f"the map must be over {len(shape)} slab coordinates and {len(indices)} operands, got {map}"
        )
    if len(map.results) != len(read.get_shape()):
        raise VerifyException(f"{read} needs {len(read.get_shape())} subscripts, got {len(map.results)}")


class SlabSubscripts(Subscripts):
    """`[expr, ...]` over a slab's coordinates `d0`, `d1` and the operands."""

    as_symbols = True


class SlabConditions(Conditions):
    """`(lhs < rhs, ...)` over the coordinates and operands of the subscripts before, and more operands."""

    as_symbols = True

    def set_empty(self, state: ParsingState) -> None:
        pass


@irdl_custom_directive
class SlabType(Memref):
    """The type of a slab; the maps of subscripts and conditions before it are over its coordinates."""

    type: TypeDirective
    map: AttributeVariable
    where: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        slab = parse_memref(parser)
        self.type.set(state, [slab])
        set_coordinates(parser, state, (self.map, self.where), len(slab.get_shape()), pos)


@irdl_custom_directive
class KeptType(Memref):
    """The type of a slab that is stored; the map of the subscripts before it is over its coordinates."""

    type: TypeDirective
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        slab = parse_memref(parser)
        self.type.set(state, [slab])
        set_coordinates(parser, state, (self.map,), len(slab.get_shape()), pos)


@irdl_custom_directive
class SlotsType(Memref):
    """The type of the slots of a slab; the map of the subscripts before it is over the slab's coordinates."""

    type: TypeDirective
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        slots = parse_memref(parser)
        rank = len(slots.get_shape()) - 1
        if rank < 0:
            parser.raise_error("the destination of a copy has its slots as the first dimension", pos, parser.pos)
        self.type.set(state, [slots])
        set_coordinates(parser, state, (self.map,), rank, pos)
