"""Whether the numbers that an affine expression passes through fit into the 64 bits of an index."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from deplodock.analysis.affine.ranges import Range

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class IndexOverflow(Exception):
    """A part of an expression, which the message is, has values beyond 64 bits."""


def checked_range(expr: AffineExpr, dims: Sequence[Range | None]) -> Range | None:
    """The least and greatest value of an expression of dimensions in these ranges; None where one is not known.

    Raises IndexOverflow where a part of it leaves 64 bits for some value of the dimensions.
    """
    found = _range(expr, dims)
    if found is not None and not _LEAST <= found[0] <= found[1] <= _MOST:
        raise IndexOverflow(str(expr))
    return found


def _range(expr: AffineExpr, dims: Sequence[Range | None]) -> Range | None:
    match expr:
        case AffineConstantExpr():
            return expr.value, expr.value
        case AffineDimExpr():
            return dims[expr.position]
        case AffineBinaryOpExpr():
            return _combined(expr.kind, checked_range(expr.lhs, dims), checked_range(expr.rhs, dims))
        case _:
            return None


def _combined(kind: AffineBinaryOpKind, one: Range | None, other: Range | None) -> Range | None:
    if kind is AffineBinaryOpKind.Mod:
        return None if other is None or other[0] <= 0 else (0, other[1] - 1)
    if one is None or other is None:
        return None
    match kind:
        case AffineBinaryOpKind.Add:
            return one[0] + other[0], one[1] + other[1]
        case AffineBinaryOpKind.Mul:
            ends = [left * right for left in one for right in other]
            return min(ends), max(ends)
        case _:
            return None if other[0] <= 0 else (min(one[0], 0), max(one[1], 0))
