"""Half precision and integers of 8 and 16 bits give the bits of eager: each ATen operation rounds or wraps once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

HALVES = (torch.bfloat16, torch.float16)
INTEGERS = (torch.uint8, torch.int8, torch.int16)


def randn(dtype: Any, *shape: int) -> Any:
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))).to(dtype)


def bytes_of(dtype: Any, *shape: int) -> Any:
    return torch.randint(-40000, 40000, shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def arithmetic(x: Any, y: Any) -> Any:
    return (
        *(x + y, x - y, x * y, x / y, -x, x.abs(), x * 0.3, x + 0.1, x / 3, 2 - x, x % y, x.square(), 1 / y),
        *(torch.maximum(x, y), x.clamp(-0.3, 0.7), x.relu(), x < y, x >= 0.1, x == x.round(), x.sign(), x.isnan()),
        *(torch.where(x < y, x, 0.1), x.masked_fill(y > 0, -torch.inf), F.pad(x, (1, 2), value=0.1), torch.cat([x, y])),
        *(
            x.int(),
            x.double(),
            x.float(),
            x.bool(),
            (x * 100).to(torch.uint8),
            x.amax(0),
            x.argmin(1),
            x.flip(0),
            x.t(),
        ),
        *(x + torch.tensor(0.1), x * torch.tensor(0.1, dtype=torch.float64), x + y.float(), torch.full_like(x, 0.1)),
    )


def integers(x: Any, y: Any, positive: Any) -> Any:
    return (
        *(x + y, x - y, x * y, -x, x & y, x | 3, x ^ y, ~x, x // positive, x % positive, x / positive, x**3, x < y),
        *(x.float(), x.long(), x.bool(), x.sum(), x.sum(0), x.amax(1), x.argmax(0), x + 0.5, x + 1000 * x.int()),
        *(torch.where(x < y, x, y), x.masked_fill(x > y, 7), F.pad(x, (1, 1), value=5), torch.cat([x, y]), x.prod(1)),
        *(
            x.double().to(x.dtype),
            x.to(torch.bfloat16),
            torch.full_like(x, 9),
            *(x.clamp(2, 9), x.clamp(-3, 9), x.clamp_min(-3)),
            torch.maximum(x, y),
            x[1],
        ),
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_elementwise_operations_give_the_bits_of_eager(check_with_torch: Callable[..., Any], dtype: Any) -> None:
    check_with_torch(arithmetic, randn(dtype, 7, 9), randn(dtype, 9, 7).t().contiguous(), exact=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_as_in_eager(check_with_torch: Callable[..., Any], dtype: Any) -> None:
    x, y = bytes_of(dtype, 5, 6), bytes_of(dtype, 6, 5).t().contiguous()
    check_with_torch(integers, x, y, (y.int() % 11 + 1).to(dtype), exact=True)


def beside_numbers(x: Any, small: Any) -> Any:
    return -1 >> small, 300 >> small, x >> 1, x ^ 300, x & -1, torch.ops.aten.bitwise_left_shift(-3, small)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_numbers_wrap_to_the_type_of_the_tensor(check_with_torch: Callable[..., Any], dtype: Any) -> None:
    x = bytes_of(dtype, 5, 6)
    check_with_torch(beside_numbers, x, (x.int() % 4).to(dtype), exact=True)


def filled(x: Any) -> Any:
    fill, pad = torch.ops.aten.new_full.default, torch.ops.aten.pad.default
    dtypes = (torch.bool, torch.uint8, torch.int32, torch.int64)
    filled = [fill(x, [2], 2.7, dtype=dtype) for dtype in dtypes]
    return *filled, torch.full((2,), -1.5, dtype=torch.int32), pad(x > 0, [1, 1], "constant", 0.5), x.int().fill_(-0.5)


def test_fractions_fill_integers_and_booleans(check_with_torch: Callable[..., Any]) -> None:
    check_with_torch(filled, torch.randn(3), exact=True)
