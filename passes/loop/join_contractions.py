"""join-contractions: run contractions of one nest that share a factor in one loop, so that it is read once.

    %g = loop.reduce {arith.addf}                  %g, %u = loop.reduce {arith.addf, arith.addf}
      %k = 0 to 3584 : f32 {                         %k = 0 to 3584 : f32, f32 {
      %x1 = loop.load %x[%m, %k] : ..                %x1 = loop.load %x[%m, %k] : ..
      %a = loop.load %wg[%n, %k] : ..                %a = loop.load %wg[%n, %k] : ..
      %p = arith.mulf %x1, %a : f32          ->      %p = arith.mulf %x1, %a : f32
      loop.yield %p : f32                            %b = loop.load %wu[%n, %k] : ..
    }                                                %q = arith.mulf %x1, %b : f32
    %u = loop.reduce {arith.addf}                    loop.yield %p, %q : f32, f32
      %l = 0 to 3584 : f32 {                       }
      %x2 = loop.load %x[%m, %l] : ..
      ..

Their axes play the same roles, their products have one precision, and their loops have the same bounds and no
conditions; what several loops within each other sum up is joined in all of them. The sums stay apart: each is a
result of the loop, in an order of its own, and all rules take such a loop as one contraction of several products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear, subscripts_of
from deplodock.analysis.operations import only_reads
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.fusion import substitute
from deplodock.analysis.shape.nest import kernels, side_by_side
from deplodock.analysis.shape.roles import Contraction, contractions, read_of, row_chain
from deplodock.dialects import loop, scalar_regions
from deplodock.dialects.precision import precision_of


@dataclass(frozen=True)
class JoinContractionsPass(ModulePass):
    """Run contractions that share a factor in one loop."""

    name = "join-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            if sum(isinstance(inner, loop.ReduceOp) for inner in function.walk()) > 1:
                for nest in side_by_side(function):
                    _join_all(list(contractions(nest)))


def _join_all(found: Sequence[Contraction]) -> None:
    """Join each contraction to the first one before it that it can run with."""
    kept: list[Contraction] = []
    for one in found:
        for i, first in enumerate(kept):
            if _fit(first, one) and (needed := _needed_between(first.reduction, one.reduction)) is not None:
                for op in needed:
                    op.detach()
                    Rewriter.insert_op(op, InsertPoint.before(first.reduction))
                kept[i] = Contraction(_joined(first.reduction, one.reduction), first.m, first.n, first.batch)
                break
        else:
            kept.append(one)


def _fit(first: Contraction, second: Contraction) -> bool:
    """Whether two contractions have the same axes, loops of the same bounds, products of one precision, and a factor in
    common.
    """
    one, other = row_chain(first.reduction), row_chain(second.reduction)
    indices = [op.iv for op in one]
    return (
        (first.m, first.n, first.batch) == (second.m, second.n, second.batch)
        and first.reduction.parent is second.reduction.parent
        and len(one) == len(other)
        and all(map(_are_alike, one, other))
        and not any(isinstance(inner, loop.LoopLike) for op in (one[-1], other[-1]) for inner in op.body.walk())
        and len({precision_of(product) for found in (first, second) for product in found.products}) == 1
        and any(read in _reads(first, indices) for read in _reads(second, indices))
    )


def _are_alike(one: loop.LoopLike, other: loop.LoopLike) -> bool:
    """Whether two loops are reductions of the same bound, without conditions, around one more loop at most."""
    return (
        isinstance(one, loop.ReduceOp)
        and isinstance(other, loop.ReduceOp)
        and one.bound == other.bound
        and tuple(one.bound_operands) == tuple(other.bound_operands)
        and not any(wheres(op.body.block) or len(_loops_in(op)) > 1 for op in (one, other))
    )


def _loops_in(op: loop.ReduceOp) -> list[loop.LoopLike]:
    return [inner for inner in op.body.block.ops if isinstance(inner, loop.LoopLike)]


def _reads(found: Contraction, indices: Sequence[SSAValue]) -> list[tuple[SSAValue, Sequence[Linear]]]:
    """The buffers and the subscripts that the factors of a contraction are read from, its loops over these indices."""
    own: dict[SSAValue, Linear] = {
        op.iv: Linear.of(iv) for op, iv in zip(row_chain(found.reduction), indices, strict=True)
    }
    loads = [read_of(factor) for factor in found.operands]
    return [
        (load.source, [substitute(form, own) for form in subscripts_of(load)]) for load in loads if load is not None
    ]


def _needed_between(first: loop.ReduceOp, second: loop.ReduceOp) -> list[Operation] | None:
    """The operations between two reductions that the second one needs.

    None where that needs the first one itself, or an operation between them does more than read.
    """
    assert first.parent is not None
    ops = list(first.parent.ops)
    between = ops[ops.index(first) + 1 : ops.index(second)]
    needed: set[Operation] = set()
    pending: list[Operation] = [second]
    while pending:
        owners = {value.owner for inner in pending.pop().walk() for value in inner.operands}
        if first in owners:
            return None
        found = [op for op in between if op in owners and op not in needed]
        needed.update(found)
        pending += found
    return [op for op in between if op in needed] if all(map(only_reads, between)) else None


def _joined(first: loop.ReduceOp, second: loop.ReduceOp) -> loop.ReduceOp:
    """Let one loop, in the place of the first one, add up what both do."""
    types = [result.type for op in (first, second) for result in op.results]
    ops = [type(op) for each in (first, second) for op in scalar_regions.combiner_ops(each.combiner) or ()]
    combiner = scalar_regions.combiner_region(ops, types, loop.YieldOp)
    yielded = [*first.yielded, *second.yielded]
    body = first.body.detach_block(first.body.block)
    second.iv.replace_all_uses_with(body.args[0])
    _take(body, second.body.block)
    body.add_op(loop.YieldOp(*yielded))
    identities = ArrayAttr([*first.identities, *second.identities])
    made = loop.ReduceOp(first.bound.data, Region(body), identities, combiner, list(first.bound_operands))
    made.location = first.location
    for result, old in zip(made.results, [*first.results, *second.results], strict=True):
        result.name_hint = old.name_hint
    count = len(first.results)
    Rewriter.replace_op(second, [], made.results[count:])
    Rewriter.replace_op(first, made, made.results[:count])
    if len(inner := _loops_in(made)) > 1:
        one, other = inner
        assert isinstance(one, loop.ReduceOp)
        assert isinstance(other, loop.ReduceOp)
        for op in _needed_between(one, other) or ():
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(one))
        _joined(one, other)
    return made


def _take(body: Block, other: Block) -> None:
    """Move the operations of another block to the end of a body, without what either yields."""
    for block in (body, other):
        assert block.last_op is not None
        Rewriter.erase_op(block.last_op)
    for op in list(other.ops):
        op.detach()
        body.add_op(op)
