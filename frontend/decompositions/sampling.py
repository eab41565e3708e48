"""Decompositions that read a tensor between its elements: grid_sample."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TypeAlias

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensor = torch.Tensor

# PyTorch's numbers of the modes; bilinear is 0, border 1.
_NEAREST, _BICUBIC = 1, 2
_ZEROS, _REFLECTION = 0, 2
_CUBIC = -0.75


def _grid_sample(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """The elements of `x`, [n, c, spaces..], at the points of `grid`, [n, points.., spaces].

    A point names the last dimension of `x` first. -1 and 1 are the ends of a dimension: with `align_corners` the
    centres of its first and last elements, else their outer edges. Half precision is computed in float32 and rounded
    once.
    """
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    extents = x.shape[2:]
    coordinates = reversed(grid.to(wide).unbind(-1))
    places = [_unnormalized(place, n, align_corners) for place, n in zip(coordinates, extents, strict=True)]
    if interpolation_mode == _BICUBIC:
        return _bicubic(x.to(wide), places, padding_mode, align_corners).to(x.dtype)
    places = [_inside(p, n, padding_mode, align_corners) for p, n in zip(places, extents, strict=True)]
    if interpolation_mode == _NEAREST:
        return _read(x, [place.round() for place in places])
    starts = [place.floor() for place in places]
    corners = itertools.product((0, 1), repeat=len(extents))
    return functools.reduce(torch.add, (_corner(x.to(wide), places, starts, corner) for corner in corners)).to(x.dtype)


def _corner(x: Tensor, places: Sequence[Tensor], starts: Sequence[Tensor], steps: Sequence[int]) -> Tensor:
    """The element at one corner around each point, times its weight: the volume to the opposite corner."""
    found = _read(x, [start + step for start, step in zip(starts, steps, strict=True)])
    shares = [p - start if step else start + 1 - p for p, start, step in zip(places, starts, steps, strict=True)]
    return found * functools.reduce(torch.mul, shares).unsqueeze(1)


def _unnormalized(place: Tensor, extent: int, align_corners: bool) -> Tensor:
    return (place + 1) / 2 * (extent - 1) if align_corners else ((place + 1) * extent - 1) / 2


def _inside(place: Tensor, extent: int, padding_mode: int, align_corners: bool) -> Tensor:
    """A coordinate moved to where the padding takes its element from: an end, or its mirror image about the ends."""
    if padding_mode == _ZEROS:
        return place
    if padding_mode == _REFLECTION:
        place = _reflected(place, 0, 2 * (extent - 1)) if align_corners else _reflected(place, -1, 2 * extent - 1)
    # The larger of NaN and 0 is 0 here, as in the comparisons of PyTorch.
    return torch.where(place > 0, torch.where(place < extent - 1, place, extent - 1), 0)


def _reflected(place: Tensor, twice_low: int, twice_high: int) -> Tensor:
    """A coordinate mirrored about both bounds, given twofold, until it is between them."""
    if twice_low == twice_high:
        return torch.zeros_like(place)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    distance = (place - low).abs()
    rest = torch.fmod(distance, span)
    flips = (distance / span).floor()
    is_even = torch.fmod(flips, 2) == 0
    return torch.where(is_even, rest + low, span - rest + low)


def _read(x: Tensor, places: Sequence[Tensor]) -> Tensor:
    """The elements of `x` at whole coordinates of each batch, [n, c, points..], 0 outside."""
    inside, points = _flat(x, places)
    batch, channels = x.shape[:2]
    flat = points.reshape(batch, 1, -1).expand(batch, channels, -1)
    found = x.reshape(batch, channels, -1).gather(2, flat).reshape(batch, channels, *points.shape[1:])
    return torch.where(inside.unsqueeze(1), found, 0)


def _flat(x: Tensor, places: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Whether whole coordinates are inside of `x`, and the row-major position of each, some one outside."""
    extents = x.shape[2:]
    fits = [(place >= 0) & (place <= extent - 1) for place, extent in zip(places, extents, strict=True)]
    inside = functools.reduce(torch.logical_and, fits)
    indices = [torch.where(inside, place, 0).long() for place in places]
    flat = indices[0]
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        flat = flat * extent + index
    return inside, flat


def _bicubic(x: Tensor, places: Sequence[Tensor], padding_mode: int, align_corners: bool) -> Tensor:
    """Cubic convolution of the four neighbours in each dimension, each of which the padding moves."""
    extents = x.shape[2:]
    starts = [place.floor() for place in places]
    weights = [_cubic(place - start) for place, start in zip(places, starts, strict=True)]
    rows, columns = (
        [_inside(start + (step - 1), extent, padding_mode, align_corners).trunc() for step in range(4)]
        for start, extent in zip(starts, extents, strict=True)
    )

    def line(row: int) -> Tensor:
        read = (_read(x, [rows[row], columns[c]]) * weights[1][c].unsqueeze(1) for c in range(4))
        return functools.reduce(torch.add, read)

    return functools.reduce(torch.add, (line(row) * weights[0][row].unsqueeze(1) for row in range(4)))


