"""stream-reductions: compute a maximum and the sums of exponentials that need it in one loop over the row.

    %max = loop.reduce {arith.maximumf} %i = 0 to 2048 : f32 {      %max, %sum, %out = loop.reduce %i = 0 to 2048 : .. {
      %s = ..                                                         %s = ..
      loop.yield %s                                                   %v = ..
    }                                                                 loop.yield %s, %one, %v
    %sum = loop.reduce {arith.addf} %j = 0 to 2048 : f32 {          } combine (..) identity [-inf, 0.0, 0.0] {..}
      loop.yield exp(%s - %max)                               ->    %scale = exp(%max - %max)
    }                                                               %sum_1 = %sum * %scale
    %out = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {          %out_1 = %out * %scale / %sum_1
      loop.yield exp(%s - %max) / %sum * %v
    }

`analysis/shape/streaming.py` has the combiner. It takes sums of `exp(s - g)` and of its products, where the maximum is
that of the same `s` over the same loop, and `g` and the divisors are the same for the whole row: then

    sum of exp(s - g) / d * v = exp(m - g) * (sum of exp(s - m) * v) / d

The first factor is 1 for finite m, and what makes special rows of infinities what they were. The exponential and the
quotient must allow that with `fastmath<reassoc>`; the decompositions of softmax and attention do. A quotient that is
`fastmath<arcp>` becomes a product with the reciprocal of the sum, which is the same for the whole row. What stood
between the reductions comes after the one loop; loops between them end up around all of it.

With `rows=long` that is done where it saves more than it costs, as a weight of each element is computed: where the
scores are sums themselves, which each loop would compute again, and where a row is too long to stay on chip between its
loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, ModuleOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from deplodock.analysis.machine.targets import target_at
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.nest import kernels
from deplodock.analysis.shape.streaming import folds
from deplodock.dialects import loop
from deplodock.passes import remarks
from deplodock.passes.copying import copied, erase_dead
from deplodock.passes.loop.weighted import LARGEST, Weighted, streaming_combiner, weighted_by
from deplodock.passes.options import OptionsPass, option
from deplodock.passes.tensor.group import WORD

Rows = Literal["long", "all"]


class _Skip(Exception):
    """The rule does not apply, for the reason in its text."""


@dataclass(frozen=True)
class StreamReductionsPass(OptionsPass):
    """Compute a maximum and the sums of exponentials that need it in one loop."""

    name = "stream-reductions"
    rows: Rows = option("long", Rows, "the rows of scores that are read: all, or those too long to stay on chip")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rows = self.with_defaults(self.given()).rows
        for function in kernels(op):
            for maximum in [inner for inner in function.walk() if isinstance(inner, loop.ReduceOp)]:
                try:
                    _stream(function, maximum, rows)
                except _Skip as reason:
                    remarks.skip(self.name, function.sym_name.data, str(reason))


def _stream(function: func.FuncOp, maximum: loop.ReduceOp, rows: Rows) -> None:
    if not folds(maximum, "maximumf"):
        return
    others = [op for op in function.walk() if isinstance(op, loop.ReduceOp) and op is not maximum]
    found = [weighted_by(op, maximum) for op in others]
    sums = [one for one in found if isinstance(one, Weighted)]
    if (reason := next((one for one in found if isinstance(one, str)), None)) is not None:
        raise _Skip(reason)
    if not sums:
        return
    row = (maximum.trips or 0) * WORD
    if rows == "long" and not _computes_sums(maximum) and row <= target_at(function).fact("shared_per_block"):
        raise _Skip(f"a row of {label(maximum.results[0])} stays on chip between its loops; rows=all streams it, too")
    _Streaming(function, maximum, sums).run()


def _computes_sums(op: loop.ReduceOp) -> bool:
    return any(isinstance(inner, loop.ReduceOp) for inner in op.body.walk())


class _Streaming:
    """One rewrite: a maximum and its sums, the last of which, innermost of all, gives its loop to them."""

    def __init__(self, function: func.FuncOp, maximum: loop.ReduceOp, sums: Sequence[Weighted]) -> None:
        self.function = function
        self.maximum = maximum
        self.sums = sums
        self.order = {op: place for place, op in enumerate(function.walk())}
        self.last = sums[-1]
        around = list(ancestors(self.last.reduction))
        self.blocks = {op.parent for op in (self.last.reduction, *around)}
        if apart := next(
            (one for one in (maximum, *(s.reduction for s in sums)) if one.parent not in self.blocks), None
        ):
            raise _Skip(f"{label(apart.results[0])} and {label(self._name)} are needed in loops of their own")
        self.replaced: tuple[loop.ReduceOp, ...] = (maximum, *(one.reduction for one in sums))
        self.between = self._between()
        self.known: dict[SSAValue, SSAValue] = {}

    @property
    def _name(self) -> SSAValue:
        return self.last.reduction.results[0]

    def _between(self) -> list[Operation]:
        """The scalars computed from what is streamed, in order, that do not follow the last sum.

        Raises _Skip where one is needed outside of the block of that sum, or in the loop of another.
        """
        found: set[Operation] = set()
        pending = [result for op in self.replaced for result in op.results]
        while pending:
            for use in pending.pop().uses:
                op = use.operation
                if op in found or self._follows(op) or any(one.is_ancestor(op) for one in self.replaced):
                    continue
                if op.parent not in self.blocks or op.regions or not is_side_effect_free(op):
                    raise _Skip(f"{op.name} needs what is streamed outside of the loops around {label(self._name)}")
                found.add(op)
                pending += op.results
        for one in self.sums:
            if one.factor is not None and self._needs(one.factor, found):
                raise _Skip(f"the factor of {label(one.reduction.results[0])} needs what is streamed")
        return sorted(found, key=self.order.__getitem__)

    def _needs(self, value: SSAValue, found: set[Operation]) -> bool:
        """Whether a value in a loop is computed from one of these operations, or from a streamed result."""
        pending, seen = [value], set[SSAValue]()
        while pending:
            owner = (current := pending.pop()).owner
            if not isinstance(owner, Operation) or current in seen:
                continue
            seen.add(current)
            if owner in found or owner in self.replaced:
                return True
            pending += [operand for inner in owner.walk() for operand in inner.operands]
        return False

    def _follows(self, op: Operation) -> bool:
        """Whether an operation comes after the last sum, in its block or further inside."""
        block = self.last.reduction.parent
        top = next((one for one in (op, *ancestors(op)) if one.parent is block), None)
        return top is not None and self.order[top] > self.order[self.last.reduction]

    def run(self) -> None:
        """Rewrite the function."""
        last, place = self.last.reduction, InsertPoint.before(self.last.reduction)
        one = self._constant(1.0)
        limit = LARGEST[last.results[0].type]
        limits = self._constant(-limit), self._constant(limit)
        streamed = self._streamed(one, limits)
        Rewriter.insert_op(streamed, place)
        self.known[self.maximum.results[0]] = streamed.results[0]
        totals: dict[Operation, tuple[Weighted, SSAValue]] = {
            total.reduction: (total, result) for total, result in zip(self.sums, streamed.results[1:], strict=True)
        }
        for op in sorted((*self.between, *totals), key=self.order.__getitem__):
            if op in totals:
                self._finish(*totals[op], place)
            else:
                clone = op.clone(self.known)
                Rewriter.insert_op(clone, place)
                self._stand_for(op, clone)
        for old, new in self.known.items():
            old.replace_uses_with_if(new, lambda use: self._follows(use.operation))
        gone: list[Operation] = [*self.between, *self.replaced]
        for op in sorted(gone, key=self.order.__getitem__, reverse=True):
            Rewriter.erase_op(op, safe_erase=False)

    def _streamed(self, one: SSAValue, limits: tuple[SSAValue, SSAValue]) -> loop.ReduceOp:
        """The one reduction, in the loop of the last sum."""
        last = self.last.reduction
        body = last.body.block
        terminator = body.last_op
        assert terminator is not None
        factors = [self._factor(total, one, InsertPoint.before(terminator)) for total in self.sums]
        score = self.last.score
        Rewriter.replace_op(terminator, loop.YieldOp(score, *factors))
        erase_dead(body)
        type = cast(AnyFloat, score.type)
        identities = [self.maximum.identities.data[0], *(FloatAttr(0.0, type) for _ in self.sums)]
        made = loop.ReduceOp(
            last.bound.data,
            Region(last.body.detach_block(body)),
            ArrayAttr[Attribute](identities),
            streaming_combiner(self.sums, type, limits),
            last.bound_operands,
        )
        made.location = last.location
        for op, result in zip(self.replaced, made.results, strict=True):
            result.name_hint = op.results[0].name_hint
        return made

    def _factor(self, total: Weighted, one: SSAValue, place: InsertPoint) -> SSAValue:
        """The factor of a sum in the loop of the last one."""
        if total.factor is None:
            return one
        known: dict[SSAValue, SSAValue] = {total.reduction.iv: self.last.reduction.iv}
        return total.factor if total is self.last else copied(total.factor, total.reduction.body.block, known, place)

    def _finish(self, total: Weighted, result: SSAValue, place: InsertPoint) -> None:
        """Scale and divide a sum after the loop."""
        shift = arith.SubfOp(self.known[self.maximum.results[0]], self.known.get(total.shift.rhs, total.shift.rhs))
        weight = math.ExpOp(shift, total.weight.fastmath)
        scaled = arith.MulfOp(result, weight)
        made: list[Operation] = [shift, weight, scaled]
        for quotient in total.divisors:
            divisor = self.known.get(quotient.rhs, quotient.rhs)
            if FastMathFlag.ALLOW_RECIP in quotient.fastmath.data:
                made.append(arith.DivfOp(self._constant(1.0), divisor))
                made.append(arith.MulfOp(made[-2].results[0], made[-1].results[0]))
            else:
                made.append(arith.DivfOp(made[-1].results[0], divisor, quotient.fastmath))
        weight.result.name_hint = "scale"
        made[-1].results[0].name_hint = total.reduction.results[0].name_hint
        for op in made:
            op.location = total.reduction.location
            Rewriter.insert_op(op, place)
        self.known[total.reduction.results[0]] = made[-1].results[0]

    def _stand_for(self, old: Operation, new: Operation) -> None:
        for before, after in zip(old.results, new.results, strict=True):
            after.name_hint = before.name_hint
            self.known[before] = after

    def _constant(self, value: float) -> SSAValue:
        """A constant at the start of the function."""
        op = arith.ConstantOp(FloatAttr(value, cast(AnyFloat, self.last.reduction.results[0].type)))
        Rewriter.insert_op(op, InsertPoint.at_start(self.function.body.block))
        return op.result
