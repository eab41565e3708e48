"""Patterns for reductions over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.elements import ui8
from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.index_maps import wrap_dims
from deplodock.passes.torch.pattern import AtenPattern, reduced_dims, with_dims
from deplodock.passes.torch.tensor_builder import TensorBuilder

_OPERATIONS = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "amax": "maximum",
    "any": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "all": "minimum",
}

_OF_BOOLEANS = {"sum": "any", "prod": "all"}
"""What a sum or product in the type bool is."""


class LowerReduction(AtenPattern):
    """Fold the dimensions `dim`, all if there are none; `keepdim` leaves them as ones."""

    overloads = (*("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "max", "amax", "min", "amin"),)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, kind = op.operand("self"), op.schema().name.partition(".")[0]
        dims = reduced_dims(op, len(shape_of(x)))
        if kind in ("max", "amax", "min", "amin") and any(shape_of(x)[dim] == 0 for dim in dims):
            raise ValueError("the maximum of no elements is not defined")
        if element_of(x) == i1:
            kind = _OF_BOOLEANS.get(kind, kind)
        value = build.mean(x, dims) if kind == "mean" else build.reduce(_OPERATIONS[kind], x, dims, name=kind)
        return with_dims(op, build, value, dims, shape_of(x))


class LowerAnyAll(AtenPattern):
    """Whether any or all elements along `dim` are not 0: a boolean, but 0 or 1 in ui8 of elements of ui8."""

    computes = False
    overloads = ("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, kind = op.operand("self"), op.schema().name.partition(".")[0]
        dims = reduced_dims(op, len(shape_of(x)), empty_is_all=False)
        value = build.reduce(_OPERATIONS[kind], build.cast(x, i1), dims, name=kind)
        value = with_dims(op, build, value, dims, shape_of(x))
        return build.cast(value, ui8) if element_of(x) == ui8 else value


class LowerVariance(AtenPattern):
    """`sum((x - mean)^2) / max(0, n - correction)` in two passes, so that large means and values cost no digits."""

    overloads = ("var", "var.dim", "var.correction", "std", "std.dim", "std.correction", "var_mean.correction")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue | Sequence[SSAValue]:
        x, shape = op.operand("self"), shape_of(op.operand("self"))
        dims = reduced_dims(op, len(shape))
        mean = build.mean(x, dims)
        total = build.reduce("add", squared_deviations(build, x, mean, dims), dims, name="sum")
        count = max(0, prod(shape[dim] for dim in dims) - _correction(op))
        value = build.map(arith.DivfOp, total, build.constant_like(count, total), name="var")
        if op.schema().name.startswith("std"):
            value = build.map(math.SqrtOp, value, name="std")
        value = with_dims(op, build, value, dims, shape)
        return (value, with_dims(op, build, mean, dims, shape)) if len(op.outputs) > 1 else value


class LowerCumulative(AtenPattern):
    """Each element is a sum or product of its own: `sum(x[j] for j <= i)`, which takes the square of the extent."""

    overloads = ("cumsum", "cumprod")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if not shape_of(x):
            return build.reshape(x, ())
        rank, (dim,) = len(shape_of(x)), wrap_dims([op.value("dim")], len(shape_of(x)))
        shape = (*shape_of(x), shape_of(x)[dim])
        coordinates = [AffineExpr.dimension(rank if d == dim else d) for d in range(rank)]
        addends = build.index_map(x, AffineMap(rank + 1, 0, tuple(coordinates)), shape)
        counts = build.compare("le", build.iota(rank, shape), build.iota(dim, shape))
        operation, neutral = ("add", 0) if op.schema().name == "cumsum" else ("mul", 1)
        taken = build.select(counts, addends, build.constant_like(neutral, addends))
        return build.reduce(operation, taken, [rank], name=op.schema().name)


def squared_deviations(build: TensorBuilder, x: SSAValue, mean: SSAValue, dims: Sequence[int]) -> SSAValue:
    """`(x - mean)^2` for a mean over `dims`."""
    centred = build.map(arith.SubfOp, x, build.spread(mean, dims, shape_of(x)), name="centred")
    return build.map(arith.MulfOp, centred, centred, name="sq")


def _correction(op: AtenOp) -> float:
    if op.has("unbiased"):
        return int(op.value("unbiased"))
    return 1 if op.value("correction") is None else op.value("correction")
