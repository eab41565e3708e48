"""Decompositions of what writes or adds at positions that are in a tensor.

Each element of the result asks all positions whether they name it: `hits[.., p, q]` says that position q of the index
is p. What is written there comes out of a reduction over q, so the result has no atomics and the same bits in each run;
it takes the extent of the target times the number of positions in comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch

from deplodock.frontend.decompositions.checks import check
from deplodock.frontend.decompositions.rows import (
    back,
    largest,
    last,
    positions,
    running_sum,
    smallest,
    wide,
    within,
    wrapped,
)
from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _hits(index: torch.Tensor, extent: int) -> torch.Tensor:
    """Where position q of the index `[.., q]` is p: `[.., p, q]`."""
    return index[..., None, :] == positions(extent, index)[:, None]


def _written(x: torch.Tensor, hits: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """`x[.., p]` replaced by the last element of `source[.., q]` that hits it, as PyTorch on a CPU writes in order."""
    found = torch.where(hits, positions(hits.shape[-1], hits), -1).amax(-1).expand(x.shape)
    return torch.where(found >= 0, source.gather(-1, found.clamp(min=0)), x)


def _combined(
    x: torch.Tensor, hits: torch.Tensor, source: torch.Tensor, reduce: str, include_self: bool = True
) -> torch.Tensor:
    """`x[.., p]` combined with all of `source[.., q]` that hit it: by sum, prod, mean, amax or amin.

    Half precision is combined in FP32 and rounded once. An element that nothing hits stays as it is.
    """
    own, others = wide(x), wide(source)[..., None, :]
    neutral = {"prod": 1, "amax": smallest(others), "amin": largest(others)}.get(reduce, 0)
    taken = torch.where(hits, others, neutral).to(own.dtype)
    match reduce:
        case "amax":
            value = taken.amax(-1)
            value = torch.maximum(own, value) if include_self else value
        case "amin":
            value = taken.amin(-1)
            value = torch.minimum(own, value) if include_self else value
        case "prod":
            value = taken.prod(-1, dtype=own.dtype)
            value = own * value if include_self else value
        case _:
            value = taken.sum(-1, dtype=own.dtype)
            value = own + value if include_self else value
    if reduce == "mean":
        count = hits.sum(-1, dtype=own.dtype) + int(include_self)
        count = torch.where(count == 0, 1, count).to(own.dtype)
        value = value / count if own.is_floating_point() else torch.div(value, count, rounding_mode="floor")
    value = value.to(x.dtype)
    return value if include_self and reduce != "mean" else torch.where(hits.any(-1), value, x)


def _scattered(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The rows of a scatter: of the target, its hits, and of the source as far as the index goes.

    The index may cover a part of the other dimensions; positions of -1, which hit nothing, fill it up.
    """
    rows, index = last(x, dim), last(index, dim)
    index = within(index, rows.shape[-1], dim % max(1, x.dim()))
    source = index if source is None else last(source, dim)
    if x.dim():
        source = source[tuple(slice(0, extent) for extent in index.shape)]
    missing = [extent - covered for extent, covered in zip(rows.shape[:-1], index.shape[:-1], strict=True)]
    if any(missing):
        amounts = [0, 0, *(amount for extra in reversed(missing) for amount in (0, extra))]
        index = torch.constant_pad_nd(index, amounts, -1)
        source = torch.constant_pad_nd(source, amounts)
    return rows, _hits(index, rows.shape[-1]), source


def _scatter(x: torch.Tensor, dim: int, index: torch.Tensor, source: Any, *, reduce: str | None = None) -> torch.Tensor:
    """`x` with elements of `source`, a tensor or a number, at positions along a dimension, or combined with them."""
    if not index.numel():
        return x.clone()
    if not isinstance(source, torch.Tensor):
        if reduce is None:
            rows, hits, _ = _scattered(x, dim, index, None)
            return back(rows.masked_fill(hits.any(-1), source), x, dim)
        source = x.new_full((), source).expand(index.shape)
    rows, hits, source = _scattered(x, dim, index, source)
    if reduce is None:
        return back(_written(rows, hits, source), x, dim)
    return back(_combined(rows, hits, source, {"add": "sum", "multiply": "prod"}[reduce]), x, dim)


def _scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """Elements combined with those of `source` whose positions along a dimension name them."""
    if not index.numel():
        return x.clone()
    rows, hits, source = _scattered(x, dim, index, source)
    return back(_combined(rows, hits, source, reduce, include_self), x, dim)


def _index_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """Slices combined with those of `source`, whose positions along a dimension are in a vector."""
    if not index.numel():
        return x.clone()
    rows = last(x, dim)
    index = within(index.reshape(-1), rows.shape[-1], dim % max(1, x.dim()))
    value = _combined(rows, _hits(index, rows.shape[-1]), last(source, dim), reduce, include_self)
    return back(value, x, dim)


