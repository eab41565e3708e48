"""Decompositions of what reads at positions that are in a tensor, and of what counts them."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import torch

from deplodock.frontend.decompositions.checks import check, check_index
from deplodock.frontend.decompositions.rows import positions, running_sum
from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The elements of `x` in row-major order that an index names."""
    place = torch.where(index < 0, index + x.numel(), index).reshape(-1)
    return x.reshape(-1).index_select(0, place).reshape(index.shape)


def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The elements of `source` in their order where the mask is true."""
    x, mask = torch.broadcast_tensors(x, mask)
    if not x.numel():
        return x.clone()
    number = running_sum(mask.reshape(-1).long())
    check(number[-1] <= source.numel(), f"the mask must have at most {source.numel()} true elements")
    if not source.numel():
        return x.clone()
    place = (number - 1).clamp(0, source.numel() - 1)
    return torch.where(mask, source.reshape(-1).index_select(0, place).reshape(x.shape), x)


def _repeated_positions(repeats: torch.Tensor, *, output_size: int | None = None) -> Any:
    """Each position as often as its number says, which makes `output_size` of them."""
    if output_size is None:
        return NotImplemented
    if not repeats.numel():
        return repeats.new_zeros(output_size)
    ends = running_sum(repeats.long())
    check((repeats >= 0) & (ends[-1] == output_size), f"the repeats must not be negative, and add up to {output_size}")
    found = (positions(output_size, repeats)[:, None] >= ends).sum(-1)
    return found.clamp(max=repeats.numel() - 1).to(repeats.dtype)


def _repeat_interleave(
    x: torch.Tensor, repeats: torch.Tensor, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each slice as often as its number says, or all of them as one number says."""
    if output_size is None:
        return NotImplemented
    row = x.reshape(-1) if dim is None else x
    dim = dim or 0
    repeats = repeats.reshape(-1).expand(row.shape[dim])
    return row.index_select(dim, _repeated_positions(repeats.long(), output_size=output_size))


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> Any:
    """1 where a coordinate of the last dimension is the element, which must be one of them."""
    if num_classes < 0:
        return NotImplemented
    check_index(x, 0, num_classes, f"class values must be from 0 to {num_classes - 1}")
    return (x[..., None] == positions(num_classes, x)).long()


def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """How many elements are in each of equal bins between two bounds; the last bin has its upper bound.

    Equal bounds stand for the smallest and the largest element, which must be finite.
    """
    elements = x.reshape(-1)
    if not elements.numel():
        return x.new_zeros(bins)
    low, high = x.new_full((), min), x.new_full((), max)
    if min == max:
        low, high = elements.amin(), elements.amax()
        check((low.abs() < inf) & (high.abs() < inf), "the elements must be finite where no bounds are given")
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    place = ((elements - low) * bins / (high - low)).floor()
    place = torch.where(place == bins, bins - 1, place)
    inside = (elements >= low) & (elements <= high)
    hits = place == positions(bins, x)[:, None]
    return (hits & inside).sum(-1).to(x.dtype)


def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """The coordinates of the first `size` elements that are not 0, a row for each; rows that are left hold a number."""
    if not x.numel() or not x.dim() or not size:
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    number = running_sum((x != 0).reshape(-1).long())
    place = (number <= positions(size, x)[:, None]).sum(1)
    strides = [prod(x.shape[dim + 1 :]) for dim in range(x.dim())]
    coordinates = [place // stride % extent for stride, extent in zip(strides, x.shape, strict=True)]
    return torch.where((place < x.numel())[:, None], torch.stack(coordinates, 1), fill_value)


INDEXING: Decompositions = {
    ATEN.nonzero_static.default: _nonzero_static,
    ATEN.take.default: _take,
    ATEN.masked_scatter.default: _masked_scatter,
    ATEN.one_hot.default: _one_hot,
    ATEN.histc.default: _histc,
    ATEN.repeat_interleave.Tensor: _repeated_positions,
    ATEN.repeat_interleave.self_Tensor: _repeat_interleave,
}
