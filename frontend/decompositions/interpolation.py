"""Decompositions of interpolation, which give the elements of PyTorch's kernels for CPUs.

Positions and weights are those of `aten/src/ATen/native/UpSample.h`, in the precision in which it computes them. Where
a scale leaves an extent as it is, most kernels keep the elements; PyTorch's own decompositions resample them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions

_CUBIC = -0.75
"""The parameter of the cubic convolution (R. Keys, IEEE Trans. ASSP 29(6), 1981) that PyTorch takes."""

_Taps: TypeAlias = list[tuple[torch.Tensor, torch.Tensor | None]]
"""Positions along a dimension with the weights of the elements there, None for 1."""
_Sampling: TypeAlias = Callable[..., _Taps | None]
"""The taps along an axis, of those that weigh also by whether corners are aligned; None where all elements stay."""


class _Axis:
    """A dimension that is resampled: its extents before and after, its scale if that is given, and where to compute."""

    def __init__(self, x: torch.Tensor, old: int, new: int, scale: float | None) -> None:
        self.old, self.new, self.scale = old, new, scale
        self.element = torch.float64 if x.dtype == torch.float64 else torch.float32
        self._device = x.device

    def step(self, element: torch.dtype, *, align_corners: bool = False) -> torch.Tensor:
        """How far the source of one element lies from that of the next."""
        if align_corners:
            return self._number(self.old - 1, element) / max(1, self.new - 1) * (self.new > 1)
        return self._number(self.old, element) / self.new if not self.scale else self._number(1 / self.scale, element)

    def coordinates(self, element: torch.dtype) -> torch.Tensor:
        """The coordinates of the elements that are computed."""
        return torch.arange(self.new, dtype=element, device=self._device)

    def inside(self, position: torch.Tensor) -> torch.Tensor:
        """Positions moved to the nearest ones that exist."""
        return position.clamp(0, self.old - 1)

    def _number(self, value: float, element: torch.dtype) -> torch.Tensor:
        return torch.full((), value, dtype=element, device=self._device)


def _nearest(axis: _Axis) -> _Taps:
    """`floor(i * step)`, in float32 for all types."""
    source = axis.coordinates(torch.float32) * axis.step(torch.float32)
    return [(axis.inside(source.floor().long()), None)]


def _nearest_of_images(axis: _Axis) -> _Taps | None:
    """As `_nearest`, but extents that stay or double do so whatever the scale, in two dimensions alone."""
    if axis.new == axis.old:
        return None
    return [(axis.coordinates(torch.int64) // 2, None)] if axis.new == 2 * axis.old else _nearest(axis)


def _nearest_exact(axis: _Axis) -> _Taps:
    """`floor((i + 1/2) * step)`, in float32 for all types."""
    source = (axis.coordinates(torch.float32) + 0.5) * axis.step(torch.float32)
    return [(axis.inside(source.floor().long()), None)]


def _source(axis: _Axis, align_corners: bool) -> torch.Tensor:
    """Where elements come from: `i * step` or `(i + 1/2) * step - 1/2`."""
    step = axis.step(axis.element, align_corners=align_corners)
    coordinates = axis.coordinates(axis.element)
    return coordinates * step if align_corners else (coordinates + 0.5) * step - 0.5


def _linear(axis: _Axis, align_corners: bool) -> _Taps | None:
    """The two elements around the source; an extent that stays keeps its elements."""
    if axis.new == axis.old:
        return None
    source = _source(axis, align_corners).clamp(min=0)
    low = axis.inside(source.floor().long())
    weight = (source - low).clamp(0, 1)
    return [(low, 1 - weight), (axis.inside(low + 1), weight)]


def _cubic(axis: _Axis, align_corners: bool) -> _Taps:
    """The four elements around the source."""
    source = _source(axis, align_corners)
    whole = source.floor().clamp(max=axis.old - 1)
    t = (source - whole).clamp(0, 1)
    weights = (_far(t + 1), _near(t), _near(1 - t), _far(2 - t))
    return [(axis.inside(whole.long() + place - 1), weight) for place, weight in enumerate(weights)]


def _near(t: torch.Tensor) -> torch.Tensor:
    """The cubic convolution at distances up to 1."""
    return ((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1


def _far(t: torch.Tensor) -> torch.Tensor:
    """The cubic convolution at distances from 1 to 2."""
    return ((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC


def _resample(
    x: torch.Tensor, size: Sequence[int], scales: Sequence[float | None], sampling: _Sampling, *align_corners: bool
) -> Any:
    """`x` with new extents of its last dimensions, each element a weighted sum along each of them."""
    first, dtype = x.dim() - len(size), x.dtype
    if align_corners and not dtype.is_floating_point:
        return NotImplemented
    for dim, (extent, scale) in reversed(list(enumerate(zip(size, scales, strict=True), first))):
        shape = [extent if d == dim else 1 for d in range(x.dim())]
        taps = sampling(_Axis(x, x.shape[dim], extent, scale), *align_corners)
        if taps is None:
            continue
        parts = [(x.index_select(dim, position), weight) for position, weight in taps]
        x = reduce(torch.add, [part if weight is None else part * weight.view(shape) for part, weight in parts])
    return x.to(dtype)


def _matrix(axis: _Axis, taps: _Taps) -> torch.Tensor:
    """What each element along an axis, a column, has of each that is computed, a row."""
    elements = torch.arange(axis.old, device=taps[0][0].device)
    weights = ((position[:, None] == elements, weight) for position, weight in taps)
    parts = (torch.where(hits, 1 if own is None else own[:, None], 0).to(axis.element) for hits, own in weights)
    return reduce(torch.add, parts)


def _weighted(x: torch.Tensor, dim: int, matrix: torch.Tensor) -> torch.Tensor:
    """`x` with a dimension multiplied by a matrix from the right, in full precision."""
    return (x.movedim(dim, -1)[..., None] * matrix).sum(-2).movedim(-1, dim)


def _backward(sampling: _Sampling, options: int) -> Callable[..., Any]:
    """The gradient: each element has from those that are computed what they have of it."""

    def by_input(grad: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], *args: Any) -> torch.Tensor:
        scales = args[options:] or [None] * len(output_size)
        value = grad if grad.dtype == torch.float64 else grad.float()
        for dim, (new, scale) in enumerate(zip(output_size, scales, strict=True), 2):
            axis = _Axis(grad, input_size[dim], new, scale)
            taps = sampling(axis, *args[:options])
            value = value if taps is None else _weighted(value, dim, _matrix(axis, taps))
        return value.to(grad.dtype)

    return by_input


def _antialiased(axis: _Axis, align_corners: bool, kind: str) -> torch.Tensor:
    """A matrix as `_matrix` gives it, of windows that widen where elements become fewer; a row's sum is 1."""
    step = axis.step(axis.element, align_corners=align_corners)
    stretch, reach = step.clamp(min=1), {"linear": 1, "cubic": 2}[kind]
    center = ((axis.coordinates(axis.element) + 0.5) * step)[:, None]
    elements = torch.arange(axis.old, dtype=axis.element, device=step.device)
    low = (center - reach * stretch + 0.5).trunc().clamp(min=0)
    high = (center + reach * stretch + 0.5).trunc().clamp(max=axis.old)
    distance = ((elements - center + 0.5) / stretch).abs()
    if kind == "linear":
        weight = (1 - distance).clamp(min=0)
    else:
        inner = (1.5 * distance - 2.5) * distance * distance + 1
        outer = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        weight = torch.where(distance < 1, inner, torch.where(distance < 2, outer, 0))
    weight = torch.where(torch.logical_and(elements >= low, elements < high), weight, 0)
    return weight / weight.sum(1, keepdim=True)


