"""Which thread touches an element of a buffer, where the element's subscripts tell."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Atom, Linear

Path = tuple["str | int | Path", ...]
"""How an index follows from the subscripts of an element: equal paths give equal indices for the same element."""


def thread_of(thread: SSAValue, subscripts: Sequence[Linear], width: int, zeros: Sequence[Atom] = ()) -> Path | None:
    """How the thread that touches an element follows from the element's subscripts, or None if it does not.

    An access touches `width` elements along the last dimension, where the `zeros` are 0.

    A subscript gives back each of its terms whose digits do not overlap those of the others; the quotient and the
    remainder of a form by the same divisor give back the form, and so its terms. What they leave open may be 0.
    """
    last = len(subscripts) - 1
    known: dict[Atom, Path] = {}
    for dim, form in reversed(list(enumerate(subscripts))):
        _split(form, width - 1 if dim == last else 0, ("subscript", dim), known)
    _join(known)
    if thread not in known:
        for atom in zeros:
            known.setdefault(atom, ("zero",))
        _join(known)
    return known.get(thread)


def _split(form: Linear, slack: int, path: Path, known: dict[Atom, Path]) -> None:
    """Add the terms of a known form whose digits do not overlap those of the others."""
    for atom, coefficient in form.terms:
        size = _digit_size(form, atom, coefficient, slack)
        if size is not None and atom not in known:
            known[atom] = ("digit", path, coefficient, size)


def _join(known: dict[Atom, Path]) -> None:
    """Add the terms of all forms whose quotient and remainder are known."""
    count = 0
    while count < len(known):
        count = len(known)
        for atom in list(known):
            if not isinstance(atom, Division) or not atom.remainder:
                continue
            match atom.form // atom.divisor:
                case Linear(((quotient, 1),), 0) if quotient in known:
                    _split(atom.form, 0, ("join", known[quotient], known[atom], atom.divisor), known)
                case _:
                    pass


def _digit_size(form: Linear, atom: Atom, coefficient: int, slack: int) -> int | None:
    """The size n of a term's digit, so that the term is `form floordiv coefficient mod n`; None if others overlap it.

    `slack` is how far past the form's value an access reaches.
    """
    bounds = Linear.of(atom).range()
    if coefficient <= 0 or bounds is None or bounds[0] != 0:
        return None
    size = bounds[1] + 1
    low = form.constant % (coefficient * size) + slack
    for other, step in form.terms:
        if other is atom or step % (coefficient * size) == 0:
            continue
        reach = Linear.of(other, step).range()
        if reach is None or reach[0] < 0:
            return None
        low += reach[1]
    return size if low < coefficient else None
