"""The elements that lanes access: their positions, and the values of those that count."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deplodock.dialects.interfaces import Access
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.memory import Values
from deplodock.interpreters.values import Array


def dot(subscripts: Sequence[Array], strides: Sequence[int]) -> Array:
    return np.asarray(sum((s * stride for s, stride in zip(subscripts, strides, strict=True)), np.asarray(0)))


def widened(element: Array, access: Access, frame: Frame) -> Array:
    """All elements of accesses that start at `element`, in a first dimension if there is more than one."""
    if access.width == 1:
        return element
    return element + np.arange(access.width).reshape(-1, *(1,) * len(frame.shape))


def is_same_in_ctas(lanes: Array) -> bool:
    return lanes.ndim < 2 or lanes.shape[-2] == 1


def select(value: Array, access: Access, shape: tuple[int, ...], mask: Array | None) -> Array:
    """The values of all active lanes, and all elements of their accesses, one after the other."""
    wide = shape if access.width == 1 else (access.width, *shape)
    lanes = np.broadcast_to(value, wide)
    return lanes.reshape(math.prod(wide)) if mask is None else lanes[np.broadcast_to(mask, wide)]


def select_values(value: Values, access: Access, shape: tuple[int, ...], mask: Array | None) -> Values:
    origin = None if value.origin is None else select(value.origin, access, shape, mask)
    return Values(select(value.data, access, shape, mask), origin)
