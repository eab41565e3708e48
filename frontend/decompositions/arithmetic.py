"""Decompositions of arithmetic."""

from __future__ import annotations

from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _round_decimals(x: torch.Tensor, decimals: int) -> Any:
    """`round(x * 10 ** decimals) / 10 ** decimals`, with a division where that is exact, as PyTorch computes it."""
    if x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals > 0 else (x / scale).round() * scale


ARITHMETIC: Decompositions = {
    ATEN.round.decimals: _round_decimals,
    ATEN.add.Scalar: lambda x, other, alpha=1: torch.add(x, other, alpha=alpha),
    ATEN.sub.Scalar: lambda x, other, alpha=1: torch.sub(x, other, alpha=alpha),
    ATEN.mul.Scalar: torch.mul,
    ATEN.div.Scalar: torch.div,
    torch.ops.prims.convert_element_type.default: lambda x, dtype: ATEN._to_copy.default(x, dtype=dtype),
}
