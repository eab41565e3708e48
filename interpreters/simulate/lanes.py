"""The lanes that run an op, and affine expressions over values of lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from xdsl.ir.affine import AffineMap

from deplodock.interpreters.affine import affine
from deplodock.interpreters.values import Array


@dataclass(frozen=True)
class Frame:
    """The shape of the lanes, [iterations..., CTAs, threads], and which of them are active (None: all).

    The first `level` dimensions are those of the loops around that run as one step; the dimensions between them and the
    CTAs are 1, for loops inside.
    """

    shape: tuple[int, ...]
    mask: Array | None = None
    level: int = 0

    @cached_property
    def active(self) -> int:
        """The number of active lanes."""
        if self.mask is None:
            return math.prod(self.shape)
        repeats = math.prod(self.shape) // self.mask.size
        return int(np.count_nonzero(self.mask)) * repeats

    def where(self, condition: Array) -> Frame:
        """The frame of the lanes for which a condition holds as well."""
        if condition.all():
            return self
        return Frame(self.shape, condition if self.mask is None else self.mask & condition, self.level)

    def nest(self, trips: int, depth: int) -> tuple[Frame, Array]:
        """The frame inside a loop that runs as one step, and the loop's induction variable.

        `depth` is the number of such loops inside each other, this one the first, unless there are some around.
        """
        shape = (1,) * depth + self.shape if self.level == 0 else self.shape
        inner = (*shape[: self.level], trips, *shape[self.level + 1 :])
        return Frame(inner, self.mask, self.level + 1), _counted(trips, len(inner) - self.level - 1)

    def widened(self, width: int) -> Frame:
        """The frame with the elements of accesses of that width in a first dimension, if there is more than one."""
        return self if width == 1 else Frame((width, *self.shape), self.mask, self.level)

    def first(self, lanes: Array) -> tuple[int, ...]:
        """The position of the first lane of those for which `lanes` holds; the last two numbers are CTA and thread."""
        return tuple(int(i) for i in np.unravel_index(np.argmax(np.broadcast_to(lanes, self.shape)), self.shape))

    def count(self, lanes: Array) -> int:
        """The number of lanes for which `lanes` holds."""
        return int(np.count_nonzero(np.broadcast_to(lanes, self.shape)))


@cache
def _counted(trips: int, dims: int) -> Array:
    """The numbers below `trips` in the first of `dims` + 1 dimensions: the same array each time."""
    numbers = np.arange(trips).reshape(trips, *(1,) * dims)
    numbers.setflags(write=False)
    return numbers


def all_lanes(frame: Frame) -> Array:
    """Which lanes are active, in the full shape."""
    return np.ones(frame.shape, np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, frame.shape)


def evaluate_map(map: AffineMap, dims: Sequence[Array]) -> list[Array]:
    """The values of a map's results."""
    return [np.asarray(affine(expr, dims)) for expr in map.results]