def _with_antialias(
    x: torch.Tensor, extents: Sequence[int], align_corners: bool, scales: Sequence[float | None], kind: str, turns: bool
) -> Any:
    """The last dimensions resampled to these extents; or with `turns` the gradient, of which these have the inputs."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    value = x if x.dtype == torch.float64 else x.float()
    for dim, (extent, scale) in enumerate(zip(extents, scales, strict=True), x.dim() - len(extents)):
        old, new = (extent, x.shape[dim]) if turns else (x.shape[dim], extent)
        matrix = _antialiased(_Axis(x, old, new, scale), align_corners, kind)
        value = _weighted(value, dim, matrix if turns else matrix.t())
    return value.to(x.dtype)


def _smooth(kind: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Interpolation with antialias, and its gradient."""

    def interpolate(x: torch.Tensor, size: Sequence[int], align_corners: bool, *scales: float | None) -> Any:
        return _with_antialias(x, size, align_corners, scales or [None] * len(size), kind, False)

    def by_input(
        grad: torch.Tensor, size: Sequence[int], old: Sequence[int], align_corners: bool, *scales: float | None
    ) -> Any:
        return _with_antialias(grad, old[2:], align_corners, scales or [None] * len(size), kind, True)

    return interpolate, by_input


def _by_numbers(sampling: _Sampling, options: int) -> Callable[..., Any]:
    """The overload `default`, which takes the new extents, then whether corners are aligned, then a scale for each."""

    def interpolate(x: torch.Tensor, output_size: Sequence[int], *args: Any) -> Any:
        scales = args[options:] or [None] * len(output_size)
        return _resample(x, output_size, scales, sampling, *args[:options])

    return interpolate


def _by_lists(sampling: _Sampling, options: int) -> Callable[..., Any]:
    """The overload `vec`, which takes the new extents or scales, and between them whether corners are aligned."""

    def interpolate(x: torch.Tensor, output_size: Sequence[int] | None, *args: Any) -> Any:
        scales = args[options]
        if output_size is None:
            output_size = [int(extent * scale) for extent, scale in zip(x.shape[2:], scales, strict=True)]
        return _resample(x, output_size, scales or [None] * len(output_size), sampling, *args[:options])

    return interpolate


_KINDS = (
    (_nearest, 0, (ATEN.upsample_nearest1d, ATEN.upsample_nearest3d)),
    (_nearest_of_images, 0, (ATEN.upsample_nearest2d,)),
    (_nearest_exact, 0, (ATEN._upsample_nearest_exact1d, ATEN._upsample_nearest_exact2d)),
    (_nearest_exact, 0, (ATEN._upsample_nearest_exact3d,)),
    (_linear, 1, (ATEN.upsample_linear1d, ATEN.upsample_bilinear2d, ATEN.upsample_trilinear3d)),
    (_cubic, 1, (ATEN.upsample_bicubic2d,)),
)

_SMOOTH = (("linear", ATEN._upsample_bilinear2d_aa), ("cubic", ATEN._upsample_bicubic2d_aa))

INTERPOLATION: Decompositions = {
    **{packet.default: _smooth(kind)[0] for kind, packet in _SMOOTH},
    **{getattr(ATEN, f"{packet.__name__}_backward").default: _smooth(kind)[1] for kind, packet in _SMOOTH},
}
INTERPOLATION |= {
    overload: make(sampling, options)
    for sampling, options, packets in _KINDS
    for packet in packets
    for overload, make in (
        *((packet.default, _by_numbers), (packet.vec, _by_lists)),
        (getattr(ATEN, f"{packet.__name__}_backward").default, _backward),
    )
}
