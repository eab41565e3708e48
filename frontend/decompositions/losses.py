"""Decompositions of losses of classes that PyTorch's own give in another shape, or with another value."""

from __future__ import annotations

from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions

_MEAN, _SUM = 1, 2
"""Reductions as ATen numbers them (`at::Reduction`); 0 is none."""


def _multi_margin_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN,
) -> torch.Tensor:
    """`sum(max(0, margin - x[y] + x[j])^p * weight[y] for j != y) / classes` of each row, whose class is y."""
    rows, own = _rows(x), target.reshape(-1, 1)
    terms = _above_zero(margin - rows.gather(1, own) + rows)
    terms = terms if p == 1 else terms * terms
    if weight is not None:
        terms = terms * weight.to(rows.dtype).index_select(0, own.reshape(-1))[:, None]
    terms = torch.where(_classes(rows) == own, 0, terms)
    return _reduced(terms.sum(1) / rows.shape[1], reduction, target.shape).to(x.dtype)


def _multilabel_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN) -> Any:
    """`sum(max(0, 1 - x[y] + x[j])) / classes` of each row over its classes y and all j that are none of them.

    The classes of a row stand in front, the first -1 ends them. The second result says which those are.
    """
    rows = _rows(x)
    given = target.reshape(rows.shape)
    counts = (given < 0).long().cumsum(1) == 0
    own = torch.where(counts, given, 0)
    hits = torch.logical_and(own[:, :, None] == _classes(rows), counts[:, :, None])
    is_target = hits.any(1)
    terms = _above_zero(1 - rows.gather(1, own)[:, :, None] + rows[:, None, :])
    others = torch.logical_and(counts[:, :, None], torch.logical_not(is_target)[:, None, :])
    loss = torch.where(others, terms, 0).sum((1, 2)) / rows.shape[1]
    return _reduced(loss, reduction, target.shape[:-1]).to(x.dtype), is_target.to(x.dtype).reshape(target.shape)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Scores as a matrix with a row for each example, at least float32."""
    wide = x if x.dtype == torch.float64 else x.float()
    return wide if x.dim() == 2 else wide.reshape(1, x.numel())


def _classes(rows: torch.Tensor) -> torch.Tensor:
    return torch.arange(rows.shape[1], device=rows.device)


def _above_zero(x: torch.Tensor) -> torch.Tensor:
    """`x` where it is above 0, else 0, also for NaN."""
    return torch.where(x > 0, x, 0)


def _reduced(loss: torch.Tensor, reduction: int, shape: torch.Size) -> torch.Tensor:
    if reduction == _MEAN:
        return loss.mean()
    return loss.sum() if reduction == _SUM else loss.reshape(shape)


LOSSES: Decompositions = {
    ATEN.multi_margin_loss.default: _multi_margin_loss,
    ATEN.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
}
