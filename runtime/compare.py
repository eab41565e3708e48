"""The one error bar by which outputs count as right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deplodock.analysis.shape.roundings import Roundings
from deplodock.interpreters.values import Array, epsilon, is_float, smallest

SPREAD = 8.0
"""How much larger than the mean error of its like a single element's may be."""

FEWEST = 16
"""The elements that a mean size is taken of: fewer may all be small by chance."""

EAGER = 4.0
"""How much larger than PyTorch's own error ours may be."""


@dataclass(frozen=True)
class Verdict:
    """Whether an output is right, and by how much.

    `error` is ||got - reference|| / ||reference|| and `bar` the most it may be. `worst` is the difference of the
    element that is nearest to its bar or furthest beyond, and `worst_bar` that bar, both in units of what the element
    weighs. Of integers and booleans `error` is the share of wrong elements, `worst` the largest difference, and the
    bars are 0.
    `reason` is empty if the output is right.
    """

    error: float
    bar: float
    worst: float
    worst_bar: float
    reason: str

    @property
    def passed(self) -> bool:
        """Whether the output is right."""
        return not self.reason

    @property
    def share(self) -> float:
        """The share of its bars that the error takes; 0 where nothing may differ and nothing does."""
        pairs = ((self.error, self.bar), (self.worst, self.worst_bar))
        return max(_ratio(error, bar) for error, bar in pairs)

    def __str__(self) -> str:
        text = f"error {self.error:.2e} (bar {self.bar:.2e}), worst element {self.worst:.2e} (bar {self.worst_bar:.2e})"
        return text if self.passed else f"{self.reason}; {text}"


def compare(
    got: Array,
    reference: Array,
    eager: Array | None,
    rounded: Roundings,
    sensitivity: Callable[[], Array] | None = None,
    where: Array | None = None,
) -> Verdict:
    """Compare an output with the same program in float64.

    With b = `rounded.bar` of the output's type and s = `sensitivity`, the output is right if ||got - reference|| is at
    most b * ||reference||, or 4 times that of eager, or ||s||; and if each element is within 8 times what that bar says
    of its like: b times what it weighs, 4 times the mean error of eager there, or its own s. An element weighs its
    size, or the mean size of those in its row, its column, and so on, if that is larger. The smallest number of the
    output's type, a subnormal one, is always allowed. NaN and infinities must be where the reference, rounded to the
    output's type, or eager has them; they count in no norm. Integers and booleans must be equal.

    Args:
        got: the output.
        reference: the output of the same program in float64 (integers and booleans: in their own type).
        eager: what another, trusted run in the output's type gives; None if there is none.
        rounded: what rounds on the way to the output.
        sensitivity: how far roundings in each input and result may move the output, see `CapturedProgram.sensitivity`;
            called where the output would be wrong without, None if that is not known.
        where: which elements count, and make up the norms; None: all.
    """
    if got.shape != reference.shape:
        return _wrong(f"the shape is {list(got.shape)}, not {list(reference.shape)}")
    counts = np.ones(got.size, np.bool_) if where is None else where.reshape(-1)
    if not is_float(got.dtype):
        return equal(got, reference, where)
    with np.errstate(all="ignore"):
        expected = [reference.astype(got.dtype), *([] if eager is None else [eager])]
        if all(_other_specials(got, other, counts).any() for other in expected):
            position = np.flatnonzero(_other_specials(got, expected[0], counts))[0]
            return _wrong(_difference(got, expected[0], int(position)))
        finite = np.isfinite(got) & np.isfinite(reference) & counts.reshape(got.shape)
        bar = rounded.bar(epsilon(got.dtype))
        verdict = _within(got, reference, None, bar, None, finite)
        if not verdict.passed and eager is not None:
            verdict = _within(got, reference, eager, bar, None, finite)
        if not verdict.passed and sensitivity is not None:
            verdict = _within(got, reference, eager, bar, sensitivity(), finite)
        return verdict


def equal(got: Array, wanted: Array, where: Array | None = None) -> Verdict:
    """Compare an output with what it must be, number for number; NaN counts as equal to NaN.

    `where` says which elements count; None: all.
    """
    counts = np.ones(got.size, np.bool_) if where is None else where.reshape(-1)
    differs = got != wanted
    if is_float(got.dtype):
        differs &= ~(np.isnan(got) & np.isnan(wanted))
    wrong = differs.reshape(-1) & counts
    if not wrong.any():
        return Verdict(0.0, 0.0, 0.0, 0.0, "")
    with np.errstate(all="ignore"):
        difference = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).reshape(-1)[wrong]
    largest = float(np.nan_to_num(difference, nan=math.inf).max())
    return Verdict(float(wrong.sum() / counts.sum()), 0.0, largest, 0.0, _difference(got, wanted, int(wrong.argmax())))


