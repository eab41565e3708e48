"""Decompositions of the forms that operations have in graphs for which PyTorch computes gradients."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensor = torch.Tensor


def _dtype(x: Tensor, half_to_float: bool) -> torch.dtype:
    return torch.float32 if half_to_float else x.dtype


def _convolution_backward(
    grad_output: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a convolution by its input, its weight and its bias, None where the mask wants none.

    That by the input of a convolution is a transposed one of what comes back, and the other way about.
    """
    spaces = weight.dim() - 2
    steps, edges, holes = (list(given) * (spaces if len(given) == 1 else 1) for given in (stride, padding, dilation))
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        beyond = [0] * spaces
        if not transposed:
            windows = zip(x.shape[2:], weight.shape[2:], edges, holes, steps, strict=True)
            beyond = [(n + 2 * p - d * (k - 1) - 1) % s for n, k, p, d, s in windows]
        by_input = torch.convolution(grad_output, weight, None, steps, edges, holes, not transposed, beyond, groups)[
            tuple(slice(extent) for extent in x.shape)
        ]
    if output_mask[1]:
        pair = (grad_output, x) if transposed else (x, grad_output)
        by_weight = _by_weight(*pair, weight.shape, steps, edges, holes, groups)
    if output_mask[2]:
        by_bias = grad_output.sum([0, *range(2, grad_output.dim())])
    return by_input, by_weight, by_bias


def _by_weight(
    large: Tensor,
    small: Tensor,
    shape: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """The gradient by the weight, whose windows move over `large` and give `small`: a convolution over the batch."""
    batch, channels, *extents = large.shape
    large = large.reshape(batch, groups, channels // groups, *extents).transpose(0, 2)
    large = large.reshape(channels // groups, groups * batch, *extents)
    spaces = [0] * len(extents)
    # Strides and dilations change places; where a stride left a rest, the result is longer than the weight.
    product = torch.convolution(large, small.transpose(0, 1), None, dilation, padding, stride, False, spaces, groups)
    return product.transpose(0, 1)[tuple(slice(extent) for extent in shape)]


def _max_pool_backward(
    grad_output: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
    spaces: int,
) -> Tensor:
    """The sum, for each element, over the windows that name it as their largest."""
    wide = grad_output.to(_wide(x))
    windows = _Windows(x, grad_output, spaces, kernel_size, stride, padding, dilation)
    extents = x.shape[-spaces:]
    place = torch.arange(extents.numel(), device=x.device).reshape([size for n in extents for size in (1, n)])
    kept = windows.counts & (windows.read(indices) == place)
    return windows.sum(torch.where(kept, windows.read(wide), 0)).to(x.dtype)


def _avg_pool_backward(
    grad_output: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    spaces: int,
) -> Tensor:
    """The sum, for each element, over the windows around it, of what comes back divided by the window's elements."""
    wide = grad_output.to(_wide(x))
    windows = _Windows(x, grad_output, spaces, kernel_size, stride, padding, [1])
    divided = wide / (divisor_override or windows.sizes(count_include_pad))
    return windows.sum(torch.where(windows.counts, windows.read(divided), 0)).to(x.dtype)


class _Windows:
    """The windows of a pool that an element stands in: for each dimension the element's place in it, then its own."""

    def __init__(
        self,
        x: Tensor,
        pooled: Tensor,
        spaces: int,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
    ) -> None:
        """`x` is what was pooled in its last dimensions, as many as `spaces`."""
        given = (kernel_size, stride or kernel_size, padding, dilation)
        self._forms = list(zip(*(list(g) * (spaces if len(g) == 1 else 1) for g in given), strict=True))
        self._extents, self._counts = x.shape[-spaces:], pooled.shape[-spaces:]
        self._device = x.device
        places, counts = zip(*map(self._along, range(spaces)), strict=True)
        self._places = places
        self.counts = functools.reduce(torch.logical_and, counts)

    def _along(self, dim: int) -> tuple[Tensor, Tensor]:
        """The window in which an element has a place, and whether there is one."""
        size, step, edge, hole = self._forms[dim]
        element = torch.arange(self._extents[dim], device=self._device)
        start = element + edge - torch.arange(size, device=self._device)[:, None] * hole
        window = start.div(step, rounding_mode="floor")
        is_one = (window * step == start) & (window >= 0) & (window < self._counts[dim])
        shape = [1] * (2 * len(self._forms))
        shape[2 * dim : 2 * dim + 2] = start.shape
        return window.clamp(0, self._counts[dim] - 1).reshape(shape), is_one.reshape(shape)

    def read(self, pooled: Tensor) -> Tensor:
        """What stands for the windows, at each place in them."""
        return pooled[(..., *self._places)]

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the places."""
        return values.sum([dim - 2 * len(self._forms) for dim in range(0, 2 * len(self._forms), 2)])

    def sizes(self, with_padding: bool) -> Tensor:
        """How many elements each window has."""
        sizes: list[Tensor] = []
        for dim, ((size, step, edge, _), extent) in enumerate(zip(self._forms, self._extents, strict=True)):
            start = torch.arange(self._counts[dim], device=self._device) * step - edge
            end = (start + size).clamp(max=extent + edge)
            own = end - start if with_padding else end.clamp(max=extent) - start.clamp(min=0)
            sizes.append(own.reshape([-1 if dim == other else 1 for other in range(len(self._forms))]))
        return functools.reduce(torch.mul, sizes)


def _wide(x: Tensor) -> torch.dtype:
    """The type in which half precision is summed."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


DERIVED: Decompositions = {
    ATEN._softmax.default: lambda x, dim, half: torch.softmax(x, dim, dtype=_dtype(x, half)),
    ATEN._log_softmax.default: lambda x, dim, half: torch.log_softmax(x, dim, dtype=_dtype(x, half)),
    ATEN.lift_fresh_copy.default: torch.clone,
    ATEN.convolution_backward.default: _convolution_backward,
    ATEN.max_pool2d_with_indices_backward.default: functools.partial(_max_pool_backward, spaces=2),
    ATEN.max_pool3d_with_indices_backward.default: functools.partial(_max_pool_backward, spaces=3),
    ATEN.avg_pool2d_backward.default: functools.partial(_avg_pool_backward, spaces=2),
    ATEN.avg_pool3d_backward.default: functools.partial(_avg_pool_backward, spaces=3),
}
