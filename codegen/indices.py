"""Affine expressions as CUDA C: a linear sum over names, `int` where ranges prove that it fits, else `long long`.

`x floordiv 8` and `x mod 8` print as `x / 8` and `x % 8` where x cannot be negative and C's truncation is the floor;
elsewhere they call `floor_div` and `floor_mod`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.arith import ConstantOp, IndexCastOp
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.alignment import address, flips
from deplodock.analysis.affine.linear import Atom, Division, Linear, form_of, form_of_value, value_range
from deplodock.analysis.affine.ranges import Range, range_of
from deplodock.codegen.names import Identifiers
from deplodock.dialects import loop

INT_MAX = 2**31 - 1
_ANY: Range = (-(2**63), 2**63 - 1)


def forms(map: AffineMap, operands: Sequence[SSAValue]) -> list[Linear]:
    """The results of a map as sums over its operands themselves, which are not folded further, except constants."""
    atoms = [Linear.of(value) if (n := _constant(value)) is None else Linear((), n) for value in operands]
    return [form_of(expr, (), atoms) for expr in map.results]


def offset(buffer: SSAValue, subscripts: Sequence[Linear]) -> Linear:
    """The position of an element in its buffer, counted in elements. Raises UnsupportedError for a dynamic layout."""
    return address(loop.memref_of(buffer), subscripts)


def split_unrolled(form: Linear) -> tuple[Linear, Linear]:
    """A position as what is known when the code runs only, and a constant for each turn of the unrolled loops around.

    The second is 0 where there is none, or where a part could be negative and so lie outside its buffer.
    """
    turn, rest = form.split(_is_unrolled)
    if not turn.terms or not rest.terms or min(form_bounds(turn)[0], form_bounds(rest)[0]) < 0:
        return form, Linear()
    return rest, turn


def _is_unrolled(root: SSAValue) -> bool:
    parent = root.block.parent_op() if isinstance(root, BlockArgument) else None
    return isinstance(parent, loop.ForOp) and bool(parent.unroll)


def _constant(value: SSAValue) -> int | None:
    match value.owner:
        case ConstantOp(value=IntegerAttr() as constant):
            return constant.value.data
        case _:
            return None


def form_bounds(form: Linear) -> Range:
    """The least and greatest value that a form can have."""
    return range_of(form, bounds) or _ANY


def bounds(value: SSAValue) -> Range:
    """The least and greatest value that an index can have; any of a `long long` where nothing is known."""
    if (number := _constant(value)) is not None:
        return number, number
    match value.owner:
        case loop.IndexOp():
            return form_bounds(form_of_value(value))
        case IndexCastOp(input=source) if source.type == i32:
            return -INT_MAX - 1, INT_MAX
        case _:
            return value_range(value, bounds) or _ANY


def is_int(value: SSAValue) -> bool:
    """Whether an index is declared `int`: its range, and for a loop variable also its bound, fits."""
    low, high = bounds(value)
    return low >= -INT_MAX - 1 and high <= (INT_MAX - 1 if isinstance(value, BlockArgument) else INT_MAX)


@dataclass(frozen=True)
class IndexWriter:
    """Prints forms with the names of their atoms."""

    names: Identifiers

    def text(self, form: Linear) -> str:
        """The form as a C expression."""
        return self._sum(form)[0]

    def position(self, buffer: SSAValue, subscripts: Sequence[Linear]) -> str:
        """The position of an element in its buffer, with the swizzle of its layout, as a C expression."""
        flipped = flips(loop.memref_of(buffer), subscripts)
        if flipped is None or not (flipped.terms or flipped.constant):
            return self.text(offset(buffer, subscripts))
        row = self.text(offset(buffer, [*subscripts[:-1], Linear()]))
        return f"{row} + ({self.text(subscripts[-1])} ^ {self.text(flipped)})"

    def conditions(self, map: AffineMap, operands: Sequence[SSAValue]) -> str:
        """The conjunction of the conditions `lhs < rhs` that a map of sides stands for."""
        texts = [self.text(form) for form in forms(map, operands)]
        return " && ".join(f"{lhs} < {rhs}" for lhs, rhs in zip(texts[::2], texts[1::2], strict=True))

    def _sum(self, form: Linear) -> tuple[str, bool]:
        """The text of a sum, and whether it is a `long long`: some partial sum may not fit in an `int`."""
        if len(form.terms) == 1 and form.terms[0][1] == 1 and not form.constant:
            return self._atom(form.terms[0][0])
        magnitudes = [abs(c) * max(abs(end) for end in form_bounds(Linear.of(atom))) for atom, c in form.terms]
        is_wide = sum(magnitudes) + abs(form.constant) > INT_MAX
        text = ""
        for (atom, coefficient), magnitude in zip(form.terms, magnitudes, strict=True):
            factor, atom_is_wide = self._atom(atom)
            is_wide = is_wide or atom_is_wide
            if is_wide and not atom_is_wide and (not text or magnitude > INT_MAX):
                factor = f"(long long){factor}" if factor.isidentifier() else f"(long long)({factor})"
            text += self._term(factor, coefficient, is_first=not text)
        if form.constant or not text:
            text += self._constant(form.constant, is_first=not text)
        return text, is_wide

    def _term(self, factor: str, coefficient: int, is_first: bool) -> str:
        times = "" if abs(coefficient) == 1 else f" * {abs(coefficient)}"
        sign = "-" if coefficient < 0 else ""
        if is_first:
            return f"{sign}{factor if not sign else _grouped(factor)}{times}"
        return f" {sign or '+'} {factor}{times}"

    def _constant(self, value: int, is_first: bool) -> str:
        if is_first:
            return str(value)
        return f" {'-' if value < 0 else '+'} {abs(value)}"

    def _atom(self, atom: Atom) -> tuple[str, bool]:
        if not isinstance(atom, Division):
            return self.names[atom], not is_int(atom)
        text, is_wide = self._sum(atom.form)
        if atom.divisor > INT_MAX and not is_wide:
            text, is_wide = f"(long long)({text})", True
        if form_bounds(atom.form)[0] < 0:
            helper = "floor_mod" if atom.remainder else "floor_div"
            return f"{helper}({text}, {atom.divisor}{'LL' if is_wide else ''})", is_wide
        is_product = len(atom.form.terms) == 1 and not atom.form.constant
        return f"{text if is_product else f'({text})'} {'%' if atom.remainder else '/'} {atom.divisor}", is_wide


def _grouped(factor: str) -> str:
    return factor if factor.isidentifier() else f"({factor})"
