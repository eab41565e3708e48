"""split-stream: share the row of a streaming reduction among CTAs, where there are too few tiles for all SMs.

    tile.launch (%m = 7 : thread,                %max_part, %acc_part = memref.alloc() ..
                 %d = 64 : thread) {             tile.launch (%i_s = 8 : thread, %m = 7 : thread, %d = 64 : thread) {
      %max, %acc = loop.reduce                     %max, %acc = loop.reduce %i_p = 0 to 512 : f32, f32 {
        %i = 0 to 4096 : f32, f32 {                  %i = loop.index [%i_s * 512 + %i_p] ..
        ..                                         }
      }                                            loop.store %max, %max_part[%i_s, %m]
      loop.store %acc, %out[%m, %d]      ->        loop.store %acc, %acc_part[%i_s, %m, %d]
    }                                            }
                                                 tile.launch (%m = 7 : thread, %d = 64 : thread) {
                                                   %max = loop.reduce {arith.maximumf} %s = 0 to 8 : f32 {
                                                     .. %max_part[%s, %m]
                                                   }
                                                   %acc = loop.reduce {arith.addf} %s = 0 to 8 : f32 {
                                                     .. %acc_part[%s, %m, %d] * exp(%max_part[%s, %m] - %max)
                                                   }
                                                   loop.store %acc, %out[%m, %d]
                                                 }

A part leaves what the reduction has of its share of the row, which is an element of the same reduction: the second
launch folds those in their order, the largest maximum and then the sums scaled to it, and does what follows, once.
Parts are whole multiples of `unit` elements; the last part may have fewer. Where parts take turns (`order=turns`) of
`unit` elements each, CTAs that run at the same time read neighbours, and parts have one turn more or less. Both
launches are scheduled like any other; a step with the name of an output as its target is for the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects import arith, math, memref
from xdsl.dialects.builtin import ArrayAttr, IndexType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.operations import only_reads
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.streaming import limits, streamed_product, weighing, weight_of
from deplodock.dialects import loop, scalar_regions, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import Axis, append_axis, erase_unneeded, reorder, share_loop
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, require_constant, staged

Order: TypeAlias = Literal["stretches", "turns"]
"""How parts lie in the row."""


@dataclass(frozen=True)
class SplitStreamPass(LaunchRule):
    """Share the row of a streaming reduction of products among CTAs."""

    name = "split-stream"
    s: int | None = option(None, Integers((2, 3, 4, 8, 16)), "parts of the row, at most; without it a row stays whole")
    unit: int = option(1, Integers((1, 16, 32)), "elements of the row of which parts have whole multiples")

    order: Order = option(
        "stretches",
        Order,
        "how parts lie in the row: each is a stretch of it (stretches), or they take turns of unit elements (turns)",
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if any(isinstance(value.owner, memref.AllocOp) for op in launch.walk() for value in op.operands):
            raise NothingToDo("the row is shared by CTAs already")
        found = streamed_product(launch_nest(launch))
        if found is None:
            raise Skip("the launch has no streaming reduction of products")
        if staged(launch) or any(launch.binding(axis) is not Binding.THREAD for axis in launch.axes):
            raise Skip("its points are divided already; split-stream runs behind tileify")
        require_constant(launch, launch.axes)
        if wheres(launch.body.block):
            raise Skip("some points of the launch are inactive, and leave no parts")
        if self.s is None:
            raise Skip("the tiles fill the SMs of the target without a split")
        trips = found.reduction.trips or 0
        part = -(-trips // (self.s * self.unit)) * self.unit
        if (parts := min(self.s, -(-trips // self.unit)) if self.order == "turns" else -(-trips // part)) < 2:
            raise Skip(f"a part of {part} elements is the whole row of {trips}")
        _cut(rewriter, launch, found.reduction, parts, part, self.unit if self.order == "turns" else None)


def _cut(
    rewriter: PatternRewriter, launch: tile.LaunchOp, reduction: loop.ReduceOp, parts: int, part: int, turn: int | None
) -> None:
    """Let a launch store what parts of a row leave, and a copy of it behind it fold them and do what follows."""
    second = launch.clone()
    rewriter.insert(second, InsertPoint.after(launch))
    dependence = Dependence()
    varying = [[axis.index for axis in launch.axes if axis in dependence.of(value)] for value in reduction.results]
    workspaces: list[SSAValue] = []
    for result, places in zip(reduction.results, varying, strict=True):
        made = memref.AllocOp.get(result.type, shape=[parts, *(launch.extent(launch.axes[i]) or 0 for i in places)])
        made.memref.name_hint = f"{result.name_hint or 'acc'}_part"
        rewriter.insert(made, InsertPoint.before(launch))
        workspaces.append(made.memref)

    twin = list(second.body.block.ops)[list(launch.body.block.ops).index(reduction)]
    assert isinstance(twin, loop.ReduceOp)
    _fold_parts(rewriter, twin, workspaces, [[second.axes[i] for i in places] for places in varying], parts)
    erase_unneeded(rewriter, second.body.block, [op for op in second.body.block.ops if not only_reads(op)])

    axes = [[launch.axes[i] for i in places] for places in varying]
    axis = append_axis(rewriter, launch, Axis(parts, Binding.THREAD, f"{reduction.iv.name_hint or 'i'}_s"))
    partial = share_loop(rewriter, reduction, axis, parts, part, turn)
    stores = [
        loop.StoreOp(result, workspace, AffineMap.identity(1 + len(places)), [axis, *places])
        for result, workspace, places in zip(partial.results, workspaces, axes, strict=True)
    ]
    rewriter.insert(stores, InsertPoint.after(partial))
    erase_unneeded(rewriter, launch.body.block, stores)
    reorder(rewriter, launch, [axis, *(other for other in launch.axes if other is not axis)])


def _fold_parts(
    rewriter: PatternRewriter,
    reduction: loop.ReduceOp,
    workspaces: Sequence[SSAValue],
    axes: Sequence[Sequence[BlockArgument]],
    parts: int,
) -> None:
    """Replace a streaming reduction by one of what its parts have left: the largest maximum, and sums scaled to it."""
    place, weighed = InsertPoint.before(reduction), weighing(reduction)

    def add(op: Operation) -> SSAValue:
        op.location = reduction.location
        rewriter.insert(op, place)
        return op.results[0]

    def fold(
        identities: Sequence[Attribute], combiner: Region, values: Callable[[Block], Sequence[SSAValue]]
    ) -> loop.ReduceOp:
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = "s"
        body.add_op(loop.YieldOp(*values(body)))
        made = loop.ReduceOp(parts, Region(body), ArrayAttr(identities), combiner)
        add(made)
        return made

    def read(body: Block, number: int) -> SSAValue:
        load = loop.LoadOp(workspaces[number], AffineMap.identity(1 + len(axes[number])), [body.args[0], *axes[number]])
        body.add_op(load)
        return load.result

    def weigh(body: Block) -> list[SSAValue]:
        parts_read = [read(body, number) for number in range(len(workspaces))]
        shifted = arith.SubfOp(parts_read[0], limit)
        weight = math.ExpOp(shifted.result, weight_of(weighed[0][1]).fastmath)
        scaled = [
            arith.MulfOp(value, weight.result, by.fastmath)
            for value, (_, by) in zip(parts_read[1:], weighed, strict=True)
        ]
        body.add_ops([shifted, weight, *scaled])
        return [op.result for op in scaled]

    least, greatest = limits(reduction)
    top, *sums = reduction.results
    largest = fold(
        reduction.identities.data[:1],
        scalar_regions.short_form(arith.MaximumfOp, top.type, loop.YieldOp)[1],
        lambda body: [read(body, 0)],
    ).results[0]
    limit = add(arith.MinimumfOp(add(arith.MaximumfOp(largest, least)), greatest))
    total = fold(
        reduction.identities.data[1:],
        scalar_regions.combiner_region([arith.AddfOp] * len(sums), [value.type for value in sums], loop.YieldOp),
        weigh,
    )
    rewriter.replace(reduction, [], [largest, *total.results])
