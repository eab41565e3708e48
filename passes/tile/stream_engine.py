"""What a streaming reduction of products has in common for the engines of warps and of warpgroups.

The columns of the scores are k of the second product, and lie in the lanes where the engine wants them: so weights stay
in registers. A step's are relative to the largest score so far, so sums of earlier steps are scaled in place, and those
of the step add to them. Weights are rounded to the type of the values, which their exponential must allow with
`fastmath<afn>`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.linear import Linear, condition_of, subscripts_of, to_map, to_sides
from deplodock.analysis.shape.dependence import is_coordinate, wheres
from deplodock.analysis.shape.roles import read_of
from deplodock.dialects import loop, tile
from deplodock.passes.loop.masks import comparison
from deplodock.passes.tile.edits import read_at
from deplodock.passes.tile.stream_steps import StreamTiling


class EngineTiling(StreamTiling, ABC):
    """The tile of an engine, whose weights stay in registers."""

    def grows_along_rows(self) -> bool:
        """Whether elements count from some row on: then CTAs of later rows have more steps, and start first."""
        conditions = [condition_of(where) for where in wheres(self.found.reduction.body.block)]
        return any(condition.depends_on(self.outer[0]) for condition in conditions)

    def unscaled(self, score: SSAValue) -> tuple[SSAValue, SSAValue | None]:
        """A score, or one that a mask replaces by -inf, without the constant that the products are scaled by."""
        op = score.owner
        match op:
            case arith.MulfOp() if isinstance(scale := op.rhs.owner, arith.ConstantOp):
                value = scale.value
                is_positive = isinstance(value, FloatAttr) and 0 < value.value.data < inf
                return (op.lhs, op.rhs) if is_positive else (score, None)
            case arith.SelectOp() if self._is_least(op.rhs):
                raw, factor = self.unscaled(op.lhs)
                if factor is None:
                    return score, None
                condition, place = op.cond, InsertPoint.after(op)
                form = comparison(condition.owner) if isinstance(condition.owner, arith.CmpiOp) else None
                if form is not None and all(map(is_coordinate, form.roots())):
                    inside = loop.InsideOp(*to_map(to_sides([form])))
                    self.rewriter.insert(inside, place)
                    condition, place = inside.result, InsertPoint.after(inside)
                masked = arith.SelectOp(condition, raw, op.rhs)
                masked.location, masked.result.name_hint = op.location, score.name_hint
                self.rewriter.insert(masked, place)
                return masked.result, factor
            case _:
                return score, None

    def _is_least(self, value: SSAValue) -> bool:
        """Whether a value is -inf, the identity of the maximum."""
        return (
            isinstance(value.owner, arith.ConstantOp) and value.owner.value == self.found.reduction.identities.data[0]
        )

    def held(self, weight: SSAValue, place: InsertPoint) -> SSAValue:
        """The weights as factors of the second product."""
        wide = next(value for (value, _), is_wide in zip(self.weights, self.is_wide, strict=True) if is_wide)
        if (type := factor_read(wide).result.type) == weight.type:
            return weight
        rounded = arith.TruncFOp(weight, type)
        rounded.result.name_hint = weight.name_hint
        self.rewriter.insert(rounded, place)
        return rounded.result

    def is_factor(self, load: loop.LoadOp, reduction: loop.ReduceOp) -> bool:
        """Whether contracts alone use a read."""
        return all(isinstance(use.operation, tile.ContractOp) for use in load.result.uses)


def factor_read(factor: SSAValue) -> loop.LoadOp:
    """The read that gives a factor."""
    load = read_of(factor)
    assert load is not None, "factors that are computed are refused"
    return load


def moved_read(load: loop.LoadOp, places: Mapping[SSAValue, Linear]) -> loop.LoadOp:
    """The same read at other coordinates."""
    forms = subscripts_of(load)
    for root, place in places.items():
        forms = [form.substitute(root, place) for form in forms]
    return read_at(load, forms)
