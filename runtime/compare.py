"""The one error bar by which outputs count as right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deplodock.interpreters.values import Array, epsilon, is_float

_SPREAD = 16.0
"""How much larger than the mean error a single element's may be."""

_EAGER = 4.0
"""How much larger than PyTorch's own error ours may be."""

_ROUNDINGS = 8.0
"""Roundings, in units of half an ulp, that every program may make besides those of its sums."""

ROUNDOFFS = {"highest": 0.0, "high": 0.0, "medium": 2.0**-11}
"""The unit roundoff of factors of products, by their precision: that of TF32, which has 11 bits; 0 where it is the
type's own."""


@dataclass(frozen=True)
class Verdict:
    """Whether an output is right, and by how much.

    `error` is ||got - reference|| / ||reference|| and `bar` the most it may be; `worst` is the largest difference of an
    element in units of the root mean square of the reference, of which 16 bars are allowed. Of integers and booleans
    `error` is the share of wrong elements and the bars are 0. `reason` is empty if the output is right.
    """

    error: float
    bar: float
    worst: float
    reason: str

    @property
    def passed(self) -> bool:
        """Whether the output is right."""
        return not self.reason

    def __str__(self) -> str:
        worst_bar = _SPREAD * self.bar
        text = f"error {self.error:.2e} (bar {self.bar:.2e}), worst element {self.worst:.2e} (bar {worst_bar:.2e})"
        return text if self.passed else f"{self.reason}; {text}"


def compare(
    got: Array,
    reference: Array,
    eager: Array | None,
    reduction_extent: int,
    sensitivity: Callable[[], Array] | None = None,
    where: Array | None = None,
    *,
    roundoff: float = 0.0,
) -> Verdict:
    """Compare an output with the same program in float64.

    With u = half an ulp of the output's type (in float64, in which the reference is rounded, too, one ulp), or
    `roundoff` if that is larger, K = `reduction_extent` and s = `sensitivity`, the output is right if
    ||got - reference|| is at most u * (8 + sqrt K) * max(||reference||, ||s||) or 4 times that of eager, and each
    element is within 16 times that bar of it, in units of the reference's root mean square. NaN and infinities must be
    where the reference, rounded to the output's type, or eager has them; they count in no norm. Integers and booleans
    must be equal.

    Args:
        got: the output.
        reference: the output of the same program in float64 (integers and booleans: in their own type).
        eager: what another, trusted run in the output's type gives; None if there is none.
        reduction_extent: the longest chain of additions on the way to the output, as `longest_reduction` counts them.
        sensitivity: how far relative errors of size 1 in each input and result would move the output; called where
            the output would be wrong without, None if that is not known.
        where: which elements count, and make up the norms; None: all.
        roundoff: the unit roundoff of the coarsest values on the way to the output, as of `ROUNDOFFS`.
    """
    if got.shape != reference.shape:
        return _wrong(f"the shape is {list(got.shape)}, not {list(reference.shape)}")
    counts = np.ones(got.size, np.bool_) if where is None else where.reshape(-1)
    if not is_float(got.dtype):
        return _exact(got, reference, counts)
    with np.errstate(all="ignore"):
        expected = [reference.astype(got.dtype), *([] if eager is None else [eager])]
        if all(_other_specials(got, other, counts).any() for other in expected):
            position = np.flatnonzero(_other_specials(got, expected[0], counts))[0]
            return _wrong(_difference(got, expected[0], int(position)))
        finite = np.isfinite(got) & np.isfinite(reference) & counts.reshape(got.shape)
        bar = allowed_error(epsilon(got.dtype), got.dtype == np.float64, reduction_extent, roundoff)
        verdict = _within(got, reference, eager, bar, None, finite)
        if verdict.passed or sensitivity is None:
            return verdict
        return _within(got, reference, eager, bar, sensitivity(), finite)


def _within(
    got: Array,
    reference: Array,
    eager: Array | None,
    bar: float,
    sensitivity: Array | None,
    finite: Array,
) -> Verdict:
    truth = reference[finite].astype(np.float64)
    differences = np.abs(got[finite] - truth)
    size, root = _norm(truth), math.sqrt(max(1, truth.size))
    moved = 0.0 if sensitivity is None else _norm(sensitivity[finite])
    allowed = bar * max(size, moved)
    if eager is not None and np.isfinite(eager[finite]).all():
        allowed = max(allowed, _EAGER * _norm(eager[finite] - truth))
    distance, largest = _norm(differences), float(differences.max(initial=0.0))
    passed = distance <= allowed and largest <= allowed_worst(allowed, truth.size)
    position = 0 if passed else int(np.flatnonzero(finite)[differences.argmax()])
    reason = "" if passed else _difference(got, reference, position)
    return Verdict(_ratio(distance, size), _ratio(allowed, size), _ratio(largest, size / root), reason)


def allowed_error(ulp: float, is_reference: bool, reduction_extent: int, roundoff: float = 0.0) -> float:
    """What the norm of the differences may be, for one of 1 of the reference.

    Args:
        ulp: the distance from 1 to the next number of the output's type.
        is_reference: whether that type is the reference's, float64, which makes roundings then, too.
        reduction_extent: see `compare`.
        roundoff: see `compare`.
    """
    return max(ulp / (1 if is_reference else 2), roundoff) * (_ROUNDINGS + math.sqrt(reduction_extent))


def allowed_worst(allowed: float, elements: int) -> float:
    """What the largest difference of so many elements may be where their norm may be `allowed`."""
    return _SPREAD * allowed / math.sqrt(max(1, elements))


def _exact(got: Array, reference: Array, counts: Array) -> Verdict:
    wrong = (got != reference).reshape(-1) & counts
    if not wrong.any():
        return Verdict(0.0, 0.0, 0.0, "")
    difference = np.abs(got.astype(np.float64) - reference.astype(np.float64)).reshape(-1)[counts]
    reason = _difference(got, reference, int(wrong.argmax()))
    return Verdict(float(wrong.sum() / counts.sum()), 0.0, float(difference.max()), reason)


def _specials(values: Array) -> Array:
    """NaN as 2, infinities as their sign, all other values as 0; flat."""
    flat = values.reshape(-1)
    return np.where(np.isnan(flat), 2.0, np.where(np.isinf(flat), np.sign(flat), 0.0))


def _other_specials(one: Array, other: Array, counts: Array) -> Array:
    """Where two arrays differ in NaN and infinities, among the elements that count; flat."""
    return (_specials(one) != _specials(other)) & counts


def _difference(got: Array, expected: Array, position: int) -> str:
    where = ", ".join(str(i) for i in np.unravel_index(position, got.shape))
    return f"element [{where}] is {got.reshape(-1)[position]}, should be {expected.reshape(-1)[position]}"


def _wrong(reason: str) -> Verdict:
    return Verdict(math.inf, 0.0, math.inf, reason)


def _norm(values: Array) -> float:
    """The Euclidean norm, computed so that squares neither overflow nor underflow."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest * float(np.linalg.norm(values / largest)) if largest > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    """part / whole; no error at all is 0 even of nothing."""
    return part / whole if whole > 0 else (0.0 if part == 0 else math.inf)
