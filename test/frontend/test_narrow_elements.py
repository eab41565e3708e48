"""Programs in half precision and in bytes, at every level: FP32 inside each ATen operation, rounded once at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


def randn(dtype: Any, *shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def block(x: Any, weight: Any, scale: Any, table: Any, ids: Any) -> Any:
    h = x + table[ids]
    h = F.rms_norm(h, (h.shape[-1],), scale)
    q = (h @ weight).view(2, 5, 2, 8).transpose(1, 2)
    h = h + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(2, 5, 16)
    return F.softmax(F.silu(h) @ weight.t(), -1), F.layer_norm(h, (16,), scale), h.sum(), h.mean(0), h.cumsum(1)


def test_every_level_accumulates_in_float32(check_levels: Callable[..., int]) -> None:
    dtype = torch.bfloat16
    ids = torch.tensor([[0, 3, 1, 2, 3], [6, 5, 4, 3, 2]])
    args = (randn(dtype, 2, 5, 16), randn(dtype, 16, 16) / 8, randn(dtype, 16), randn(dtype, 7, 16), ids)
    check_levels(block, args)


def test_long_sums_neither_stick_nor_overflow(check_levels: Callable[..., int]) -> None:
    ones, fours = torch.ones(4096, dtype=torch.bfloat16), torch.full((2, 20001), 4.0, dtype=torch.float16)
    check_levels(lambda x, y: (x.sum(), x.mean(), y.mean(1), x.view(64, 64) @ x.view(64, 64)), (ones, fours))


def test_bytes_reach_every_level(check_levels: Callable[..., int]) -> None:
    image = torch.arange(192, dtype=torch.uint8).view(3, 8, 8) * 5
    check_levels(lambda x: (x.float() / 255 - 0.5, x + 200, x[:, ::2], x.sum((1, 2)), (x > 127) & (x != 255)), (image,))


def test_products_of_different_types_are_refused() -> None:
    from deplodock.errors import InvalidInputError
    from deplodock.frontend.capture import export

    with pytest.raises(InvalidInputError, match=r"narrow_elements\.py:\d+: error: .* Half but found Float"):
        export(lambda x, y: torch.matmul(x, y), (randn(torch.float16, 2, 3, 4), randn(torch.float32, 2, 4, 5)))
