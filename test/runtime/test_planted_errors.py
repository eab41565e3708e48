"""Mistakes that the error bar or exact inputs find in products of every type, and right kernels that pass both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

from deplodock.analysis.shape.roundings import TF32_ROUNDOFF, Roundings
from deplodock.interpreters.scalars import high_part
from deplodock.interpreters.simulate.mma import toward_zero
from deplodock.interpreters.values import Array, epsilon
from deplodock.runtime.compare import compare, equal
from deplodock.runtime.exact import exact_inputs

ROWS = COLUMNS = 32
FRAGMENT = 8
PARTS = 16
EXTENTS = (64, 320, 1024, 4096, 11008, 18944)

Sum: TypeAlias = Callable[[Array, Array], Array]


def in_order(x: Array, w: Array) -> Array:
    """The product as threads add it up, in FP32, to nearest."""
    total = np.zeros((ROWS, COLUMNS), np.float32)
    for k in range(x.shape[1]):
        total += x[:, k : k + 1] * w[k : k + 1]
    return total


def by_cores(x: Array, w: Array, step: int = 16) -> Array:
    """The product as tensor cores add it up: exactly within an instruction, and toward zero after it."""
    total = np.zeros((ROWS, COLUMNS), np.float32)
    x, w = x.astype(np.float64), w.astype(np.float64)
    for k in range(0, x.shape[1], step):
        total = toward_zero(total.astype(np.float64) + x[:, k : k + step] @ w[k : k + step])
    return total


def in_parts(x: Array, w: Array) -> Array:
    """The product as CTAs that share k compute it."""
    parts = zip(np.array_split(x, PARTS, axis=1), np.array_split(w, PARTS), strict=True)
    return sum((by_cores(*part) for part in parts), np.zeros((ROWS, COLUMNS), np.float32))


def cut_off(x: Array, w: Array) -> Array:
    """The product of factors of which tensor cores read 11 bits."""
    return by_cores(high_part(x), high_part(w), 8)


def rounded(x: Array, w: Array) -> Array:
    """The product of factors that are rounded to 11 bits, to nearest."""
    scale = np.float32(2.0**13 + 1)
    near = [value * scale - (value * scale - value) for value in (x, w)]
    return by_cores(near[0], near[1], 8)


def of_high_and_low_parts(x: Array, w: Array) -> Array:
    """The product as the sum of three products of parts, whose sums over 32 elements of k are added to nearest."""
    high = [high_part(value) for value in (x, w)]
    low = [high_part(value - part) for value, part in zip((x, w), high, strict=True)]
    total = np.zeros((ROWS, COLUMNS), np.float32)
    for k in range(0, x.shape[1], 32):
        at = slice(k, k + 32)
        left = np.concatenate([part[:, at] for part in (low[0], high[0], high[0])], 1)
        right = np.concatenate([part[at] for part in (high[1], low[1], high[1])])
        total += by_cores(left, right, 8)
    return total


@dataclass(frozen=True)
class Lane:
    """Products of a type and a precision: the type, what its kernels compute, and what rounds in factors."""

    dtype: Any
    sums: Sequence[Sum]
    factors: float = 0.0


LANES = {
    "bf16": Lane(ml_dtypes.bfloat16, (in_order, by_cores, in_parts)),
    "f16": Lane(np.float16, (in_order, by_cores, in_parts)),
    "f32": Lane(np.float32, (in_order,)),
    "high": Lane(np.float32, (in_order, of_high_and_low_parts)),
    "medium": Lane(np.float32, (in_order, rounded, cut_off), TF32_ROUNDOFF),
}


def planted(sums: Sum, x: Array, w: Array) -> dict[str, Array]:
    """What kernels give that each have a mistake."""
    k = x.shape[1]
    few, right = np.arange(k) % 1024 != k // 2 % 1024, sums(x, w)
    zeros, negated, turned, scaled = (right.copy() for _ in range(4))
    zeros[5], scaled[3] = 0.0, 0.9 * right[3]
    negated[7, 9] = -right[7, 9]
    turned[:FRAGMENT, :FRAGMENT] = right[:FRAGMENT, :FRAGMENT].T
    return {
        "without a part of k": sums(x[:, : -(k // PARTS)], w[: -(k // PARTS)]),
        "without one of 1024 elements of k": sums(x[:, few], w[few]),
        "a row of zeros": zeros,
        "a negated element": negated,
        "a wrong fragment": turned,
        "another scale of a small row": scaled,
    }


def factors(lane: Lane, k: int) -> tuple[Array, Array]:
    """Normal factors in FP32 of numbers that the type holds; a row is of small scale."""
    random = np.random.default_rng(k)
    x, w = random.standard_normal((ROWS, k)), random.standard_normal((k, COLUMNS))
    x[3] *= 1e-3
    return x.astype(lane.dtype).astype(np.float32), w.astype(lane.dtype).astype(np.float32)


@pytest.mark.parametrize("k", EXTENTS)
@pytest.mark.parametrize("name", LANES)
def test_right_kernels_pass_and_mistakes_do_not(name: str, k: int) -> None:
    lane = LANES[name]
    x, w = factors(lane, k)
    whole = exact_inputs([x, w], k)
    reference = x.astype(np.float64) @ w.astype(np.float64)
    exact = (whole[0].astype(np.float64) @ whole[1].astype(np.float64)).astype(lane.dtype)
    bar = Roundings(k, factors=lane.factors, others=1.0)
    errors: list[float] = []
    most = bar.bar(epsilon(np.dtype(lane.dtype)))
    for sums in lane.sums:
        verdict = compare(sums(x, w).astype(lane.dtype), reference, None, bar)
        assert verdict.passed, f"{sums.__name__}: {verdict}"
        assert equal(sums(*whole).astype(lane.dtype), exact).passed
        errors.append(verdict.error)
    assert most <= 4 * max(errors)
    wrong, wrong_on_whole = (planted(lane.sums[-1], *values) for values in ((x, w), whole))
    for mistake, got in wrong.items():
        assert not compare(got.astype(lane.dtype), reference, None, bar).passed, mistake
        assert not equal(wrong_on_whole[mistake].astype(lane.dtype), exact).passed, mistake
