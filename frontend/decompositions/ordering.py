"""Decompositions of what orders the elements along a dimension, and of what searches in ordered ones.

A place in the order is counted: `rank[i]` is how many elements stand before element i. That takes the square of the
extent in comparisons, which the compiler fuses into one reduction, and no memory but the ranks. NaN is larger than
every number, and equal elements keep their order, as in `torch.sort(stable=True)`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import torch

from deplodock.frontend.decompositions.checks import check, check_index
from deplodock.frontend.decompositions.rows import back, largest, last, positions, same
from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensors = tuple[torch.Tensor, torch.Tensor]


def _less(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a < b) | (b.isnan() & ~a.isnan()) if a.is_floating_point() else a < b


def _ranks(x: torch.Tensor, descending: bool = False) -> torch.Tensor:
    """How many elements of its row stand before each element."""
    position = positions(x.shape[-1], x)
    here, there = x[..., :, None], x[..., None, :]
    earlier = position[None, :] < position[:, None]
    first, second = (here, there) if descending else (there, here)
    return torch.where(earlier, ~_less(second, first), _less(first, second)).sum(-1)


def _at(ranks: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The positions of the elements of wanted ranks: `[.., n]` and `[.., k]` give `[.., k]`."""
    position = positions(ranks.shape[-1], ranks)
    return torch.where(ranks[..., None, :] == wanted[..., :, None], position, 0).sum(-1)


