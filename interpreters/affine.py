"""What affine expressions and conditions mean, over arrays of points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from deplodock.dialects.affine_syntax import condition_pairs
from deplodock.errors import Error
from deplodock.interpreters.values import Array


def holds(conditions: AffineMap, dims: Sequence[Array], symbols: Sequence[Array] = ()) -> Array:
    """Where all conditions `lhs < rhs` of a map of sides hold."""
    result: Array = np.asarray(True)
    for lhs, rhs in condition_pairs(conditions):
        result = np.asarray(result & (affine(lhs, dims, symbols) < affine(rhs, dims, symbols)))
    return result


def affine(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[Array] = ()) -> Array:
    """The value of an affine expression."""
    match expr:
        case AffineConstantExpr(value):
            return np.asarray(value, np.int64)
        case AffineDimExpr(position):
            return dims[position]
        case AffineSymExpr(position):
            return symbols[position]
        case AffineBinaryOpExpr(kind, lhs, rhs):
            return _BINARY[kind](affine(lhs, dims, symbols), affine(rhs, dims, symbols))
        case _:
            raise Error(f"cannot evaluate the affine expression {expr}")


_BINARY: dict[AffineBinaryOpKind, Callable[[Array, Array], Array]] = {
    AffineBinaryOpKind.Add: np.add,
    AffineBinaryOpKind.Mul: np.multiply,
    AffineBinaryOpKind.Mod: np.remainder,
    AffineBinaryOpKind.FloorDiv: np.floor_divide,
    AffineBinaryOpKind.CeilDiv: lambda lhs, rhs: -(-lhs // rhs),
}


def outside_as_false(subscripts: Sequence[Array], shape: Sequence[int]) -> Array | None:
    """Where all subscripts are inside the shape, or None if they are everywhere."""
    result: Array | None = None
    for subscript, extent in zip(subscripts, shape, strict=True):
        if not subscript.size or (subscript.min() >= 0 and subscript.max() < extent):
            continue
        inside = (subscript >= 0) & (subscript < extent)
        result = inside if result is None else result & inside
    return result
