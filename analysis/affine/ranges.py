"""The least and greatest value of a form, from those of its roots: one interval arithmetic for all who ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xdsl.ir import SSAValue

from deplodock.analysis.affine.division import Division

Range = tuple[int, int]
"""The least and greatest value."""

Roots = Callable[[SSAValue], Range | None]
"""The range of a root, None where it is not known."""


class Form(Protocol):
    """A sum of atoms times coefficients, plus a constant."""

    @property
    def terms(self) -> tuple[tuple[SSAValue | Division[Form], int], ...]: ...

    @property
    def constant(self) -> int: ...


def range_of(form: Form, root: Roots) -> Range | None:
    """The least and greatest value of a form whose roots are in the ranges that `root` gives, or None."""
    low = high = form.constant
    for atom, coefficient in form.terms:
        if (bounds := _atom_range(atom, root)) is None:
            return None
        ends = (bounds[0] * coefficient, bounds[1] * coefficient)
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_range(atom: SSAValue | Division[Form], root: Roots) -> Range | None:
    """The least and greatest value of an atom, or None."""
    if not isinstance(atom, Division):
        return root(atom)
    bounds = range_of(atom.form, root)
    if not atom.remainder:
        return None if bounds is None else (bounds[0] // atom.divisor, bounds[1] // atom.divisor)
    # A form that stays from 0 below the divisor is its own remainder; any other may take all values of one.
    is_whole = bounds is not None and bounds[0] >= 0 and bounds[1] < atom.divisor
    return bounds if is_whole else (0, atom.divisor - 1)
