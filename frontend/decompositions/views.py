"""Decompositions of views, and of writes through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions
from deplodock.frontend.importer import is_whole


def _diagonal_scatter(x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """`x` with the elements of `source`, whose last dimension runs along it, on a diagonal."""
    if not source.numel():
        return x.clone()
    moved = x.movedim((dim1, dim2), (-2, -1))
    row = torch.arange(moved.shape[-2], device=x.device)[:, None]
    column = torch.arange(moved.shape[-1], device=x.device)
    place = (row[:, 0] - max(0, -offset)).clamp(0, source.shape[-1] - 1)
    written = source.to(x.dtype).index_select(-1, place).unsqueeze(-1)
    return torch.where(column - row == offset, written, moved).movedim((-2, -1), (dim1, dim2))


def _as_strided_scatter(
    x: torch.Tensor,
    source: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """`x` with the elements of `source` where `as_strided` would read them."""
    if not is_whole(x):
        return NotImplemented
    memory = x.as_strided((x.numel(),), (1,), 0)
    places = torch.arange(x.numel(), device=x.device).as_strided(size, stride, storage_offset or 0)
    return memory.scatter(0, places.reshape(-1), source.to(x.dtype).reshape(-1)).reshape(x.shape)


VIEWS: Decompositions = {
    ATEN.narrow_copy.default: torch.narrow,
    ATEN.diagonal_scatter.default: _diagonal_scatter,
    ATEN.as_strided_scatter.default: _as_strided_scatter,
}
