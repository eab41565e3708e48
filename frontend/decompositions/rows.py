"""What decompositions along one dimension share: that dimension at the end, positions, sums and extremes."""

from __future__ import annotations

from math import inf

import torch

from deplodock.frontend.decompositions.checks import check_index

_OUTSIDE = "an index is out of bounds for dimension {} with size {}"

_CHUNK = 32
"""How many elements of a running sum are added up together: so it takes 32 additions for an element, not all."""


def last(x: torch.Tensor, dim: int) -> torch.Tensor:
    """`x` with a dimension moved to the end; a tensor without dimensions has one element along it."""
    return x.movedim(dim, -1) if x.dim() else x.reshape(1)


def back(value: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """A result for `last(x, dim)` with its last dimension where it was in `x`."""
    return value.movedim(-1, dim) if x.dim() else value.reshape(())


def positions(extent: int, x: torch.Tensor) -> torch.Tensor:
    """The positions 0, 1, ... along a dimension, on the device of `x`."""
    return torch.arange(extent, device=x.device)


def wide(x: torch.Tensor) -> torch.Tensor:
    """Half precision in FP32, in which one operation computes all its steps; other types as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether elements are equal, where NaN equals NaN."""
    return (a == b) | (a.isnan() & b.isnan()) if a.is_floating_point() else a == b


def largest(x: torch.Tensor) -> torch.Tensor:
    """The largest element that the type of `x` has."""
    if x.dtype == torch.bool:
        return x.new_full((), True)
    return x.new_full((), inf if x.is_floating_point() else torch.iinfo(x.dtype).max)


def smallest(x: torch.Tensor) -> torch.Tensor:
    """The smallest element that the type of `x` has."""
    if x.dtype == torch.bool:
        return x.new_full((), False)
    return x.new_full((), -inf if x.is_floating_point() else torch.iinfo(x.dtype).min)


def within(index: torch.Tensor, extent: int, dim: int = 0) -> torch.Tensor:
    """Positions along a dimension, which a call checks to count from its start."""
    check_index(index, 0, extent, _OUTSIDE.format(dim, extent))
    return index


def wrapped(index: torch.Tensor, extent: int, dim: int = 0) -> torch.Tensor:
    """Positions that may be negative, and count from the end then, as ones that count from the start; checked, too."""
    check_index(index, -extent, extent, _OUTSIDE.format(dim, extent))
    return torch.where(index < 0, index + extent, index)


def running_sum(count: torch.Tensor) -> torch.Tensor:
    """The sum of a vector of integers up to each position, itself among them."""
    (extent,) = count.shape
    if extent <= 2 * _CHUNK:
        return count.cumsum(0)
    chunks = torch.constant_pad_nd(count, [0, -extent % _CHUNK]).reshape(-1, _CHUNK).cumsum(1)
    before = running_sum(chunks[:, -1]) - chunks[:, -1]
    return (chunks + before[:, None]).reshape(-1)[:extent]