def _leading(x: torch.Tensor, k: int, descending: bool) -> torch.Tensor:
    """The positions of the first `k` elements of the order of each row.

    Of a long row, they are those of the first `k` of each block and of what is left over: about `4 * n * max(k, 16)`
    comparisons. Candidates of equal elements stand in the order of their positions, so ties are decided as in one row.
    """
    extent = x.shape[-1]
    block = 4 * max(k, 16)
    if extent <= 4 * block:
        return _at(_ranks(x, descending), positions(k, x))
    whole = extent // block * block
    blocks = x[..., :whole].reshape(*x.shape[:-1], whole // block, block)
    found = _leading(blocks, k, descending) + torch.arange(0, whole, block, device=x.device)[:, None]
    rest = torch.arange(whole, extent, device=x.device).expand(*x.shape[:-1], extent - whole)
    candidates = torch.cat([found.flatten(-2), rest], -1)
    return candidates.gather(-1, _leading(x.gather(-1, candidates), k, descending))


def _taken(x: torch.Tensor, dim: int, position: torch.Tensor, keepdim: bool = True) -> Tensors:
    """Elements of `last(x, dim)` at positions, and the positions, with the dimension in its place."""
    values = back(last(x, dim).gather(-1, position), x, dim)
    positions = back(position, x, dim)
    return (values, positions) if keepdim or not x.dim() else (values.squeeze(dim), positions.squeeze(dim))


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Tensors:
    """The `k` largest or smallest elements in their order; of equal ones, those of the lower positions."""
    return _taken(x, dim, _leading(last(x, dim), k, largest))


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Tensors:
    """All elements in order."""
    row = last(x, dim)
    return _taken(x, dim, _at(_ranks(row, descending), positions(row.shape[-1], x)))


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Tensors:
    """The `k`-th smallest element, counted from 1; of equal ones, in the order of their positions."""
    return _taken(x, dim, _at(_ranks(last(x, dim)), positions(1, x) + (k - 1)), keepdim)


def _median(x: torch.Tensor, dim: int, keepdim: bool = False, *, numbers: bool = False) -> Tensors:
    """The lower of two middle elements: of the numbers alone, or NaN, the first, where there is one."""
    row = last(x, dim)
    extent = row.shape[-1]
    wanted = (~row.isnan()).sum(-1, keepdim=True)
    if numbers:
        wanted = torch.where(wanted > 0, wanted - 1, 0) // 2
    else:
        wanted = torch.where(wanted < extent, wanted, (extent - 1) // 2)
    return _taken(x, dim, _at(_ranks(row), wanted), keepdim)


def _median_of_all(x: torch.Tensor, *, numbers: bool = False) -> Any:
    if not x.numel():
        return x.new_full((), nan) if x.is_floating_point() else NotImplemented
    return _median(x.reshape(-1), 0, numbers=numbers)[0]


def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Tensors:
    """The smallest of the most frequent elements and its last position; NaN equals nothing, so it loses to a number."""
    row = last(x, dim)
    frequency = (row[..., :, None] == row[..., None, :]).sum(-1)
    frequent = frequency == frequency.amax(-1, keepdim=True)
    value = torch.where(frequent, row, largest(row)).amin(-1, keepdim=True)
    position = torch.where(frequent & same(row, value), positions(row.shape[-1], x), 0).amax(-1, keepdim=True)
    return _taken(x, dim, position, keepdim)


def _quantile(numbers: bool) -> Callable[..., Any]:
    """`quantile`, or `nanquantile`, which leaves NaN out."""

    def quantile(
        x: torch.Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> torch.Tensor:
        shares = q if isinstance(q, torch.Tensor) else torch.full((), q, dtype=x.dtype, device=x.device)
        if shares is q:
            check((q >= 0) & (q <= 1), "q must be from 0 to 1")
        row = x.reshape(-1) if dim is None else last(x, dim)
        there = (~row.isnan()).sum(-1, keepdim=True)
        last_index = row.shape[-1] - 1
        if numbers:
            place = shares.reshape(-1) * torch.where(there > 0, there - 1, 0).to(x.dtype)
        else:
            place = torch.where(there <= last_index, last_index, shares.reshape(-1) * last_index)
        place = {"lower": place.floor(), "higher": place.ceil(), "nearest": place.round()}.get(interpolation, place)
        ranks = _ranks(row)
        below = row.gather(-1, _at(ranks, place.long()))
        if interpolation in ("linear", "midpoint"):
            above = row.gather(-1, _at(ranks, place.ceil().long()))
            weight = place - place.floor() if interpolation == "linear" else torch.full_like(place, 0.5)
            below = torch.lerp(below, above, weight)
        value = below.movedim(-1, 0)
        if keepdim:
            value = (
                value.reshape(-1, *[1] * x.dim()) if dim is None or not x.dim() else value.unsqueeze(dim % x.dim() + 1)
            )
        return value if shares.dim() else value.squeeze(0)

    return quantile


def _search(ordered: torch.Tensor, values: torch.Tensor, right: bool, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """The place of each value in the last dimension of `ordered`: PyTorch's binary search, step by step.

    So the places in what is not ordered are those of PyTorch, too.
    """
    extent = ordered.shape[-1]
    shape = values.shape
    rows = ordered if ordered.dim() > 1 else ordered.reshape(1, -1)
    values = values if ordered.dim() > 1 else values.reshape(1, -1)
    start = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
    end = torch.full_like(start, extent)
    for _ in range(extent.bit_length()):
        middle = start + (end - start) // 2
        found = rows.gather(-1, middle.clamp(max=extent - 1))
        behind = ~(found > values if right else found >= values)
        start, end = (
            torch.where(behind & (start < end), middle + 1, start),
            torch.where(behind, end, middle),
        )
    return start.reshape(shape).to(dtype)


def _searchsorted(
    ordered: torch.Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where each value would stand in a sorted sequence, or in each of several, before or behind equal elements."""
    if not isinstance(values, torch.Tensor):
        values = torch.scalar_tensor(values, device=ordered.device)
    if sorter is not None:
        check_index(sorter, 0, ordered.shape[-1], "the sorter has an index that is out of range")
        ordered = ordered.gather(-1, sorter.clamp(0, ordered.shape[-1] - 1))
    return _search(ordered, values, right or side == "right", torch.int32 if out_int32 else torch.int64)


def _bucketize(values: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    return _searchsorted(boundaries, values, out_int32=out_int32, right=right)


ORDERING: Decompositions = {
    ATEN.topk.default: _topk,
    ATEN.sort.default: _sort,
    ATEN.sort.stable: lambda x, *, stable, dim=-1, descending=False: _sort(x, dim, descending),
    ATEN.argsort.default: lambda x, dim=-1, descending=False: _sort(x, dim, descending)[1],
    ATEN.argsort.stable: lambda x, *, stable, dim=-1, descending=False: _sort(x, dim, descending)[1],
    ATEN.msort.default: lambda x: _sort(x, 0)[0],
    ATEN.kthvalue.default: _kthvalue,
    ATEN.median.dim: _median,
    ATEN.median.default: _median_of_all,
    ATEN.nanmedian.dim: lambda x, dim, keepdim=False: _median(x, dim, keepdim, numbers=True),
    ATEN.nanmedian.default: lambda x: _median_of_all(x, numbers=True),
    ATEN.mode.default: _mode,
    ATEN.quantile.default: _quantile(numbers=False),
    ATEN.quantile.scalar: _quantile(numbers=False),
    ATEN.nanquantile.default: _quantile(numbers=True),
    ATEN.nanquantile.scalar: _quantile(numbers=True),
    ATEN.searchsorted.Tensor: _searchsorted,
    ATEN.searchsorted.Scalar: _searchsorted,
    ATEN.bucketize.Tensor: _bucketize,
    ATEN.bucketize.Scalar: _bucketize,
}
