"""Decompositions of gradients that PyTorch has kernels for: of adaptive pools, distances, norms of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from deplodock.frontend.decompositions.rows import positions, running_sum, wide
from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensor = torch.Tensor


def _by_positions(grad: Tensor, x: Tensor, indices: Tensor, spaces: int) -> Tensor:
    """The sum, for each element of the last dimensions of `x`, over the windows that name it in `indices`."""
    lead, extents = x.shape[:-spaces], x.shape[-spaces:]
    named = indices.reshape(*lead, -1)
    zeros = wide(grad).new_zeros((*lead, math.prod(extents)))
    return zeros.scatter_add(-1, named, wide(grad).reshape(named.shape)).reshape(x.shape).to(grad.dtype)


def _fractional_by_positions(
    grad: Tensor, x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], indices: Tensor, *, spaces: int
) -> Tensor:
    return _by_positions(grad, x, indices, spaces)


def _adaptive_avg_pool_backward(grad: Tensor, x: Tensor, spaces: int) -> Tensor:
    """The sum, for each element, over the windows around it, of what comes back divided by the window's elements.

    Window i of m over n elements goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`; dimensions are independent.
    """
    value = wide(grad)
    for dim in range(-spaces, 0):
        windows, extent = positions(grad.shape[dim], grad)[:, None], x.shape[dim]
        start = windows * extent // grad.shape[dim]
        end = ((windows + 1) * extent + grad.shape[dim] - 1) // grad.shape[dim]
        element = positions(extent, grad)
        is_inside = torch.logical_and(element >= start, element < end)
        shares = value.movedim(dim, -1)[..., None] / (end - start)
        value = torch.where(is_inside, shares, 0).sum(-2).movedim(-1, dim)
    return value.to(grad.dtype)


def _weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The gradients of `v * g / |v|` by `v` and by `g`; norms are over all dimensions but one."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    wanted, own, length = wide(grad), wide(v), wide(norms)
    along = (wanted * own).sum(others, keepdim=True)
    by_v = wide(g) / length * (wanted - own * (along / (length * length)))
    return by_v.to(v.dtype), (along / length).to(g.dtype)


def _slope(difference: Tensor, grad: Tensor, distance: Tensor, p: float) -> Tensor:
    """The gradient of the p-norm of a difference by its elements, times `grad`."""
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return grad * difference.sign()
    if p == math.inf:
        return grad * difference.sign() * (difference.abs() == distance)
    if p == 2:
        return torch.where(distance == 0, 0, grad * difference / distance)
    size = difference.abs()
    value = difference.sign() * size.pow(p - 1) * grad / distance.pow(p - 1)
    is_flat = distance == 0 if p >= 1 else torch.logical_or(distance == 0, difference == 0)
    return torch.where(is_flat, 0, value)


def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """The gradient of the distances between rows of `x1` and rows of `x2`, by `x1`."""
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    return _slope(difference, grad[..., None], cdist[..., None], p).sum(-2)


def _pdist_backward(grad: Tensor, x: Tensor, p: float, pdist: Tensor) -> Tensor:
    """The gradient of the distances between all rows, those of each row to later ones in order."""
    if not grad.numel():
        return torch.zeros_like(x)
    count = x.shape[0]
    row, column = positions(count, x)[:, None], positions(count, x)
    low, high = torch.minimum(row, column), torch.maximum(row, column)
    place = low * count - low * (low + 1) // 2 + high - low - 1
    is_pair = row != column
    place = torch.where(is_pair, place, 0)
    wanted = torch.where(is_pair, grad[place], 0)
    distance = torch.where(is_pair, pdist[place], 0)
    return _slope(x[:, None] - x, wanted[..., None], distance[..., None], p).sum(1)


def _masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """What comes back to elements that a mask took in order: the grad where the mask holds, then zeros."""
    count = math.prod(sizes)
    flat = mask.expand(grad.shape).reshape(-1)
    place = torch.where(flat, running_sum(flat.long()) - 1, count)
    zeros = grad.new_zeros(count + 1)
    return zeros.scatter(0, place.clamp(max=count), grad.reshape(-1))[:count].reshape(list(sizes))


def _rrelu_with_noise(
    x: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    """In training, slopes are drawn; else all have the mean."""
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise.clone()


def _rrelu_backward(
    grad: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, self_is_result: bool
) -> Tensor:
    """What comes back, times the slope that was drawn or the mean of both bounds."""
    if training and upper - lower > 1e-6:
        return grad * noise
    return torch.where(x > 0, grad, grad * ((lower + upper) / 2))


GRADIENTS: Decompositions = {
    ATEN.adaptive_max_pool2d_backward.default: partial(_by_positions, spaces=2),
    ATEN.adaptive_max_pool3d_backward.default: partial(_by_positions, spaces=3),
    ATEN.fractional_max_pool2d_backward.default: partial(_fractional_by_positions, spaces=2),
    ATEN.fractional_max_pool3d_backward.default: partial(_fractional_by_positions, spaces=3),
    ATEN._adaptive_avg_pool2d_backward.default: partial(_adaptive_avg_pool_backward, spaces=2),
    ATEN._adaptive_avg_pool3d_backward.default: partial(_adaptive_avg_pool_backward, spaces=3),
    ATEN._weight_norm_interface_backward.default: _weight_norm_backward,
    ATEN._cdist_backward.default: _cdist_backward,
    ATEN._pdist_backward.default: _pdist_backward,
    ATEN.masked_scatter_backward.default: _masked_scatter_backward,
    ATEN.rrelu_with_noise_functional.default: _rrelu_with_noise,
    ATEN.rrelu_with_noise_backward.default: _rrelu_backward,
}
