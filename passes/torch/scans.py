"""Folds up to each element along a dimension: sums, products, extremes with their positions, sums of exponentials."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.arith import CmpfOp, CmpiOp
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, IntegerAttr, i1, i32, i64
from xdsl.ir import Attribute, Block, Region

from deplodock.dialects import scalar_regions
from deplodock.dialects.shapes import wrap_dims
from deplodock.dialects.tensor import ScanOp, YieldOp
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import scalar_op
from deplodock.passes.torch.tensors import Tensor


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
