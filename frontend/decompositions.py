"""Decompositions of ATen operations into operations of the torch dialect, which torch.export applies to its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch._decomp import decomposition_table
from torch.export.exported_program import default_decompositions

from deplodock.frontend.importer import has_operation

Decompositions: TypeAlias = dict[Any, Callable[..., Any]]

_ATEN = torch.ops.aten
_FURTHER = (
    *(_ATEN.elu.default, _ATEN.linalg_vector_norm.default, _ATEN.dist.default, _ATEN.bucketize.Tensor),
    *(_ATEN.upsample_nearest2d.vec, _ATEN.upsample_bilinear2d.vec, _ATEN.upsample_bilinear2d.default),
    *(_ATEN.tril_indices.default, _ATEN.triu_indices.default),
    *(_ATEN._native_batch_norm_legit_functional.default, _ATEN._native_batch_norm_legit.no_stats),
)


@cache
def decompositions() -> Decompositions:
    """How to compute what the torch dialect lacks: PyTorch's own decompositions, and those of this page.

    PyTorch does not decompose `_FURTHER` for torch.export by default; others that it leaves write in place.
    """
    further = {overload: decomposition_table[overload] for overload in _FURTHER}
    found = {**default_decompositions(), **further, **_OWN}
    return {overload: function for overload, function in found.items() if not has_operation(overload)}


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


def _round_decimals(x: torch.Tensor, decimals: int) -> Any:
    """`round(x * 10 ** decimals) / 10 ** decimals`, with a division where that is exact, as PyTorch computes it."""
    if x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals > 0 else (x / scale).round() * scale


_OWN: Decompositions = {
    _ATEN.round.decimals: _round_decimals,
    _ATEN.one_hot.default: _one_hot,
    _ATEN.index_put.default: _index_put,
    _ATEN.index_copy.default: _index_copy,
    _ATEN.index_fill.int_Scalar: lambda x, dim, index, value: _index_copy(x, dim, index, x.new_full((), value)),
    _ATEN.index_fill.int_Tensor: _index_copy,
    _ATEN.add.Scalar: lambda x, other, alpha=1: torch.add(x, other, alpha=alpha),
    _ATEN.sub.Scalar: lambda x, other, alpha=1: torch.sub(x, other, alpha=alpha),
    _ATEN.mul.Scalar: torch.mul,
    _ATEN.div.Scalar: torch.div,
}
