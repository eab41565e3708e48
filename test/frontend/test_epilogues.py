"""What follows a contraction of halves is in its kernel, and right at every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


def randn(*shape: int, type: Any = torch.bfloat16) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(type)


X, W, B, R = randn(72, 104), randn(64, 104), randn(64), randn(72, 64)
HALVES = [value.half() for value in (X, W, B, R)]

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bias": (F.linear, (X, W, B)),
    "bias and residual": (lambda x, w, b, r: F.linear(x, w, b) + r, (X, W, B, R)),
    "gelu": (lambda x, w, b, r: F.gelu(F.linear(x, w, b), approximate="tanh") + r, tuple(HALVES)),
    "relu of f16": (lambda x, w: F.linear(x, w).relu() * 0.5, tuple(HALVES[:2])),
    "gate": (lambda x, w, r: torch.sigmoid(F.linear(x, w)) * r, (X, W, R)),
    "addmm": (lambda x, w, r: torch.addmm(r, x, w.t(), beta=0.5, alpha=2.0), (X, W, R)),
    "columns of weights": (lambda x, w, r: x @ w + r, (X, W.t().contiguous(), R)),
    "transposed": (lambda x, w, r: x.t() @ w + r, (randn(40, 24), randn(40, 32), randn(24, 32))),
    "batches": (torch.baddbmm, (randn(3, 20, 32), randn(3, 20, 40), randn(3, 40, 32))),
    "two outputs": (lambda x, w, b, r: (y := F.linear(x, w, b), y * r), (X, W, B, R)),
    "gate and up": (lambda x, w, b, v: F.silu(F.linear(x, w, b)) * F.linear(x, v, b), (X, W, B, W + 1)),
    "sum in f32": (lambda x, w: F.linear(x, w).float().square(), (randn(24, 48), randn(32, 48))),
}


@pytest.mark.parametrize("name", CASES)
def test_an_epilogue_is_in_the_kernel_of_its_contraction(name: str, check_levels: Callable[..., int]) -> None:
    program, args = CASES[name]
    assert check_levels(program, args) == 1