def _cubic(t: Tensor) -> list[Tensor]:
    """The weights of the neighbours at distances 1 + t, t, 1 - t and 2 - t: R. Keys, 1981, with A = -0.75."""
    a = _CUBIC

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic_slopes(t: Tensor) -> list[Tensor]:
    """How the weights of `_cubic` change with t."""

    def near(x: Tensor) -> Tensor:
        return (3 * (_CUBIC + 2) * x - 2 * (_CUBIC + 3)) * x

    def far(x: Tensor) -> Tensor:
        return (3 * _CUBIC * x - 10 * _CUBIC) * x + 8 * _CUBIC

    return [far(t + 1), near(t), -near(1 - t), -far(2 - t)]


_Tap: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Whole coordinates, the weights of the elements there, and how these change with the place."""


def _grid_sample_backward(
    grad: Tensor,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of `_grid_sample` by `x` and by `grid`, None where the mask wants none.

    An element has what comes back to each point that reads it, times its weight there.
    """
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    extents, coordinates = x.shape[2:], list(reversed(grid.to(wide).unbind(-1)))
    places = [_unnormalized(place, n, align_corners) for place, n in zip(coordinates, extents, strict=True)]
    slopes = [torch.full_like(place, (n - align_corners) / 2) for place, n in zip(places, extents, strict=True)]
    if interpolation_mode != _BICUBIC:
        moved = zip(slopes, places, extents, strict=True)
        slopes = [slope * _turn(place, n, padding_mode, align_corners) for slope, place, n in moved]
        places = [_inside(p, n, padding_mode, align_corners) for p, n in zip(places, extents, strict=True)]
    taps = [
        _taps(place, n, interpolation_mode, padding_mode, align_corners)
        for place, n in zip(places, extents, strict=True)
    ]
    by_x, by_place = torch.zeros_like(x, dtype=wide), [torch.zeros_like(place) for place in places]
    for chosen in itertools.product(*taps):
        positions, weights, changes = zip(*chosen, strict=True)
        if output_mask[0]:
            by_x = by_x + _given_back(grad.to(wide) * functools.reduce(torch.mul, weights).unsqueeze(1), x, positions)
        if output_mask[1]:
            read = (_read(x.to(wide), positions) * grad.to(wide)).sum(1)
            for dim, change in enumerate(changes):
                others = [weight for other, weight in enumerate(weights) if other != dim]
                by_place[dim] = by_place[dim] + read * functools.reduce(torch.mul, others, change)
    by_grid = torch.stack([place * slope for place, slope in zip(by_place, slopes, strict=True)][::-1], -1)
    return by_x.to(x.dtype) if output_mask[0] else None, by_grid.to(grid.dtype) if output_mask[1] else None


def _taps(place: Tensor, extent: int, mode: int, padding_mode: int, align_corners: bool) -> list[_Tap]:
    """The elements along a dimension that are read for a place in it."""
    start, one = place.floor(), torch.ones_like(place)
    if mode == _NEAREST:
        return [(place.round(), one, torch.zeros_like(place))]
    share = place - start
    if mode != _BICUBIC:
        return [(start, 1 - share, -one), (start + 1, share, one)]
    positions = [_inside(start + (step - 1), extent, padding_mode, align_corners).trunc() for step in range(4)]
    return list(zip(positions, _cubic(share), _cubic_slopes(share), strict=True))


def _turn(place: Tensor, extent: int, padding_mode: int, align_corners: bool) -> Tensor:
    """How the coordinate that the padding takes moves with a coordinate: 1, -1 where mirrored, 0 at an end."""
    turn = torch.ones_like(place)
    if padding_mode == _ZEROS:
        return turn
    if padding_mode == _REFLECTION:
        low, high = (0, 2 * (extent - 1)) if align_corners else (-1, 2 * extent - 1)
        span = (high - low) / 2
        if not span:
            return torch.zeros_like(place)
        distance = place - low / 2
        is_even = torch.fmod((distance.abs() / span).floor(), 2) == 0
        turn = torch.where(is_even == (distance >= 0), 1, -1).to(place.dtype)
        place = _reflected(place, low, high)
    return torch.where(torch.logical_and(place > 0, place < extent - 1), turn, 0)


def _given_back(grad: Tensor, x: Tensor, places: Sequence[Tensor]) -> Tensor:
    """What comes back to points, [n, c, points..], added up at their whole coordinates in `x`; outside it is lost."""
    inside, points = _flat(x, places)
    batch, channels = x.shape[:2]
    taken = torch.where(inside.unsqueeze(1), grad, 0).reshape(batch, channels, -1)
    zeros = grad.new_zeros((batch, channels, x.shape[2:].numel()))
    return zeros.scatter_add(2, points.reshape(batch, 1, -1).expand(taken.shape), taken).reshape(x.shape)


SAMPLING: Decompositions = {
    ATEN.grid_sampler_2d_backward.default: _grid_sample_backward,
    ATEN.grid_sampler_3d_backward.default: _grid_sample_backward,
    ATEN.grid_sampler_2d.default: _grid_sample,
    ATEN.grid_sampler_3d.default: _grid_sample,
}
