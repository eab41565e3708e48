"""Textual form of affine expressions over SSA values, shared by the loop, tile and kernel dialects.

An expression is written over names, `%mb * 128 + %i floordiv 4`, and stored as an affine map plus its operands: operand
`i` of the op is dimension `d<i>` of the map. Where an op also has coordinates of its own (the slab of `tile.stage`),
those are the dimensions, written bare (`d0`, `d1`), and the SSA operands are the map's symbols.

Only the parser's public API is used, so errors carry the position of the offending token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

_DIVISIONS: dict[str, Callable[[AffineExpr, int], AffineExpr]] = {
    "mod": lambda lhs, rhs: lhs % rhs,
    "floordiv": lambda lhs, rhs: lhs // rhs,
    "ceildiv": lambda lhs, rhs: lhs.ceil_div(rhs),
}


@dataclass
class AffineReader:
    """Reads affine expressions and collects the operands that they name, in order of first use."""

    parser: Parser
    as_symbols: bool = False
    """Whether SSA values become symbols and bare `d<i>` are allowed as dimensions."""
    named: dict[tuple[str, int], UnresolvedOperand] = field(default_factory=dict[tuple[str, int], UnresolvedOperand])

    @property
    def unresolved(self) -> list[UnresolvedOperand]:
        """The operands."""
        return list(self.named.values())

    @property
    def operands(self) -> list[SSAValue]:
        """The values of the operands. Raises ParseError at one that is no index."""
        return [self.parser.resolve_operand(operand, IndexType()) for operand in self.named.values()]

    def expression(self) -> AffineExpr:
        """sum ::= product ((`+` | `-`) product)*"""
        result = self._product()
        while True:
            if self.parser.parse_optional_punctuation("+"):
                result = result + self._product()
            elif self.parser.parse_optional_punctuation("-"):
                result = result - self._product()
            else:
                return result

    def single(self) -> list[AffineExpr]:
        """`expr`"""
        return [self.expression()]

    def bound(self) -> list[AffineExpr]:
        """`expr` or `min(expr, ...)`: the results whose minimum is the bound."""
        if self.parser.parse_optional_keyword("min"):
            return self.parser.parse_comma_separated_list(self.parser.Delimiter.PAREN, self.expression)
        return self.single()

    def subscripts(self) -> list[AffineExpr]:
        """`[expr, expr, ...]`"""
        return self.parser.parse_comma_separated_list(self.parser.Delimiter.SQUARE, self.expression)

    def subscript(self) -> list[AffineExpr]:
        """`[expr]`"""
        pos = self.parser.pos
        results = self.subscripts()
        if len(results) != 1:
            self.parser.raise_error(f"expected one subscript, got {len(results)}", pos)
        return results

    def condition(self) -> list[AffineExpr]:
        """`lhs < rhs`: the pair of its sides."""
        lhs = self.expression()
        self.parser.parse_punctuation("<", " between the sides of a condition")
        return [lhs, self.expression()]

    def conditions(self) -> list[AffineExpr]:
        """`(lhs < rhs, ...)`: the sides of a conjunction, in order."""
        pairs = self.parser.parse_comma_separated_list(self.parser.Delimiter.PAREN, self.condition)
        return [side for pair in pairs for side in pair]

    def map(self, results: Sequence[AffineExpr], num_dims: int = 0) -> AffineMap:
        """The map of `results` over what was read; `num_dims` counts bare dimensions where SSA values are symbols."""
        if self.as_symbols:
            return AffineMap(num_dims, len(self.named), tuple(results))
        return AffineMap(len(self.named), 0, tuple(results))

    def _product(self) -> AffineExpr:
        """product ::= factor (`*` factor | (`mod` | `floordiv` | `ceildiv`) positive-integer)*"""
        result = self._factor()
        while True:
            pos = self.parser.pos
            if self.parser.parse_optional_punctuation("*"):
                factor = self._factor()
                if not isinstance(result, AffineConstantExpr) and not isinstance(factor, AffineConstantExpr):
                    self.parser.raise_error("a product in an affine expression needs a constant factor", pos)
                result = result * factor
            elif (word := self.parser.parse_optional_keyword_in(tuple(_DIVISIONS))) is not None:
                pos = self.parser.pos
                divisor = self.parser.parse_integer(False, context_msg=f": the divisor of '{word}' is a constant")
                if divisor <= 0:
                    self.parser.raise_error(f"the divisor of '{word}' must be positive", pos)
                result = _DIVISIONS[word](result, divisor)
            else:
                return result

    def _factor(self) -> AffineExpr:
        """factor ::= `%name` | integer | `d<i>` | `(` sum `)` | `-` factor"""
        parser = self.parser
        if parser.parse_optional_punctuation("("):
            inner = self.expression()
            parser.parse_punctuation(")")
            return inner
        if parser.parse_optional_punctuation("-"):
            return -self._factor()
        if (operand := parser.parse_optional_unresolved_operand()) is not None:
            return self._value(operand)
        if (number := parser.parse_optional_integer(allow_boolean=False, allow_negative=False)) is not None:
            return AffineExpr.constant(number)
        if self.as_symbols:
            pos = parser.pos
            name = parser.parse_optional_identifier()
            if name is not None and name[:1] == "d" and name[1:].isdecimal():
                return AffineExpr.dimension(int(name[1:]))
            parser.raise_error("expected an SSA value, an integer or a slab coordinate such as d0", pos)
        parser.raise_error("expected an SSA value or an integer in an affine expression")

    def _value(self, operand: UnresolvedOperand) -> AffineExpr:
        name = operand.operand_name, operand.index
        self.named.setdefault(name, operand)
        position = list(self.named).index(name)
        return AffineExpr.symbol(position) if self.as_symbols else AffineExpr.dimension(position)


def parse_i64(parser: AttrParser) -> int:
    """Parse an integer that fits i64."""
    pos = parser.pos
    number = parser.parse_integer(allow_boolean=False)
    if not -(1 << 63) <= number < 1 << 63:
        parser.raise_error(f"{number} does not fit i64", pos)
    return number


@dataclass(frozen=True)
class AffineWriter:
    """Prints affine expressions with the names of the operands of their map."""

    printer: Printer
    operands: Sequence[SSAValue]
    as_symbols: bool = False

    def expression(self, expr: AffineExpr) -> None:
        """Print a sum, as it is read again; a term with a negative factor prints as a subtraction."""
        first, *terms = _terms(reduce(add, _terms(expr)))
        self._product(first)
        for term in terms:
            sign, product = _split_sign(term)
            self.printer.print_string(f" {sign} ")
            self._product(product)

    def subscripts(self, exprs: Sequence[AffineExpr]) -> None:
        """Print `[expr, expr, ...]`."""
        with self.printer.in_square_brackets():
            self.printer.print_list(exprs, self.expression)

    def bound(self, exprs: Sequence[AffineExpr]) -> None:
        """Print `expr` or `min(expr, ...)`."""
        if len(exprs) == 1:
            self.expression(exprs[0])
            return
        self.printer.print_string("min")
        with self.printer.in_parens():
            self.printer.print_list(exprs, self.expression)

    def condition(self, sides: Sequence[AffineExpr]) -> None:
        """Print `lhs < rhs`."""
        self.expression(sides[0])
        self.printer.print_string(" < ")
        self.expression(sides[1])

    def conditions(self, sides: Sequence[AffineExpr]) -> None:
        """Print `(lhs < rhs, ...)`."""
        with self.printer.in_parens():
            self.printer.print_list(_pairs(sides), self.condition)

    def _product(self, expr: AffineExpr) -> None:
        match expr:
            case AffineBinaryOpExpr(AffineBinaryOpKind.Add):
                with self.printer.in_parens():
                    self.expression(expr)
            case AffineBinaryOpExpr(kind, lhs, rhs):
                self._product(lhs)
                self.printer.print_string(f" {kind.get_token()} ")
                if isinstance(rhs, AffineConstantExpr):
                    self.printer.print_string(str(rhs.value))
                else:
                    with self.printer.in_parens():
                        self.expression(rhs)
            case AffineConstantExpr(value):
                self.printer.print_string(str(value))
            case AffineDimExpr(position) if self.as_symbols:
                self.printer.print_string(f"d{position}")
            case AffineDimExpr(position) | AffineSymExpr(position):
                self.printer.print_ssa_value(self.operands[position])
            case _:
                raise AssertionError(expr)


def _terms(expr: AffineExpr) -> list[AffineExpr]:
    match expr:
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add, lhs, rhs):
            return [*_terms(lhs), *_terms(rhs)]
        case _:
            return [expr]


def _split_sign(expr: AffineExpr) -> tuple[str, AffineExpr]:
    match expr:
        case AffineConstantExpr(value) if value < 0:
            return "-", AffineExpr.constant(-value)
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, lhs, AffineConstantExpr(value)) if value < 0:
            return "-", lhs * -value
        case _:
            return "+", expr


def condition_pairs(map: AffineMap) -> list[tuple[AffineExpr, AffineExpr]]:
    """The conditions `lhs < rhs` that a map of sides stands for."""
    return _pairs(map.results)


def _pairs(sides: Sequence[AffineExpr]) -> list[tuple[AffineExpr, AffineExpr]]:
    return list(zip(sides[::2], sides[1::2], strict=True))


def verify_map(what: str, map: AffineMap, operands: Sequence[SSAValue], results: int | None = None) -> None:
    """Check that `map` is over exactly `operands` (as dimensions) and, if given, has `results` results.

    Raises VerifyException, naming `what`.
    """
    verify_divisors(what, map)
    if map.num_symbols or map.num_dims != len(operands):
        raise VerifyException(
            f"{what} must be an affine map over {len(operands)} dimensions, one for each operand, and no symbols;"
            f" got {map}"
        )
    if results is not None and len(map.results) != results:
        raise VerifyException(f"{what} must have {results} results, got {len(map.results)}: {map}")


def verify_divisors(what: str, map: AffineMap) -> None:
    """Check that `map` divides by positive constants only. Raises VerifyException, naming `what`."""
    for expr in (inner for result in map.results for inner in result.dfs()):
        match expr:
            case AffineBinaryOpExpr(AffineBinaryOpKind.Add | AffineBinaryOpKind.Mul):
                continue
            case AffineBinaryOpExpr(kind, _, rhs) if not isinstance(rhs, AffineConstantExpr) or rhs.value <= 0:
                raise VerifyException(
                    f"the divisor of '{kind.get_token()}' in {what} must be a positive constant: {map}"
                )
            case _:
                continue


def verify_conditions(what: str, map: AffineMap, operands: Sequence[SSAValue]) -> None:
    """Check a map of condition sides (lhs, rhs, lhs, rhs, ...). Raises VerifyException, naming `what`."""
    verify_map(what, map, operands)
    if not map.results or len(map.results) % 2:
        raise VerifyException(f"{what} must hold pairs of sides `lhs < rhs`, got {len(map.results)} sides")
