"""Decompositions of what writes at positions that are in a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from deplodock.frontend.decompositions.checks import check_index
from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> Any:
    """1 where a coordinate of the last dimension is the element, which must be one of them."""
    if num_classes < 0:
        return NotImplemented
    check_index(x, 0, num_classes, f"class values must be from 0 to {num_classes - 1}")
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
        return _with_slices(x, dim, index, values, -x.shape[dim])
    if dim or values.numel() != 1:
        return NotImplemented
    mask = index.reshape(*index.shape, *[1] * (x.dim() - index.dim()))
    return torch.where(mask, values.reshape(()).to(x.dtype), x)


def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
    """`x` with the slices of `source` at positions along a dimension, which count from 0; of equal ones the last."""
    return _with_slices(x, dim, index, source, 0)


def _index_fill(x: torch.Tensor, dim: int, index: torch.Tensor, value: torch.Tensor | float) -> Any:
    """`x` with a value in the slices at positions along a dimension."""
    source = value if isinstance(value, torch.Tensor) else x.new_full((), value)
    return _with_slices(x, dim, index, source, -x.shape[dim] if x.dim() else 0)


def _with_slices(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, lowest: int) -> Any:
    """`x` with slices of `source`, which broadcasts, at positions from `lowest`: negative ones count from the end."""
    if index.dim() != 1 or not x.dim() or not index.numel():
        return NotImplemented
    extent, count = x.shape[dim], index.numel()
    check_index(index, lowest, extent, f"an index is out of bounds for dimension {dim % x.dim()} with size {extent}")
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
    ATEN.index_fill.int_Scalar: _index_fill,
    ATEN.index_fill.int_Tensor: _index_fill,
}
