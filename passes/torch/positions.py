"""The pattern for the position of the largest or smallest element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.arith import CmpfOp, CmpiOp
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, IntegerAttr, i1, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from deplodock.dialects import scalar_regions, tensor
from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.pattern import AtenPattern, reduced_dims, with_dims
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerPosition(AtenPattern):
    """The extreme element along `dim`, or in row-major order, and its first position; NaN is more extreme than all.

    Values and positions are reduced together: the pair of the better value stays, of equal ones that of the lower
    position.
    """

    overloads = ("argmax", "argmin", "max.dim", "min.dim")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue | Sequence[SSAValue]:
        x, shape = op.operand("self"), shape_of(op.operand("self"))
        dims = reduced_dims(op, len(shape))
        if any(shape[dim] == 0 for dim in dims):
            raise ValueError("no elements have no extreme one")
        if op.value("dim") is None:
            x = build.reshape(x, (prod(shape),))
        elif not shape:
            x = build.reshape(x, (1,))
        if element_of(x) == i1:
            # As a signed number of one bit, true would be less than false.
            x = build.cast(x, i32)
        along = 0 if len(shape_of(x)) == 1 else dims[0]
        position = build.iota(along, shape_of(x))
        extreme = arith.MaximumfOp if op.schema().name in ("argmax", "max.dim") else arith.MinimumfOp
        reduced = build.insert(tensor.ReduceOp([x, position], [along], *_combiner(element_of(x), extreme)))
        value, found = (with_dims(op, build, result, dims, shape) for result in reduced.outputs)
        return (build.cast(value, element_of(op.operand("self"))), found) if len(op.outputs) > 1 else found


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
    block.add_ops([lower, tie, taken, value, position, tensor.YieldOp(value.result, position.result)])
    identity = scalar_regions.identity(name, element)
    assert identity is not None
    return ArrayAttr([identity, IntegerAttr((1 << 63) - 1, i64)]), Region(block)
