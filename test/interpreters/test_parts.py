"""The parts of an f32 that tensor cores multiply, `math_ext.high_part` and `math_ext.low_part`, in the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.utils.test_value import create_ssa_value

from deplodock.dialects import math_ext
from deplodock.interpreters.scalars import evaluate_scalar
from deplodock.interpreters.values import Array

BELOW = 13
"""The bits of a fraction that TF32 lacks."""

LARGEST = np.finfo(np.float32).max
TINY = np.finfo(np.float32).tiny


def high(value: Array) -> Array:
    """What an engine reads of values."""
    return evaluate_scalar(math_ext.HighPartOp(create_ssa_value(f32)), [np.asarray(value, np.float32)])


def low(value: Array) -> Array:
    """The low parts of values, as they are stored."""
    with np.errstate(invalid="ignore"):
        return evaluate_scalar(math_ext.LowPartOp(create_ssa_value(f32)), [np.asarray(value, np.float32)])


def both(value: Array) -> Array:
    """What an engine reads of a value and of its low part, added up exactly."""
    return high(value).astype(np.float64) + high(low(value))


def rounded(value: Array) -> Array:
    """Values rounded to TF32."""
    return evaluate_scalar(math_ext.RoundTf32Op(create_ssa_value(f32)), [np.asarray(value)])


def drawn(first: int, last: int) -> Array:
    """Random signs and fractions, 64 of each exponent between two, as they are biased by 127."""
    random = np.random.default_rng(0)
    exponents = np.arange(first, last + 1, dtype=np.uint32).repeat(64)
    bits = exponents << 23 | random.integers(0, 1 << 23, exponents.size, np.uint32)
    return (bits | random.integers(0, 2, exponents.size, np.uint32) << 31).view(np.float32)


def test_the_leading_part_has_the_bits_of_tf32() -> None:
    values = drawn(0, 254)
    assert not (high(values).view(np.uint32) & ((1 << BELOW) - 1)).any()
    assert (np.abs(values.astype(np.float64) - high(values)) < np.maximum(np.abs(values) * 2.0**-10, 2.0**-136)).all()


def test_both_parts_are_the_number_but_its_last_bits() -> None:
    """From 2^-115 on, where the low part is normal enough to have its 11 bits."""
    values = drawn(127 - 115, 254)
    assert (np.abs(both(values) - values) <= np.abs(values.astype(np.float64)) * 2.0**-22).all()


def test_small_numbers_lose_bits_of_their_low_part() -> None:
    """Below 2^-115 what TF32 keeps last of a low part is 2^-136; it is rounded to that."""
    values = drawn(0, 127 - 116)
    errors = np.abs(both(values) - values)
    assert (errors <= 2.0**-137).all()
    assert (errors > np.abs(values) * 2.0**-22).any()


def test_ties_round_away_from_zero() -> None:
    """What a low part keeps last is 2^-21 of 1 <= x < 2: half of that is added to the magnitude."""
    odd = 1 + 2.0**-11 + 2.0**-22
    np.testing.assert_array_equal(both(np.array([odd, -odd])), [1 + 2.0**-11 + 2.0**-21, -1 - 2.0**-11 - 2.0**-21])


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, TINY, -TINY, 2.0**-149, -(2.0**-149), 0.0, -0.0])
def test_parts_of_the_edges_are_finite(value: float) -> None:
    """The largest and the smallest numbers, and zeros, whose leading part has their sign."""
    parts = high(np.array([value])), low(np.array([value]))
    assert np.isfinite(parts).all()
    assert np.abs(both(np.array([value])) - value) <= max(abs(value) * 2.0**-22, 2.0**-137)
    assert np.signbit(parts[0]) == np.signbit(np.float32(value))


def test_infinities_stay_and_leave_nothing() -> None:
    """What an engine reads of their low parts is -0."""
    values = np.array([np.inf, -np.inf])
    np.testing.assert_array_equal(high(values), values)
    np.testing.assert_array_equal(high(low(values)).view(np.uint32), [1 << 31] * 2)


def test_nan_stays_and_leaves_nothing() -> None:
    values = np.array([0x7FC00000, 0xFFC00000, 0x7FFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(high(values)).all()
    np.testing.assert_array_equal(high(low(values)).view(np.uint32), [1 << 31] * 3)


def test_rounding_takes_the_nearest_number_of_tf32() -> None:
    """Rounding moves by half of what TF32 keeps last at most, which is 2^-136 at least."""
    values = drawn(0, 253)
    found = rounded(values)
    assert not (found.view(np.uint32) & ((1 << BELOW) - 1)).any()
    exponents = np.maximum(np.frexp(values.astype(np.float64))[1], -125)
    assert (np.abs(values - found.astype(np.float64)) <= 2.0 ** (exponents - 12)).all()


def test_ties_round_to_even() -> None:
    half = 2.0**-11
    values = np.array([1 + half, 1 + 3 * half, -1 - half, -1 - 3 * half], np.float32)
    np.testing.assert_array_equal(rounded(values), np.array([1, 1 + 4 * half, -1, -1 - 4 * half], np.float32))


def test_numbers_that_tf32_lacks_round_to_infinity_and_special_values_stay() -> None:
    last, half = 2.0**128 - 2.0**117, 2.0**116
    values = np.array([last, last + half - 2.0**104, last + half, LARGEST, -LARGEST, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(rounded(values), [last, last, np.inf, np.inf, -np.inf, np.inf, -np.inf])
    nan = np.array([0x7FC00000, 0xFFC00001, 0x7FFFFFFF], np.uint32).view(np.float32)
    np.testing.assert_array_equal(rounded(nan).view(np.uint32), nan.view(np.uint32))


def test_float64_is_not_rounded() -> None:
    """So what is computed in float64, as a reference, has no error of it."""
    values = np.array([np.pi, 1e300])
    np.testing.assert_array_equal(rounded(values), values)
