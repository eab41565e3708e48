"""Reductions over dimensions, positions of extremes, and folds up to each element along a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.arith import CmpfOp, CmpiOp
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, IntegerAttr, i1, i32, i64
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Region

from deplodock.dialects import scalar_regions
from deplodock.dialects.elements import ui8
from deplodock.dialects.shapes import wrap_dims
from deplodock.dialects.tensor import ReduceOp, ScanOp, YieldOp
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import scalar_op
from deplodock.passes.torch.tensors import Tensor, sqrt

Dims: TypeAlias = int | tuple[int, ...] | None

_OPERATIONS = {
    **{"sum": "add", "prod": "mul"},
    **dict.fromkeys(("max", "amax", "any"), "maximum"),
    **dict.fromkeys(("min", "amin", "all"), "minimum"),
}

_OF_BOOLEANS = {"sum": "any", "prod": "all"}
"""What a sum or product in the type bool is."""


@lowers("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "max", "amax", "min", "amin")
def reduction(self: Tensor, name: str, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Fold the dimensions `dim`, all if there are none; `keepdim` leaves them as ones."""
    dims = dims_of(self, dim)
    if name in ("max", "amax", "min", "amin") and any(self.shape[dim] == 0 for dim in dims):
        raise ValueError("the maximum of no elements is not defined")
    kind = _OF_BOOLEANS.get(name, name) if self.element == i1 else name
    value = self.mean(dims) if kind == "mean" else self.reduce(_OPERATIONS[kind], dims, kind)
    return with_dims(value, dims, self, keepdim)


