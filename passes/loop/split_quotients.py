"""split-quotients: run an axis as its remainders and quotients where one factor of a product has the quotient alone.

    loop.for %c = 0 to 36 {                                loop.for %cr = 0 to 12 {
      %acc = loop.reduce {arith.addf} %k = 0 to 4 {          loop.for %cq = 0 to 3 {
        %a = loop.load %x[%n, %c floordiv 12 * 4 + %k]         %c = loop.index [%cq * 12 + %cr]
        %b = loop.load %w[%c, %k]                   ->         %acc = loop.reduce {arith.addf} %k = 0 to 4 {
        %p = arith.mulf %a, %b                                   %a = loop.load %x[%n, %cq * 4 + %k]
        loop.yield %p                                            %b = loop.load %w[%cq * 12 + %cr, %k] ..

In a convolution of groups, as above, each output channel is a sum over the input channels of its own group: the groups
become a batch of contractions, whose rows are the channels of one. In a transposed convolution the input is read at
`(%o + c) floordiv s` and the weight at `(%o + c) mod s`: the phases of the stride become rows of the contraction,
beside the channels, and the pixels of the input its columns. Where the axis is no whole number of quotients, points
before its start and behind its end are inactive.

The first factor must vary with the quotient alone, and the other one with the remainder alone, unless the nest has no
contraction yet and the first factor has an axis alone. So heads of attention that share their keys stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, form_of_value, subscripts_of
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.nest import Nest, kernels, side_by_side
from deplodock.analysis.shape.roles import contraction, factors_of, summed_products
from deplodock.dialects import loop
from deplodock.passes.tile.edits import read_at


@dataclass(frozen=True)
class SplitQuotientsPass(ModulePass):
    """Run axes as remainders and quotients where one factor of a product has the quotient alone."""

    name = "split-quotients"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            for nest in side_by_side(function):
                is_contraction = contraction(nest) is not None
                found = [(axis, cut) for axis in nest.axes if (cut := _cut_of(axis, nest, is_contraction)) is not None]
                for axis, cut in found:
                    _split(axis, cut, nest.body)


@dataclass(frozen=True)
class AxisPart:
    """How a form has an axis: as the quotient or the remainder of `axis + offset` by a size; of size 1, as it is."""

    size: int = 1
    offset: int = 0
    is_remainder: bool = False


def _cut_of(axis: BlockArgument, nest: Nest, is_contraction: bool) -> AxisPart | None:
    """The quotient with which alone one factor of a summed product varies along an axis, where it is to be split."""
    around = axis.block.parent_op()
    if not isinstance(around, loop.ForOp) or around.trips is None:
        return None
    for reduction in nest.reductions():
        for product in summed_products(reduction):
            factors = factors_of(product)[0]
            for factor, beside in (factors, factors[::-1]):
                own, other = _parts(factor, axis), _parts(beside, axis)
                if len(own) != 1 or not other or own == other:
                    continue
                (part,) = own
                is_phase = other == {AxisPart(part.size, part.offset, is_remainder=True)}
                is_group = not is_contraction and _has_axis_alone(factor, beside, nest)
                if 1 < part.size < around.trips and not part.is_remainder and (is_phase or is_group):
                    return part
    return None


def _has_axis_alone(factor: SSAValue, beside: SSAValue, nest: Nest) -> bool:
    """Whether a factor varies along a free axis that the other one lacks."""
    dependence = Dependence()
    return any(axis in dependence.of(factor) and axis not in dependence.of(beside) for axis in nest.axes)


def _parts(factor: SSAValue, axis: SSAValue) -> set[AxisPart]:
    """How the indices that a factor is computed from have an axis."""
    found: set[AxisPart] = set()
    for form in _forms(factor):
        for atom, _ in form.terms:
            match atom:
                case Division(inner, size, is_remainder) if inner.depends_on(axis):
                    is_alone = len(inner.terms) == 1 and inner.coefficient(axis) == 1
                    found.add(AxisPart(size, inner.constant, is_remainder) if is_alone else AxisPart())
                case _ if atom is axis:
                    found.add(AxisPart())
                case _:
                    pass
    return found


def _forms(value: SSAValue) -> Iterator[Linear]:
    """The indices that a value is computed from: the subscripts of what it reads, and those that become numbers."""
    match value.owner:
        case loop.LoadOp() as op:
            yield from subscripts_of(op)
        case arith.IndexCastOp() as op:
            yield form_of_value(op.input)
        case Operation() as op:
            for operand in op.operands:
                yield from _forms(operand)
        case _:
            return


def _split(axis: BlockArgument, cut: AxisPart, innermost: Block) -> None:
    """Make two loops of that of an axis, over remainders and, inside, quotients of `axis + offset`.

    The conditions of points stand in the innermost loop of the nest, so that the loops stay perfectly nested.
    """
    around = axis.block.parent_op()
    assert isinstance(around, loop.ForOp)
    extent, hint = around.trips or 0, axis.name_hint or "a"
    body = around.body.detach_block(axis.block)
    outer = Block(arg_types=[IndexType()])
    remainder, quotient = outer.args[0], body.insert_arg(IndexType(), 1)
    remainder.name_hint, quotient.name_hint = f"{hint}r", f"{hint}q"
    place = AffineExpr.dimension(0) * cut.size + AffineExpr.dimension(1) - cut.offset
    index = loop.IndexOp(AffineMap(2, 0, (place,)), [quotient, remainder])
    index.result.name_hint = axis.name_hint
    axis.replace_all_uses_with(index.result)
    body.erase_arg(axis)
    coordinate, quotients = AffineExpr.dimension(0), -(-(extent + cut.offset) // cut.size)
    conditions = [(AffineExpr.constant(-1), coordinate)] if cut.offset else []
    conditions += [(coordinate, AffineExpr.constant(extent))] if quotients * cut.size > extent + cut.offset else []
    wheres = [loop.WhereOp(AffineMap(1, 0, sides), [index.result]) for sides in conditions]
    Rewriter.insert_op(wheres, InsertPoint.at_start(innermost))
    Rewriter.insert_op(index, InsertPoint.at_start(body))
    inner = loop.ForOp(quotients, Region(body))
    outer.add_op(inner)
    made = loop.ForOp(cut.size, Region(outer))
    made.location = inner.location = around.location
    Rewriter.replace_op(around, made)
    for load in [op for op in inner.walk() if isinstance(op, loop.LoadOp)]:
        Rewriter.replace_op(load, read_at(load, subscripts_of(load)))
