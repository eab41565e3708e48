"""Where an operation takes a value: axes of a launch at the results of a map over other axes, `at (%i = %l * 2)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import AffineReader, AffineWriter, verify_map


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