def _index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: float = 1
) -> torch.Tensor:
    """Slices of `source`, times `alpha`, added to those that a vector of positions names."""
    return _index_reduce(x, dim, index, source if alpha == 1 else wide(source) * alpha, "sum")


def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Slices of `source` in the place of those that a vector of positions names; of equal positions the last."""
    if not index.numel():
        return x.clone()
    rows = last(x, dim)
    index = within(index.reshape(-1), rows.shape[-1], dim % max(1, x.dim()))
    source = last(source.expand(x.shape) if not source.dim() else source, dim)
    return back(_written(rows, _hits(index, rows.shape[-1]), source), x, dim)


def _index_fill(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> torch.Tensor:
    """One value in the slices that a vector of positions names."""
    if not index.numel():
        return x.clone()
    rows = last(x, dim)
    index = wrapped(index.reshape(-1), rows.shape[-1], dim % max(1, x.dim()))
    return back(rows.masked_fill(_hits(index, rows.shape[-1]).any(-1), value), x, dim)


def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    """`x[i, :, j] = values` with positions that broadcast together, or `x[mask] = value` with one value or slice."""
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    if any(index.dtype in (torch.bool, torch.uint8) for index in given.values()):
        return _mask_put(x, given, values, accumulate)
    index = torch.broadcast_tensors(*given.values())
    shape = index[0].shape
    dims, others = list(given), [d for d in range(x.dim()) if d not in given]
    together = all(b - a == 1 for a, b in pairwise(dims))
    place = dims[0] if together else 0
    target = torch.zeros_like(index[0])
    for dim, part in zip(dims, index, strict=True):
        target = target * x.shape[dim] + wrapped(part, x.shape[dim], dim)
    kept = [x.shape[d] for d in others]
    values = values.to(x.dtype).expand((*kept[:place], *shape, *kept[place:]))
    values = values.movedim(list(range(place, place + len(shape))), list(range(-len(shape), 0)))
    rows = x.permute(*others, *dims).reshape(*kept, prod(x.shape[d] for d in dims))
    result = _put_rows(rows, target.reshape(-1), values.reshape(*kept, prod(shape)), accumulate)
    result = result.reshape(*kept, *(x.shape[d] for d in dims))
    return result.movedim(list(range(len(kept), x.dim())), dims)


def _put_rows(rows: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """`source[.., q]` in the place of, or added to, `rows[.., index[q]]`."""
    if not index.numel() or not rows.numel():
        return rows.clone()
    hits = _hits(index, rows.shape[-1])
    return _combined(rows, hits, source, "sum") if accumulate else _written(rows, hits, source)


def _mask_put(x: torch.Tensor, given: dict[int, torch.Tensor], values: torch.Tensor, accumulate: bool) -> Any:
    """`x[:, mask] = values`: one value or slice for all positions of the mask, or one for each in their order."""
    if len(given) != 1:
        return NotImplemented
    ((dim, mask),) = given.items()
    mask = mask.bool()
    behind = x.shape[dim + mask.dim() :]
    values = values.to(x.dtype)
    if values.dim() > len(behind):
        along = values.dim() - len(behind) - 1
        if values.shape[along] != 1:
            count = mask.sum()
            check(count == values.shape[along], f"the mask must have {values.shape[along]} true elements")
            place = (running_sum(mask.reshape(-1).long()) - 1).clamp(0, max(0, values.shape[along] - 1))
            if not values.numel():
                return x.clone()
            values = values.index_select(along, place)
        else:
            values = values.expand([mask.numel() if d == along else n for d, n in enumerate(values.shape)])
        values = values.reshape(*values.shape[:along], *mask.shape, *values.shape[along + 1 :])
    mask = mask.reshape(*mask.shape, *[1] * len(behind))
    return torch.where(mask, x + values if accumulate else values, x)


def _put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """Elements of `source` in the place of, or added to, those of `x` in row-major order that an index names."""
    target = wrapped(index.reshape(-1), x.numel())
    return _put_rows(x.reshape(-1), target, source.reshape(-1), accumulate).reshape(x.shape)


SCATTERING: Decompositions = {
    ATEN.scatter.src: _scatter,
    ATEN.scatter.value: _scatter,
    ATEN.scatter.reduce: _scatter,
    ATEN.scatter.value_reduce: _scatter,
    ATEN.scatter_add.default: lambda x, dim, index, source: _scatter_reduce(x, dim, index, source, "sum"),
    ATEN.scatter_reduce.two: _scatter_reduce,
    ATEN.index_add.default: _index_add,
    ATEN.index_reduce.default: _index_reduce,
    ATEN.index_copy.default: _index_copy,
    ATEN.index_fill.int_Scalar: _index_fill,
    ATEN.index_fill.int_Tensor: _index_fill,
    ATEN.index_put.default: _index_put,
    ATEN._unsafe_index_put.default: _index_put,
    ATEN.put.default: _put,
}