def nan_of_infinities(
    inputs: Sequence[Array], reference: Callable[[list[Array]], Sequence[Array] | None]
) -> list[Array] | None:
    """Where outputs may be NaN as inputs are infinite; None if nowhere, or if `reference` has no outputs there.

    A product in parts of an infinite factor may be NaN, as infinity times a part that is 0. So an output may be where
    it would be if those inputs were NaN.
    """
    is_infinite = [is_float(value.dtype) and bool(np.isinf(value).any()) for value in inputs]
    if not any(is_infinite):
        return None
    spread = [
        np.where(np.isinf(value), np.asarray(np.nan, value.dtype), value) if infinite else value
        for value, infinite in zip(inputs, is_infinite, strict=True)
    ]
    found = reference(spread)
    return None if found is None else [np.isnan(output) for output in found]


def _within(
    got: Array,
    reference: Array,
    eager: Array | None,
    bar: float,
    sensitivity: Array | None,
    finite: Array,
) -> Verdict:
    """The verdict on the finite elements."""
    truth = np.where(finite, reference, 0.0).astype(np.float64)
    differences = np.abs(np.where(finite, got, 0.0).astype(np.float64) - truth)
    weight = np.maximum(np.abs(truth), _like(truth, finite))
    size, distance, allowed, each = _norm(truth), _norm(differences), bar * _norm(truth), bar * weight
    if eager is not None and np.isfinite(eager[finite]).all():
        own = EAGER * np.abs(np.where(finite, eager, 0.0).astype(np.float64) - truth)
        allowed, each = max(allowed, _norm(own)), np.maximum(each, _like(own, finite))
    if sensitivity is not None:
        moved = np.where(finite, sensitivity, 0.0)
        allowed, each = max(allowed, _norm(moved)), np.maximum(each, moved)
    # A rounding of a subnormal number makes an error of up to half the distance between those, whatever the number is.
    step = smallest(got.dtype)
    allowed, each = max(allowed, step * math.sqrt(np.count_nonzero(finite))), np.maximum(SPREAD * each, step)
    beyond = _ratios(differences, each)
    position = int(beyond.argmax()) if beyond.size else 0
    passed = distance <= allowed and bool((differences <= each).all())
    reason = "" if passed else _difference(got, reference, position)
    worst, most = (
        _ratio(float(values.flat[position]), float(weight.flat[position])) if beyond.size else 0.0
        for values in (differences, each)
    )
    return Verdict(_ratio(distance, size), _ratio(allowed, size), worst, most, reason)


def _like(values: Array, counts: Array) -> Array:
    """The mean size of the elements in an element's row, column and so on: products of means along each dimension.

    It is that of the values where those are products of a number for each row and one for each column. Means are roots
    of mean squares, of the elements that count; a row of less than 16 says nothing of its own.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or values.ndim == 0:
        return np.full(values.shape, largest)
    squares = np.square(values / largest)
    total, product = float(squares.sum()) / max(1, int(counts.sum())), np.ones(())
    for axis in range(values.ndim):
        others = tuple(other for other in range(values.ndim) if other != axis)
        found = counts.sum(others, keepdims=True)
        means = squares.sum(others, keepdims=True) / np.maximum(1, found)
        product = product * np.where(found < FEWEST, 1.0, means / total)
    return largest * math.sqrt(total) * np.sqrt(product)


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
    return Verdict(math.inf, 0.0, math.inf, 0.0, reason)


def _norm(values: Array) -> float:
    """The Euclidean norm, computed so that squares neither overflow nor underflow."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest * float(np.linalg.norm(values / largest)) if largest > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    """part / whole; no error at all is 0 even of nothing."""
    return part / whole if whole > 0 else (0.0 if part == 0 else math.inf)


def _ratios(parts: Array, wholes: Array) -> Array:
    """`_ratio` of each element."""
    return np.where(wholes > 0, parts / np.where(wholes > 0, wholes, 1.0), np.where(parts == 0, 0.0, math.inf))
