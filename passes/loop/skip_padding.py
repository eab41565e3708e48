"""skip-padding: leave out of a reduction what lies in the padding around its elements.

    %max = loop.reduce {arith.maximumf} %k = 0 to 3 : f32 {     %max = loop.reduce {arith.maximumf} %k = 0 to 3 : f32 {
      %p = loop.index [%o * 2 + %k]                               loop.where 0 < %o * 2 + %k
      %inside = .. %p >= 1 and %p <= 128                          loop.where %o * 2 + %k < 129
      %e = loop.load %x[(%p + 127) mod 128] : ..          ->      %e = loop.load %x[%o * 2 + %k - 1] : ..
      %v = arith.select %inside, %e, %inf : f32                   loop.yield %e : f32
      loop.yield %v : f32                                       }
    }

Padding is a comparison of coordinates and a select of the identity of the reduction, -inf of a maximum or 0 of a sum,
around a read that a remainder keeps inside of the buffer. Where such a point does not count, neither the select nor the
remainder is needed. Masks of reads without a remainder stay. A condition stands in the outermost loop of the reduction
that knows its coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, subscripts_of, to_map, to_sides
from deplodock.analysis.shape.nest import kernels
from deplodock.analysis.shape.roles import is_part_of
from deplodock.dialects import loop
from deplodock.passes.copying import erase_dead
from deplodock.passes.loop.masks import comparison
from deplodock.passes.tile.edits import read_at


@dataclass(frozen=True)
class SkipPaddingPass(ModulePass):
    """Leave out of reductions what lies in the padding around their elements."""

    name = "skip-padding"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            for reduction in [inner for inner in function.walk() if isinstance(inner, loop.ReduceOp)]:
                _skip(reduction)


def _skip(op: loop.ReduceOp) -> None:
    """Let the points of a reduction that yield its identity outside of coordinates not count."""
    chosen = op.yielded[0].owner
    if len(op.results) > 1 or not isinstance(chosen, arith.SelectOp) or chosen.parent is not op.body.block:
        return
    conditions = list(_conditions(chosen.cond))
    known = [form for form in conditions if form is not None]
    if len(known) < len(conditions) or not _is_constant(chosen.rhs, op.identities.data[0]):
        return
    loads = [inner for inner in op.body.block.ops if isinstance(inner, loop.LoadOp)]
    places = {load: [_inside(form, known) for form in subscripts_of(load)] for load in loads}
    if all(places[load] == list(subscripts_of(load)) for load in loads):
        return
    terminator = op.body.block.last_op
    assert terminator is not None
    terminator.operands = [chosen.lhs]
    for load, place in places.items():
        Rewriter.replace_op(load, read_at(load, place))
    for form in known:
        _add(_outermost(op, form), form)
    erase_dead(op.body.block)


def _conditions(value: SSAValue) -> Iterator[Linear | None]:
    """The forms that are all below 0 exactly where a condition holds; None stands for a part that is no comparison."""
    match value.owner:
        case arith.AndIOp() as op:
            yield from _conditions(op.lhs)
            yield from _conditions(op.rhs)
        case arith.CmpiOp() as op:
            yield comparison(op)
        case _:
            yield None


def _is_constant(value: SSAValue, attribute: Attribute) -> bool:
    """Whether a value is a constant that equals an identity."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr | IntegerAttr):
        return False
    return op.value == attribute


def _outermost(op: loop.ReduceOp, form: Linear) -> loop.ReduceOp:
    """The outermost loop of a reduction that knows all coordinates of a form."""
    while isinstance(outer := op.parent_op(), loop.ReduceOp) and is_part_of(op, outer):
        if any(op.is_ancestor(root.owner) for root in form.roots()):
            break
        op = outer
    return op


def _add(op: loop.ReduceOp, condition: Linear) -> None:
    """Let only the points of a loop count where a form is below 0."""
    bounds = condition.range()
    if bounds is None or bounds[1] >= 0:
        map, operands = to_map(to_sides([condition]))
        Rewriter.insert_op(loop.WhereOp(map, operands), InsertPoint.at_start(op.body.block))


def _inside(form: Linear, conditions: Sequence[Linear]) -> Linear:
    """A form without the remainders and quotients that have one quotient wherever all conditions hold."""
    result = form
    for atom, coefficient in form.terms:
        if isinstance(atom, Division) and (bounds := _bounds(atom.form, conditions)) is not None:
            first, last = (bound // atom.divisor for bound in bounds)
            if first == last:
                same = atom.form - first * atom.divisor if atom.remainder else Linear(constant=first)
                result = result - Linear.of(atom, coefficient) + same * coefficient
    return result


def _bounds(form: Linear, conditions: Sequence[Linear]) -> tuple[int, int] | None:
    """The least and the greatest value of a form where all conditions hold, or None."""
    if (bounds := form.range()) is None:
        return None
    least, greatest = bounds
    for condition in conditions:
        if not (below := form - condition).terms:
            greatest = min(greatest, below.constant - 1)
        if not (above := form + condition).terms:
            least = max(least, above.constant + 1)
    return least, greatest
