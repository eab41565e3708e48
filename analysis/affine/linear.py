"""Affine expressions as linear forms over the axes and loop variables they come from, with ranges.

A form is a sum of atoms times coefficients plus a constant. An atom is an SSA index that is not itself computed by
`loop.index`, or the quotient or remainder of another form. `loop.index` chains are folded on the way, so two subscripts
can be compared wherever they were written. Quotients and remainders are simplified:

* ranges: `(%ko * 16 + %t) floordiv 16` is `%ko` when `%t` is below 16, and `(%i * 4 + %v) floordiv 16` is
  `%i floordiv 4` when `%v` is below 4;
* of each other: `(%j + %i floordiv 4) floordiv 8` is `(%j * 4 + %i) floordiv 32`, `(%i mod 32) floordiv 4` is
  `%i floordiv 4 mod 8`, and `(%i mod 32) mod 4` is `%i mod 4`;
* in sums: `%i floordiv 4 * 4 + %i mod 4` is `%i`, so the address of an element of a flattened view is linear again.

The least and greatest value of a form follow from those of its roots, by one interval arithmetic for all who ask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Protocol

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.ranges import Range, Roots, range_of
from deplodock.analysis.operations import operands_of
from deplodock.dialects import loop
from deplodock.dialects.affine_syntax import condition_pairs
from deplodock.dialects.index_values import IntroducesIndices

Atom = SSAValue | Division["Linear"]


@dataclass(frozen=True)
class Linear:
    """A sum of atoms times nonzero coefficients, in order of first appearance, plus a constant."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Forms are the keys of what is remembered of them, and are asked for again and again.
        return hash((self.terms, self.constant))

    @staticmethod
    def of(atom: Atom, coefficient: int = 1) -> Linear:
        """An atom times a nonzero coefficient."""
        return Linear(((atom, coefficient),))

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        coefficients = dict(self.terms)
        for atom, coefficient in other.terms:
            coefficients[atom] = coefficients.get(atom, 0) + coefficient
        return _form(coefficients, self.constant + other.constant)

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear | int) -> Linear:
        return self + -other

    def __mul__(self, factor: int) -> Linear:
        return _form({atom: coefficient * factor for atom, coefficient in self.terms}, self.constant * factor)

    def coefficient(self, atom: Atom) -> int:
        """The coefficient of an atom, 0 where it does not appear."""
        return dict(self.terms).get(atom, 0)

    def roots(self) -> Iterator[SSAValue]:
        """The SSA values the form depends on, in order of appearance, with repetitions."""
        for atom, _ in self.terms:
            if isinstance(atom, Division):
                yield from atom.form.roots()
            else:
                yield atom

    def depends_on(self, root: SSAValue) -> bool:
        """Whether `root` appears in the form."""
        return root in self.roots()

    def split(self, keep: Callable[[SSAValue], bool]) -> tuple[Linear, Linear]:
        """Split the form into terms over roots that satisfy `keep`, with the constant, and all other terms."""
        kept: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for atom, coefficient in self.terms:
            roots = atom.form.roots() if isinstance(atom, Division) else (atom,)
            (kept if all(keep(root) for root in roots) else rest)[atom] = coefficient
        return _form(kept, self.constant), _form(rest, 0)

    def substitute(self, root: SSAValue, form: Linear) -> Linear:
        """The form with a root replaced by another of values that the root can have: the form may rely on its range."""
        coefficients: dict[Atom, int] = {}
        constant = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, Division):
                inner = atom.form.substitute(root, form)
                part = inner % atom.divisor if atom.remainder else inner // atom.divisor
            else:
                part = form if atom is root else Linear.of(atom)
            constant += part.constant * coefficient
            for other, times in part.terms:
                # What cancels out has no place in the order: where it comes again, it is new.
                if not (total := coefficients.get(other, 0) + times * coefficient):
                    del coefficients[other]
                else:
                    coefficients[other] = total
        return Linear(tuple(coefficients.items()), constant)

    def divisor(self) -> int:
        """The largest number that is known to divide every value of the form (0 for the constant 0)."""
        return math.gcd(self.constant, *(coefficient for _, coefficient in self.terms))

    def range(self) -> Range | None:
        """The least and greatest value, or None where a root has no known range."""
        return range_of(self, value_range)

    def __floordiv__(self, divisor: int) -> Linear:
        """The floor quotient by a positive divisor."""
        # (whole * d + rest) // d == whole + rest // d, and rest // d is a number if it is the same at both ends.
        whole, rest = self._divide(divisor)
        if (bounds := rest.range()) is not None and bounds[0] // divisor == bounds[1] // divisor:
            return whole + bounds[0] // divisor
        # With 0 <= below < step and a step that divides d: (steps * step + below) // d == steps // (d // step).
        step, rest, _ = rest._digits(divisor)
        divisor //= step
        # (others + f // a) // d == ((others * a + f) // a) // d == (others * a + f) // (a * d).
        for atom, coefficient in rest.terms:
            if isinstance(atom, Division) and not atom.remainder and coefficient == 1:
                others = rest - Linear.of(atom)
                return whole + (others * atom.divisor + atom.form) // (atom.divisor * divisor)
        # If d divides a, then (f mod a) // d == f // d mod (a // d).
        match rest.terms, rest.constant:
            case ((Division(form, inner, True), 1),), 0 if inner % divisor == 0:
                return whole + form // divisor % (inner // divisor)
            case _:
                return whole + Linear.of(Division(rest, divisor, False))

    def __mod__(self, divisor: int) -> Linear:
        """The remainder, from 0 below a positive divisor."""
        # (whole * d + rest) mod d == rest mod d, which is rest - c * d if rest // d is the number c at both ends.
        _, rest = self._divide(divisor)
        if (bounds := rest.range()) is not None and bounds[0] // divisor == bounds[1] // divisor:
            return rest - bounds[0] // divisor * divisor
        # With the digits of __floordiv__: (steps * step + below) mod d == (steps mod (d // step)) * step + below; and
        # (f mod a) mod d == f mod d if d divides a.
        step, rest, below = rest._digits(divisor)
        divisor //= step
        match rest.terms, rest.constant:
            case ((Division(form, inner, True), 1),), 0 if inner % divisor == 0:
                return form % divisor * step + below
            case _:
                return Linear.of(Division(rest, divisor, True), step) + below

    def joined(self) -> Linear:
        """The same form with `x` where it has `(x floordiv d) * d + x mod d`, and so for the digits of `x mod n`."""
        steps = [coefficient for _, coefficient in self.terms]
        for atom, coefficient in self.terms:
            if not isinstance(atom, Division) or not atom.remainder:
                continue
            times = coefficient * atom.divisor
            # Some term is a piece of the quotient, with a multiple of its coefficient; else save the work.
            if all(step % times for step in steps):
                continue
            quotient = atom.form // atom.divisor
            if all(self.coefficient(inner) == outer * times for inner, outer in quotient.terms):
                rest = self - quotient * times - Linear.of(atom, coefficient)
                return (rest + atom.form * coefficient).joined()
            # (x floordiv d mod e) * d + x mod d == x mod (d * e).
            for digit, step in self.terms:
                if step == times and isinstance(digit, Division) and digit.remainder and equal(digit.form, quotient):
                    rest = self - Linear.of(digit, step) - Linear.of(atom, coefficient)
                    return (rest + atom.form % (atom.divisor * digit.divisor) * coefficient).joined()
        return self

    def _digits(self, divisor: int) -> tuple[int, Linear, Linear]:
        """`step`, `steps` and `below` so that the form is `steps * step + below`, and `below` stays below `step`."""
        # Any common divisor of d and a coefficient may be a digit's place; the largest leaves the smallest quotient.
        for step in sorted({math.gcd(divisor, coefficient) for _, coefficient in self.terms} - {1}, reverse=True):
            steps, below = self._divide(step)
            if (bounds := below.range()) is not None and bounds[0] >= 0 and bounds[1] < step:
                return step, steps, below
        return 1, self, Linear()

    def _divide(self, divisor: int) -> tuple[Linear, Linear]:
        """The form as `whole * divisor + rest`."""
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for atom, coefficient in self.terms:
            if coefficient % divisor == 0:
                whole[atom] = coefficient // divisor
            else:
                rest[atom] = coefficient
        return _form(whole, self.constant // divisor), _form(rest, self.constant % divisor)

    def with_remainders(self) -> Linear:
        """The same form with `x mod d` where it has `x - (x floordiv d) * d`, whose range is narrower."""
        result = self
        for atom, coefficient in self.terms:
            if isinstance(atom, Division) and not atom.remainder and coefficient % atom.divisor == 0:
                # x - (x floordiv d) * d, times a factor: the coefficient of the quotient is -d times that factor.
                whole, times = atom.form, -(coefficient // atom.divisor)
                if all(result.coefficient(inner) == outer * times for inner, outer in whole.terms):
                    rest = result - whole * times - Linear.of(atom, coefficient)
                    result = rest + Linear.of(Division(whole, atom.divisor, True), times)
        return result

    def affine(self, position: Callable[[SSAValue], AffineExpr]) -> AffineExpr:
        """The form as an affine expression, each root at the dimension or symbol `position` gives it."""
        terms: list[tuple[AffineExpr, int]] = []
        for atom, coefficient in self.terms:
            if isinstance(atom, Division):
                inner = atom.form.affine(position)
                terms.append((inner % atom.divisor if atom.remainder else inner // atom.divisor, coefficient))
            else:
                terms.append((position(atom), coefficient))
        return affine_sum(terms, self.constant)


def equal(a: Linear, b: Linear) -> bool:
    """Whether two forms are the same sum."""
    return not (a - b).terms and a.constant == b.constant


def affine_sum(terms: Sequence[tuple[AffineExpr, int]], constant: int) -> AffineExpr:
    """The sum of expressions times coefficients, the largest steps first, plus a constant."""
    ordered = sorted(terms, key=lambda term: -abs(term[1]))
    if not ordered:
        return AffineExpr.constant(constant)
    result = ordered[0][0] * ordered[0][1]
    for expr, coefficient in ordered[1:]:
        result = result + expr * coefficient
    return result + constant if constant else result


def _form(coefficients: Mapping[Atom, int], constant: int) -> Linear:
    return Linear(tuple(filter(itemgetter(1), coefficients.items())), constant)


def extent_of(root: SSAValue) -> int | None:
    """The number of values of an axis, loop variable, hardware id or ticket, where it is constant."""
    op = root.block.parent_op() if isinstance(root, BlockArgument) else root.owner
    return op.extent(root) if isinstance(op, IntroducesIndices) else None


def extent_or_one(root: SSAValue) -> int:
    """The number of values of a root; 1 where it is not constant, or has none."""
    return extent_of(root) or 1


def known_points(axes: Iterable[SSAValue]) -> int:
    """The number of points of those axes whose extents are known."""
    return math.prod(map(extent_or_one, axes))


def value_range(root: SSAValue, roots: Roots | None = None) -> Range | None:
    """The least and greatest value of an axis, loop variable, hardware id or ticket; of other indices, None.

    A loop variable whose bound is not constant stays below the greatest value of the bound, for which `roots` gives the
    ranges of other indices.
    """
    op = root.block.parent_op() if isinstance(root, BlockArgument) else root.owner
    if not isinstance(op, IntroducesIndices):
        return None
    extent = op.extent(root)
    if extent is None and (bound := op.bound_of(root)) is not None:
        ranges = [range_of(form, roots or value_range) for form in forms_of(*bound)]
        extent = min((high for _, high in filter(None, ranges)), default=None)
    return None if extent is None else (0, max(extent - 1, 0))


def form_of(expr: AffineExpr, operands: Sequence[SSAValue], coordinates: Sequence[Linear] = ()) -> Linear:
    """The form of an expression over `operands`; `loop.index` results among them are folded.

    Where `coordinates` are given (the slab coordinates of `tile.stage`), they are the dimensions and `operands` the
    symbols.
    """
    match expr:
        case AffineDimExpr(position) if coordinates:
            return coordinates[position]
        case AffineDimExpr(position) | AffineSymExpr(position):
            return form_of_value(operands[position])
        case AffineConstantExpr(value):
            return Linear(constant=value)
        case AffineBinaryOpExpr(kind, lhs, rhs):
            left, right = form_of(lhs, operands, coordinates), form_of(rhs, operands, coordinates)
            match kind:
                case AffineBinaryOpKind.Add:
                    return (left + right).joined()
                case AffineBinaryOpKind.Mul:
                    return left * right.constant if not right.terms else right * left.constant
                case AffineBinaryOpKind.FloorDiv:
                    return left // right.constant
                case AffineBinaryOpKind.CeilDiv:
                    return (left + (right.constant - 1)) // right.constant
                case AffineBinaryOpKind.Mod:
                    return left % right.constant
        case _:
            raise AssertionError(f"unknown affine expression {expr}")


def form_of_value(value: SSAValue) -> Linear:
    """The form of an SSA index."""
    if isinstance(value.owner, loop.IndexOp):
        return form_of(value.owner.map.data.results[0], operands_of(value.owner))
    return Linear.of(value)


def forms_of(map: AffineMap, operands: Sequence[SSAValue]) -> list[Linear]:
    """The forms of all results of a map over `operands`."""
    return [form_of(expr, operands) for expr in map.results]


class Subscripted(Protocol):
    """An operation at a place: the element of a buffer, or the slot of a ring, that its map gives over its indices."""

    @property
    def map(self) -> AffineMapAttr: ...
    @property
    def indices(self) -> Sequence[SSAValue]: ...


def subscripts_of(op: Subscripted) -> list[Linear]:
    """The forms of the subscripts of an operation."""
    return forms_of(op.map.data, op.indices)


def bounds_of(op: loop.LoopLike) -> list[Linear]:
    """The forms whose least is the bound of a loop."""
    return forms_of(op.bound.data, op.bound_operands)


def condition_forms(map: AffineMap, operands: Sequence[SSAValue], coordinates: Sequence[Linear] = ()) -> list[Linear]:
    """The conditions `lhs < rhs` of a map, as for `form_of`, as forms that are below 0 where they hold."""
    return [
        form_of(lhs, operands, coordinates) - form_of(rhs, operands, coordinates) for lhs, rhs in condition_pairs(map)
    ]


def condition_of(where: loop.WhereOp) -> Linear:
    """The condition of a `loop.where` as a form that is below 0 where it holds."""
    (condition,) = condition_forms(where.condition.data, where.indices)
    return condition


def never_fails(condition: Linear) -> bool:
    """Whether a condition, which is below 0 where it holds, holds for all values of its axes."""
    bounds = condition.range()
    return bounds is not None and bounds[1] < 0


def to_sides(conditions: Iterable[Linear]) -> list[Linear]:
    """Conditions, below 0 where they hold, as sides `lhs < rhs` of positive factors, constants on the right."""
    sides: list[Linear] = []
    for form in conditions:
        positive = Linear(tuple((atom, c) for atom, c in form.terms if c > 0))
        sides += [positive, positive - form]
    return sides


def to_map(forms: Sequence[Linear]) -> tuple[AffineMap, list[SSAValue]]:
    """A map with these results, and its operands."""
    operands: dict[SSAValue, int] = {}

    def position(root: SSAValue) -> AffineExpr:
        return AffineExpr.dimension(operands.setdefault(root, len(operands)))

    exprs = tuple(form.affine(position) for form in forms)
    return AffineMap(len(operands), 0, exprs), list(operands)


def constant_place(number: int) -> tuple[AffineMap, list[SSAValue]]:
    """The map to a constant, and its operands, of which there are none."""
    return to_map([Linear(constant=number)])


def least(forms: Sequence[Linear]) -> list[Linear]:
    """The forms that can be the least of all at some point; the first of those that never are above each other."""
    found: list[Linear] = []
    for form in forms:
        if any((bounds := (form - other).range()) is not None and bounds[0] >= 0 for other in found):
            continue
        kept = [other for other in found if (b := (other - form).range()) is None or b[0] < 0]
        found = [*kept, form]
    return found


def coarsened_condition(condition: Linear) -> Linear:
    """A form that is below 0 where the condition is, of fewer roots: `%b * 64 + %t < 128` is `%b < 2` if `%t < 64`."""
    for step in sorted({abs(coefficient) for _, coefficient in condition.terms}, reverse=True):
        quotient = condition // step
        if set(quotient.roots()) < set(condition.roots()):
            return quotient
    return condition


def implied_condition(condition: Linear, roots: Container[SSAValue]) -> Linear | None:
    """A form without these roots that is below 0 wherever the condition is, for any values of theirs; None if unknown.

    Each term that has such a root is taken at its least: `%i * 1024 + %t * 4 < %n` implies `%i * 1024 < %n`.
    """
    kept = Linear(constant=condition.constant)
    for atom, coefficient in condition.terms:
        term = Linear.of(atom, coefficient)
        if not any(root in roots for root in term.roots()):
            kept += term
        elif (bounds := term.range()) is not None:
            kept += bounds[0]
        else:
            return None
    return kept
