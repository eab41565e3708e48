"""How convolutions and pools read windows of the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.passes.torch.indexing import padded
from deplodock.passes.torch.tensors import Tensor


@dataclass(frozen=True)
class Window:
    """How a window walks one dimension: element `j` of window `i` is at `i * stride + j * dilation - padding`."""

    size: int
    stride: int
    padding: int
    dilation: int

    def meets(self, extent: int, count: int) -> bool:
        """Whether each of `count` windows has an element that is not of the padding."""
        if not self.padding:
            return True
        starts = (i * self.stride - self.padding for i in range(count))
        return all(any(0 <= start + j * self.dilation < extent for j in range(self.size)) for start in starts)

    def element(self, window: int, element: int) -> AffineExpr:
        """The position of an element, dimension `element`, of a window, dimension `window`, after the padding."""
        return AffineExpr.dimension(window) * self.stride + AffineExpr.dimension(element) * self.dilation

    def padding_after(self, extent: int, count: int) -> int:
        """What the last of `count` windows needs behind an extent."""
        reach = (count - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max(self.padding, reach - self.padding - extent)


def spread(values: Any, count: int) -> list[int]:
    """One number for each dimension; a list of one counts for all."""
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given


def windows_of(
    size: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[Window]:
    windows = [Window(*each) for each in zip(size, stride, padding, dilation, strict=True)]
    if any(window.stride < 1 or window.size < 1 or window.dilation < 1 or window.padding < 0 for window in windows):
        raise ValueError(f"no windows of size {list(size)} by {list(stride)}, {list(dilation)} apart")
    return windows


def padded_for(x: Tensor, windows: Sequence[Window], counts: Sequence[int], value: float) -> Tensor:
    """`x` with so much of `value` around the last dimensions as their windows read."""
    first = x.rank - len(windows)
    pads: dict[int, tuple[int, int]] = {}
    for dim, (window, count) in enumerate(zip(windows, counts, strict=True), first):
        after = window.padding_after(x.shape[dim], count)
        if window.padding or after:
            pads[dim] = (window.padding, after)
    return padded(x, pads, value) if pads else x


def with_zeros(x: Tensor, edges: Sequence[tuple[int, int]]) -> Tensor:
    """`x` with so many zeros before and after the elements of the last dimensions; negative amounts cut off."""
    first = x.rank - len(edges)
    places = [AffineExpr.dimension(d) for d in range(x.rank)]
    shape = list(x.shape)
    for dim, (before, after) in enumerate(edges, first):
        places[dim] = places[dim] - before if before else places[dim]
        shape[dim] += before + after
    return x.padded(AffineMap(x.rank, 0, tuple(places)), shape)


def read_windows(
    x: Tensor, windows: Sequence[Window], outside: float, counts: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """The elements of so many windows along the last dimensions, and the dimensions that hold those of one."""
    first, spaces = x.rank - len(windows), len(windows)
    space = (*x.shape[:first], *counts, *(window.size for window in windows))
    places = [window.element(first + d, first + spaces + d) for d, window in enumerate(windows)]
    outer = [AffineExpr.dimension(d) for d in range(first)]
    read = padded_for(x, windows, counts, outside).read([*outer, *places], space)
    return read, list(range(first + spaces, len(space)))
