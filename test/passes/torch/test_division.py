"""Remainders are exact for every quotient; rounded divisions and powers of half precision give the bits of eager."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from deplodock.frontend.arrays import to_tensor  # noqa: E402

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
HALVES = (torch.bfloat16, torch.float16)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.5, 3.0)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
Run = Callable[..., Any]


def drawn(dtype: Any, count: int, seed: int) -> Any:
    """Numbers of all exponents: random bits."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(2**15), 2**15, (count * dtype.itemsize // 2,), generator=generator)
    values = bits.to(torch.int16).view(dtype)
    return torch.where(values.isfinite(), values, 1)


def fraction(value: Any) -> Fraction:
    return Fraction(float(value))


def same_bits(got: Any, wanted: Any) -> bool:
    as_bits = BITS[wanted.element_size()]
    return bool(((got.view(as_bits) == wanted.view(as_bits)) | (got.isnan() & wanted.isnan())).all())


def results(run: Run, function: Callable[..., Any], *args: Any) -> list[Any]:
    return [to_tensor(array) for array in run(function, *args).got]


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_are_exact_for_every_quotient(dtype: Any, run_at_tensor_level: Run) -> None:
    x, y = drawn(dtype, 500, 1), drawn(dtype, 500, 2)
    y = torch.where(y == 0, 1, y)
    truncated, floored = results(run_at_tensor_level, lambda x, y: (torch.fmod(x, y), x % y), x, y)
    for a, b, rest, modulus in zip(x, y, truncated, floored, strict=True):
        exact = fraction(a) - fraction(b) * math.trunc(fraction(a) / fraction(b))
        assert fraction(rest) == exact
        assert math.copysign(1, rest) == math.copysign(1, a)
        shifted = torch.tensor(float(exact), dtype=dtype)
        assert modulus == (shifted + b if exact and (exact < 0) != (b < 0) else shifted)
    largest = max(abs(fraction(a) / fraction(b)) for a, b in zip(x, y, strict=True))
    assert largest > 2 ** (14 if dtype == torch.float16 else 100)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_and_numbers_are_as_in_eager(dtype: Any, run_at_tensor_level: Run) -> None:
    pairs = torch.tensor(list(itertools.product(SPECIAL, SPECIAL)), dtype=dtype)

    def program(x: Any, y: Any) -> Any:
        beside = (x % 0.3, x % -math.inf, 2.5 % y, torch.fmod(x, -0.3), torch.fmod(x, 0), x // 0, -7.5 // y)
        return x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="floor"), *beside

    x, y = pairs[:, 0].clone(), pairs[:, 1].clone()
    for got, wanted in zip(results(run_at_tensor_level, program, x, y), program(x, y), strict=True):
        assert same_bits(got, wanted)


def test_quotients_beyond_the_range_are_those_of_one_element(run_at_tensor_level: Run) -> None:
    """PyTorch's vector code for CPUs gives NaN where the quotient overflows, its code for single elements does not."""
    x, y = torch.full((64,), -8e16), torch.full((64,), -1.2e-36)
    (got,) = results(run_at_tensor_level, torch.fmod, x, y)
    assert same_bits(got[:1], torch.fmod(x[:1], y[:1]))
    assert len(set(got.tolist())) == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_quotients_rounded_down_are_those_of_eager(dtype: Any, run_at_tensor_level: Run) -> None:
    x, y = drawn(dtype, 2000, 3), drawn(dtype, 2000, 4)
    x[1000:], y[1000:] = torch.randn(1000).to(dtype) * 100, torch.randn(1000).to(dtype)

    def program(x: Any, y: Any) -> Any:
        by_number = (x // 0.3, torch.div(x, -0.7, rounding_mode="trunc"), x // y[3], x // y[7:8], 0.3 // y, y[5] // x)
        return x // y, torch.div(x, y, rounding_mode="trunc"), x // torch.tensor(0.3), *by_number

    for got, wanted in zip(results(run_at_tensor_level, program, x, y), program(x, y), strict=True):
        assert same_bits(got, wanted)


def powers(x: Any) -> Any:
    return x**0, x**1, x**2, x**3, x**-1, x**-2, x.square(), x.reciprocal()


def sums(x: Any) -> Any:
    y = x.flip(0)
    numbers = (torch.add(x, 0.3, alpha=0.7), torch.sub(x, 0.3, alpha=0.7), torch.rsub(x, 0.1, alpha=0.3), 0.1 * x)
    scalars = (torch.tensor(0.1, dtype=torch.float64) * x, x / torch.tensor(0.1), torch.tensor(0.1) / x)
    return torch.add(x, y, alpha=0.3), torch.sub(x, y, alpha=0.3), *numbers, *scalars


@pytest.mark.parametrize("program", [powers, sums])
@pytest.mark.parametrize("dtype", HALVES)
def test_all_numbers_of_half_precision_give_the_bits_of_eager(
    dtype: Any, program: Any, run_at_tensor_level: Run
) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    for place, (got, wanted) in enumerate(zip(results(run_at_tensor_level, program, x), program(x), strict=True)):
        assert same_bits(got, wanted), place


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "soft_margin_loss"])
def test_losses_of_half_precision_round_once(name: str, dtype: Any, run_at_tensor_level: Run) -> None:
    loss = getattr(torch.nn.functional, name)
    x, y = (torch.randn(400, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in (1, 2))
    (got,) = results(run_at_tensor_level, lambda x, y: loss(x, y, reduction="none"), x, y)
    wide = loss(x.double(), y.double(), reduction="none")
    error = (got.double() - wide).abs()
    assert bool((error <= torch.finfo(dtype).eps * wide.abs() * 0.5001 + torch.finfo(dtype).tiny * 1e-3).all())
