"""The position of the largest or smallest element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.arith import CmpfOp, CmpiOp
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, IntegerAttr, i1, i32, i64
from xdsl.ir import Attribute, Block, Region

from deplodock.dialects import scalar_regions
from deplodock.dialects.tensor import ReduceOp, YieldOp
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.reductions import Dims, dims_of, with_dims
from deplodock.passes.torch.tensors import Tensor


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
