"""Decompositions of products of groups of rows, each with a matrix of its own: the experts of a mixture."""

from __future__ import annotations

from typing import Any

import torch

from deplodock.frontend.decompositions.rows import positions
from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """`x[s] @ weight[g]` for the group g of row s, which has the rows up to `ends[g]`; 0 for rows behind all groups.

    Shapes are `[s, k]`, `[g, k, n]` and `[g]`.
    """
    group = (positions(x.shape[0], x)[:, None] >= ends).sum(-1)
    product = (x[:, None, :] @ weight.index_select(0, group.clamp(max=weight.shape[0] - 1))).squeeze(1)
    return torch.where((group < weight.shape[0])[:, None], product, 0)


def _grouped_mm(
    x: torch.Tensor,
    weight: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """PyTorch's product of groups where only rows are grouped, or nothing is."""
    if bias is not None or out_dtype not in (None, x.dtype) or weight.dim() != 3:
        return NotImplemented
    if x.dim() == 3 and offs is None:
        return x @ weight
    return _grouped(x, weight, offs) if x.dim() == 2 and offs is not None else NotImplemented


def experts() -> Decompositions:
    """Decompositions of PyTorch's operation, and of the one of transformers where a program has imported it."""
    table: Decompositions = {ATEN._grouped_mm.default: _grouped_mm}
    # transformers defines it for types and devices that PyTorch's operation does not take.
    fallback = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return table if fallback is None else {**table, fallback.default: _grouped}
