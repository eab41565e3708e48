"""The affine maps from the indices of a result to those of its source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.shapes import check_broadcast

_ZERO = AffineExpr.constant(0)


def broadcast_map(source: Sequence[int], target: Sequence[int]) -> AffineMap:
    """The map that reads `source` as if it had the shape `target`, as numpy broadcasts.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    check_broadcast(source, target)
    offset = len(target) - len(source)
    results = [AffineExpr.dimension(offset + i) if n == target[offset + i] else _ZERO for i, n in enumerate(source)]
    return AffineMap(len(target), 0, tuple(results))


def permutation_map(dims: Sequence[int]) -> AffineMap:
    """The map of a permutation: dimension `i` of the result walks dimension `dims[i]` of the source."""
    position = {dim: i for i, dim in enumerate(dims)}
    return AffineMap(len(dims), 0, tuple(AffineExpr.dimension(position[dim]) for dim in range(len(dims))))


def dim_map(rank: int, dim: int, source: AffineExpr, symbols: int = 0) -> AffineMap:
    """The identity of a rank but for one dimension, whose source is the given expression."""
    return AffineMap(rank, symbols, tuple(source if d == dim else AffineExpr.dimension(d) for d in range(rank)))


def reshape_map(source: Sequence[int], target: Sequence[int]) -> AffineMap:
    """The map of a row-major reshape; a dimension that the reshape keeps stays a plain dimension.

    Raises:
        ValueError: the shapes do not hold the same number of elements.
    """
    if math.prod(source) != math.prod(target):
        raise ValueError(f"shape {list(source)} holds {math.prod(source)} elements, {list(target)} {math.prod(target)}")
    results = [_ZERO] * len(source)
    if 0 not in source:
        for source_dims, target_dims in _groups(source, target):
            terms = list(zip(target_dims, _strides([target[d] for d in target_dims]), strict=True))
            strides = _strides([source[d] for d in source_dims])
            for dim, stride in zip(source_dims, strides, strict=True):
                modulus = None if dim == source_dims[0] else source[dim]
                results[dim] = _digit(terms, target, stride, modulus)
    return AffineMap(len(target), 0, tuple(results))


def _groups(source: Sequence[int], target: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The shortest runs of non-unit dimensions of both shapes that hold the same number of elements."""
    left = [d for d, n in enumerate(source) if n != 1]
    right = [d for d, n in enumerate(target) if n != 1]
    while left:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        while (a := math.prod(source[d] for d in ours)) != (b := math.prod(target[d] for d in theirs)):
            if a < b:
                ours.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        yield ours, theirs


def _strides(extents: Sequence[int]) -> list[int]:
    return [math.prod(extents[i + 1 :]) for i in range(len(extents))]


def _digit(terms: Sequence[tuple[int, int]], extents: Sequence[int], stride: int, modulus: int | None) -> AffineExpr:
    """`(sum of d * s over the terms) floordiv stride mod modulus`, without the parts that the extents make idle."""
    whole = [(d, s // stride) for d, s in terms if s % stride == 0]
    rest = [(d, s) for d, s in terms if s % stride != 0]
    if modulus is not None:
        whole = [(d, s) for d, s in whole if s % modulus != 0]
    highest = _highest(whole, extents) + _highest(rest, extents) // stride
    expression = _sum(whole)
    if _highest(rest, extents) >= stride:
        part = _sum(rest) // stride
        expression = expression + part if whole else part
    return expression if modulus is None or highest < modulus else expression % modulus


def _sum(terms: Sequence[tuple[int, int]]) -> AffineExpr:
    expression: AffineExpr | None = None
    for dim, factor in terms:
        term = AffineExpr.dimension(dim) * factor if factor != 1 else AffineExpr.dimension(dim)
        expression = term if expression is None else expression + term
    return _ZERO if expression is None else expression


def _highest(terms: Sequence[tuple[int, int]], extents: Sequence[int]) -> int:
    return sum((extents[dim] - 1) * factor for dim, factor in terms)
