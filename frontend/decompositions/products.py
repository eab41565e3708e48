"""Decompositions of sums of products, and of distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _addbmm(
    x: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """The products of all pairs of matrices added up: one product whose k counts the batch, too."""
    batch, rows, inner = batch1.shape
    left = batch1.permute(1, 0, 2).reshape(rows, batch * inner)
    return torch.addmm(x, left, batch2.reshape(batch * inner, batch2.shape[2]), beta=beta, alpha=alpha)


def _int_mm(self: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """The product of two matrices of int8, whose sums are int32."""
    return self.to(torch.int32) @ mat2.to(torch.int32)


def _trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """The products of three tensors, each with new dimensions, summed over some."""
    wide = torch.float32 if i1.dtype in (torch.float16, torch.bfloat16) else i1.dtype
    product = torch.ones((), dtype=wide, device=i1.device)
    for value, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(dims):
            value = value.unsqueeze(dim)
        product = product * value.to(wide)
    return product.sum(sumdim).to(i1.dtype) if sumdim else product.to(i1.dtype)


def _norm(differences: torch.Tensor, p: float) -> torch.Tensor:
    """The p-norm of the last dimension; of none it is 0, and p = 0 counts what is not 0."""
    size = differences.abs()
    if differences.shape[-1] == 0:
        return differences.sum(-1)
    if p == 0:
        return (size != 0).to(size.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return (size * size).sum(-1).sqrt()
    if math.isinf(p):
        return size.amax(-1)
    return (size**p).sum(-1) ** (1 / p)


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float, compute_mode: int | None) -> torch.Tensor:
    """The distances between all rows of two matrices, each by its own sum."""
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _pdist(x: torch.Tensor, p: float = 2) -> Any:
    """The distances between each two rows of a matrix, those of the first row first."""
    rows, others = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return _norm(x[rows] - x[others], p)


PRODUCTS: Decompositions = {
    ATEN.addbmm.default: _addbmm,
    ATEN._int_mm.default: _int_mm,
    ATEN._trilinear.default: _trilinear,
    ATEN._cdist_forward.default: _cdist,
    ATEN._pdist_forward.default: _pdist,
}
