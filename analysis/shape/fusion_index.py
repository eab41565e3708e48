"""Indices into tensors as tuples of linear forms: composition, substitution, and what an index walks over.

An axis is the induction variable of a loop, in the program already or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_of, form_of
from deplodock.dialects import loop

Index = tuple[Linear, ...]

ZERO = Linear()
"""The index of a dimension along which nothing varies."""


def new_loop(extent: int) -> loop.ForOp:
    """A free loop with an empty body, to be filled and placed later or to stand for an axis."""
    return loop.ForOp(extent, Region(Block(arg_types=[IndexType()])))


def axis_of(form: Linear) -> SSAValue | None:
    """The axis whose coordinate a form is, or None if it is something else."""
    if form.constant or len(form.terms) != 1:
        return None
    atom, coefficient = form.terms[0]
    return atom if coefficient == 1 and not isinstance(atom, Division) else None


def axes_in(index: Index) -> list[SSAValue]:
    """The distinct axes of an index, in order of appearance."""
    return list(dict.fromkeys(axis for form in index for axis in form.roots()))


def compose(map: AffineMap, index: Index) -> Index:
    """The index that `map` reads at `index`."""
    return tuple(substitute(form_of(expr, (), index), {}) for expr in map.results)


def rejoin(form: Linear) -> Linear:
    """Put quotients and remainders back together: `x floordiv c * c + x mod c` is `x`."""
    coefficients = dict(form.terms)
    for atom, low in form.terms:
        if not isinstance(atom, Division) or not atom.remainder:
            continue
        quotient = atom.form // atom.divisor
        for other, high in form.terms:
            if high != low * atom.divisor:
                continue
            if quotient.terms == ((other, 1),) and not quotient.constant:
                whole = atom.form
            elif isinstance(other, Division) and other.remainder and other.form == quotient:
                whole = atom.form % (atom.divisor * other.divisor)
            else:
                continue
            rest = {key: c for key, c in coefficients.items() if key not in (atom, other)}
            return rejoin(Linear(tuple(rest.items()), form.constant) + whole * low)
    return form


def substitute(form: Linear, values: Mapping[SSAValue, Linear]) -> Linear:
    """Replace axes in a form by other forms, and put quotients and remainders in it back together."""
    result = Linear(constant=form.constant)
    for atom, coefficient in form.terms:
        if isinstance(atom, Division):
            inner = substitute(atom.form, values)
            term = inner % atom.divisor if atom.remainder else inner // atom.divisor
        else:
            term = values.get(atom) or Linear.of(atom)
        result = result + term * coefficient
    return rejoin(result)


def walked_axes(index: Index, shape: Sequence[int]) -> list[SSAValue] | None:
    """The axes of an index if different points on them have different indices into a tensor of `shape`, else None.

    The index, flattened in row-major order, must be a number in mixed radix whose digits are axes, or the quotient and
    the remainder of one axis.
    """
    flat = ZERO
    for form, extent in zip(index, shape, strict=True):
        flat = rejoin(flat * max(extent, 1) + form)
    reach = 0
    for atom, coefficient in sorted(flat.terms, key=lambda term: abs(term[1])):
        bounds = Linear.of(atom).range()
        if bounds is None or abs(coefficient) <= reach:
            return None
        reach += abs(coefficient) * (bounds[1] - bounds[0])
    digits = dict(flat.terms)
    for axis in axes_in(index):
        form = Linear.of(axis)
        divisors = [atom.divisor for atom in digits if isinstance(atom, Division) and atom.form == form]
        if axis not in digits and len(divisors) == len(set(divisors)):
            return None
    return axes_in(index)


def unify(source: Index, target: Index, axes: Sequence[SSAValue]) -> dict[SSAValue, Linear] | None:
    """The values for `axes` that turn `source` into `target`, or None if `source` does not determine them all."""
    values: dict[SSAValue, Linear] = {}
    for form, wanted in zip(source, target, strict=True):
        axis = axis_of(form)
        if axis is not None and axis in axes:
            values.setdefault(axis, wanted)
    if len(values) < len(axes) or any(substitute(s, values) != t for s, t in zip(source, target, strict=True)):
        return None
    return values


def is_permutation(index: Index, shape: Sequence[int]) -> bool:
    """Whether each dimension that is not 1 runs along a whole axis of its own, so that each element is met once."""
    axes = [axis_of(form) for form, extent in zip(index, shape, strict=True) if extent != 1]
    extents = [extent for extent in shape if extent != 1]
    whole = all(axis is not None and extent_of(axis) == extent for axis, extent in zip(axes, extents, strict=True))
    return whole and len(set(axes)) == len(axes)