@lowers("any", "any.dim", "any.dims", "all", "all.dim", "all.dims", widens=False)
def any_or_all(self: Tensor, name: str, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any or all elements along `dim` are not 0: a boolean, but 0 or 1 in ui8 of elements of ui8."""
    dims = [] if dim == () else dims_of(self, dim)
    value = self.cast(i1).reduce(_OPERATIONS[name], dims, name)
    value = with_dims(value, dims, self, keepdim)
    return value.cast(ui8) if self.element == ui8 else value


@lowers("var", "var.dim", "var.correction", "std", "std.dim", "std.correction", "var_mean.correction")
def variance(
    self: Tensor,
    name: str,
    dim: Dims = None,
    unbiased: bool = True,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`sum((x - mean)^2) / max(0, n - correction)` from deviations, so that large means and values cost no digits."""
    dims = dims_of(self, dim)
    mean = self.mean(dims)
    total = squared_deviations(self, mean, dims).sum(dims)
    count = prod(self.shape[dim] for dim in dims) - (int(unbiased) if correction is None else correction)
    value = (total / max(0, count)).named("var")
    if name == "std":
        value = sqrt(value).named("std")
    value = with_dims(value, dims, self, keepdim)
    return (value, with_dims(mean, dims, self, keepdim)) if name == "var_mean" else value


def squared_deviations(x: Tensor, mean: Tensor, dims: Sequence[int]) -> Tensor:
    """`(x - mean)^2` for a mean over `dims`; their sum may be taken in parts, each from a mean of its own."""
    centred = (x - mean.spread(dims, x.shape)).named("centred")
    return (centred * centred).named("sq").allowing(FastMathFlag.REASSOC)


def dims_of(x: Tensor, dim: Dims) -> list[int]:
    """The dimensions that a parameter `dim` names, counted from the front; all if there is none or it is None."""
    if dim is None or dim == ():
        return list(range(x.rank))
    return wrap_dims([dim] if isinstance(dim, int) else dim, x.rank)


def with_dims(value: Tensor, dims: Sequence[int], x: Tensor, keepdim: bool) -> Tensor:
    """The result of reducing `dims` of `x`, with ones for them if the operation keeps them."""
    return value.spread(dims, [1 if dim in dims else n for dim, n in enumerate(x.shape)]) if keepdim else value


@lowers("argmax", "argmin", "max.dim", "min.dim")
def position(self: Tensor, name: str, dim: Dims, keepdim: bool) -> Tensor | Sequence[Tensor]:
    """The extreme element along `dim`, or in row-major order, and its first position; NaN is more extreme than all.

    Values and positions are reduced together: the pair of the better value stays, of equal ones that of the lower
    position.
    """
    dims = dims_of(self, dim)
    if any(self.shape[dim] == 0 for dim in dims):
        raise ValueError("no elements have no extreme one")
    x = self.reshape((prod(self.shape),)) if dim is None or not self.shape else self
    if x.element == i1:
        # As a signed number of one bit, true would be less than false.
        x = x.cast(i32)
    along = 0 if x.rank == 1 else dims[0]
    places = x.build.iota(along, x.shape)
    extreme = arith.MaximumfOp if name in ("argmax", "max") else arith.MinimumfOp
    reduced = x.build.insert(ReduceOp([x.ssa, places.ssa], [along], *_combiner(x.element, extreme)))
    value, found = (with_dims(result, dims, self, keepdim) for result in reduced)
    return found if name.startswith("arg") else (value.cast(self.element), found)


def _combiner(
    element: Attribute, extreme: type[arith.MaximumfOp | arith.MinimumfOp]
) -> tuple[ArrayAttr[Attribute], Region]:
    """Identities and combiner of (value, position) pairs."""
    largest = extreme is arith.MaximumfOp
    on_integers = arith.MaxSIOp if largest else arith.MinSIOp
    block = Block(arg_types=[element, i64, element, i64])
    a, a_position, b, b_position = block.args
    lower = CmpiOp(b_position, a_position, "slt")
    if isinstance(element, AnyFloat):
        name = extreme.name
        better, equal = CmpfOp(b, a, "ogt" if largest else "olt"), CmpfOp(a, b, "oeq")
        a_nan, b_nan = CmpfOp(a, a, "uno"), CmpfOp(b, b, "uno")
        only_nan, both_nan = CmpiOp(b_nan.result, a_nan.result, "ugt"), arith.AndIOp(a_nan.result, b_nan.result)
        wins, same = arith.OrIOp(better.result, only_nan.result), arith.OrIOp(equal.result, both_nan.result)
        block.add_ops([better, equal, a_nan, b_nan, only_nan, both_nan, wins, same])
    else:
        name = on_integers.name
        wins, same = CmpiOp(b, a, "sgt" if largest else "slt"), CmpiOp(a, b, "eq")
        block.add_ops([wins, same])
    tie = arith.AndIOp(same.results[0], lower.result)
    taken = arith.OrIOp(wins.results[0], tie.result)
    value, position = arith.SelectOp(taken.result, b, a), arith.SelectOp(taken.result, b_position, a_position)
    block.add_ops([lower, tie, taken, value, position, YieldOp(value.result, position.result)])
    identity = scalar_regions.identity(name, element)
    assert identity is not None
    return ArrayAttr([identity, IntegerAttr((1 << 63) - 1, i64)]), Region(block)


@lowers("cumsum", "cumprod")
def cumulative(self: Tensor, name: str, dim: int) -> Tensor:
    """`sum(x[j] for j <= i)` or the product, in one pass over the elements."""
    if not self.shape:
        return self
    (dim,) = wrap_dims([dim], self.rank)
    op = ScanOp.of(scalar_op("add" if name == "cumsum" else "mul", self.element), self.ssa, dim)
    return self.build.insert(op)[0].named(name)


@lowers("cummax", "cummin")
def cumulative_extreme(self: Tensor, name: str, dim: int) -> Sequence[Tensor]:
    """The extreme element up to each, and its last position, as a scan of pairs; NaN is more extreme than all."""
    # As a signed number of one bit, true would be less than false.
    x = self.cast(i32) if self.element == i1 else self
    x = x if x.shape else x.reshape((1,))
    (dim,) = wrap_dims([dim], x.rank)
    places = x.build.iota(dim, x.shape)
    found = _scanned([x, places], name, dim, *_last_extreme(x.element, largest=name == "cummax"))
    extreme, position = (value.reshape(self.shape) for value in found)
    return extreme.cast(self.element), position


@lowers("logcumsumexp")
def cumulative_logsumexp(self: Tensor, name: str, dim: int) -> Tensor:
    """`log(sum(exp(x[j]) for j <= i))` as a scan with `log(exp(a) + exp(b)) = max + log1p(exp(min - max))`."""
    if not self.shape:
        return self
    return _scanned([self], name, dim, *_sum_in_logarithms(self.element))[0]


def _scanned(
    values: Sequence[Tensor], name: str, dim: int, identities: ArrayAttr[Attribute], combiner: Region
) -> list[Tensor]:
    (dim,) = wrap_dims([dim], values[0].rank)
    op = ScanOp([value.ssa for value in values], dim, identities, combiner)
    op.outputs[0].name_hint = name
    return values[0].build.insert(op)


def _last_extreme(element: Attribute, *, largest: bool) -> tuple[ArrayAttr[Attribute], Region]:
    """Identities and combiner of (value, position) pairs: a later one is taken where it is as extreme, or NaN."""
    block = Block(arg_types=[element, i64, element, i64])
    a, a_position, b, b_position = block.args
    later = CmpiOp(b_position, a_position, "sgt")
    if isinstance(element, AnyFloat):
        extreme, is_nan = CmpfOp(b, a, "oge" if largest else "ole"), CmpfOp(b, b, "uno")
        better = arith.OrIOp(extreme.result, is_nan.result)
        block.add_ops([extreme, is_nan, better])
    else:
        better = CmpiOp(b, a, "sge" if largest else "sle")
        block.add_op(better)
    taken = arith.AndIOp(better.result, later.result)
    value, position = arith.SelectOp(taken.result, b, a), arith.SelectOp(taken.result, b_position, a_position)
    block.add_ops([later, taken, value, position, YieldOp(value.result, position.result)])
    on_floats, on_integers = (arith.MaximumfOp, arith.MaxSIOp) if largest else (arith.MinimumfOp, arith.MinSIOp)
    identity = scalar_regions.identity((on_floats if isinstance(element, AnyFloat) else on_integers).name, element)
    assert identity is not None
    return ArrayAttr([identity, IntegerAttr(-1, i64)]), Region(block)


def _sum_in_logarithms(element: Attribute) -> tuple[ArrayAttr[Attribute], Region]:
    """Identity and combiner of logarithms whose numbers are added; those of equal ones, also infinite, differ by 0."""
    assert isinstance(element, AnyFloat)
    block = Block(arg_types=[element, element])
    a, b = block.args
    most, least, zero = arith.MaximumfOp(a, b), arith.MinimumfOp(a, b), arith.ConstantOp(FloatAttr(0.0, element))
    difference, same = arith.SubfOp(least.result, most.result), CmpfOp(a, b, "oeq")
    distance = arith.SelectOp(same.result, zero.result, difference.result)
    share = math.ExpOp(distance.result)
    rest = math.Log1pOp(share.result)
    total = arith.AddfOp(most.result, rest.result)
    block.add_ops([most, least, zero, difference, same, distance, share, rest, total, YieldOp(total.result)])
    identity = scalar_regions.identity(arith.MaximumfOp.name, element)
    assert identity is not None
    return ArrayAttr([identity]), Region(block)
