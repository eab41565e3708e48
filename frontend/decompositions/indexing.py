"""Decompositions of what writes at positions that are in a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> Any:
    """1 where a coordinate of the last dimension is the element, which PyTorch would check to be one of them."""
    if num_classes < 0:
        return NotImplemented
    return (x[..., None] == torch.arange(num_classes, device=x.device)).long()


def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    """`x[mask] = value` with one value for all elements, or `x[:, index] = values` with one vector of positions."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1 or accumulate:
        return NotImplemented
    ((dim, index),) = given
    if index.dtype != torch.bool:
        return _index_copy(x, dim, index, values)
    if dim or values.numel() != 1:
        return NotImplemented
    mask = index.reshape(*index.shape, *[1] * (x.dim() - index.dim()))
    return torch.where(mask, values.reshape(()).to(x.dtype), x)


def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
    """`x` with the slices of `source`, which broadcasts, at positions along a dimension; of equal ones the last."""
    if index.dim() != 1 or not x.dim() or not index.numel():
        return NotImplemented
    extent, count = x.shape[dim], index.numel()
    wrapped = torch.where(index < 0, index + extent, index)
    hits = wrapped[:, None] == torch.arange(extent, device=x.device)
    last = torch.where(hits, torch.arange(1, count + 1, device=x.device)[:, None], 0).amax(0) - 1
    shape = [count if d == dim % x.dim() else n for d, n in enumerate(x.shape)]
    taken = source.to(x.dtype).expand(shape).index_select(dim, last.clamp(min=0))
    along = [extent if d == dim % x.dim() else 1 for d in range(x.dim())]
    return torch.where((last >= 0).reshape(along), taken, x)


INDEXING: Decompositions = {
    ATEN.one_hot.default: _one_hot,
    ATEN.index_put.default: _index_put,
    ATEN.index_copy.default: _index_copy,
    ATEN.index_fill.int_Scalar: lambda x, dim, index, value: _index_copy(x, dim, index, x.new_full((), value)),
    ATEN.index_fill.int_Tensor: _index_copy,
}
