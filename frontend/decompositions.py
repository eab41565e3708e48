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
    """`x[mask] = value` with one value for all elements."""
    (mask, *others) = indices
    if mask is None or others or mask.dtype != torch.bool or values.numel() != 1 or accumulate:
        return NotImplemented
    mask = mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim()))
    return torch.where(mask, values.reshape(()).to(x.dtype), x)


_OWN: Decompositions = {
    _ATEN.one_hot.default: _one_hot,
    _ATEN.index_put.default: _index_put,
    _ATEN.add.Scalar: lambda x, other, alpha=1: torch.add(x, other, alpha=alpha),
    _ATEN.sub.Scalar: lambda x, other, alpha=1: torch.sub(x, other, alpha=alpha),
    _ATEN.mul.Scalar: torch.mul,
    _ATEN.div.Scalar: torch.div,
}
