"""What operations of the tile dialect share: bindings of axes, places of values along axes, and syntax of slabs.

A slab is a part of a global buffer that is copied on chip. A place takes a value with axes of the launch at the results
of a map over other axes, `at (%i = %l * 2)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import AttributeVariable, ParsingState, TypeDirective, irdl_custom_directive
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from deplodock.dialects.affine_syntax import AffineReader, AffineWriter, verify_divisors, verify_map
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


class Binding(StrEnum):
    """What runs the coordinates of a launch axis."""

    BLOCK = "block"
    CLUSTER = "cluster"
    THREAD = "thread"
    REGISTER = "register"
    LANE = "lane"
    ENGINE = "engine"


@irdl_attr_definition
class BindingAttr(EnumAttribute[Binding]):
    """`#tile.binding<block>`: a CTA, one of a cluster, a thread, a register, a lane, or an engine's own reads."""

    name = "tile.binding"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Binding:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Binding)


@dataclass(frozen=True)
class Places:
    """Where a value is taken: each axis of `moved` at the result of a map over axes of the result."""

    moved: Sequence[SSAValue]
    map: AffineMap
    axes: Sequence[SSAValue]

    def verify(self, folded: Sequence[SSAValue], what: str, over_folded: bool = False) -> None:
        """Raises VerifyException unless moved and folded axes are distinct, and the places are over others.

        With `over_folded` the places may be over folded axes too, as the value is taken before the fold.
        """
        if len({*folded, *self.moved}) != len(folded) + len(self.moved):
            raise VerifyException(f"{what} folds axes and moves others, each named once")
        if not set(self.axes).isdisjoint(self.moved if over_folded else (*folded, *self.moved)):
            own = "moves" if over_folded else "folds and moves"
            raise VerifyException(f"the places of a {what} are forms over other axes than it {own}")
        verify_map("the places", self.map, self.axes, results=len(self.moved))

    def print(self, printer: Printer) -> None:
        """Print ` at (..)`; nothing where no axis is moved."""

        def print_place(place: tuple[SSAValue, AffineExpr]) -> None:
            printer.print_operand(place[0])
            printer.print_string(" = ")
            AffineWriter(printer, self.axes).bound([place[1]])

        if self.moved:
            printer.print_string(" at ")
            with printer.in_parens():
                printer.print_list(list(zip(self.moved, self.map.results, strict=True)), print_place)

    @staticmethod
    def parse(parser: Parser) -> Places:
        """Parse what `print` prints."""
        reader = AffineReader(parser)

        def parse_place() -> tuple[SSAValue, AffineExpr]:
            axis = parse_axis(parser)
            parser.parse_punctuation("=")
            return axis, reader.expression()

        places: list[tuple[SSAValue, AffineExpr]] = []
        if parser.parse_optional_keyword("at"):
            places = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_place)
        return Places([axis for axis, _ in places], reader.map([form for _, form in places]), reader.operands)


NOWHERE = Places((), AffineMap(0, 0, ()), ())
"""No axis is moved."""


def parse_axis(parser: Parser) -> SSAValue:
    """Parse an axis of a launch."""
    return parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
