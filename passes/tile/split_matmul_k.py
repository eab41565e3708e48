"""split-matmul-k: share the reduce axis of a contraction among CTAs, where there are too few tiles for all SMs.

    tile.launch (%m = 32 : thread,               %part = memref.alloc() : memref<4x32x64xf32>
                 %n = 64 : thread) {             tile.launch (%s = 4 : thread, %m = 32 : thread, %n = 64 : thread) {
      %acc = loop.reduce {arith.addf}              %0 = loop.reduce {arith.addf} %ko_p = 0 to 28 : f32 {
        %ko = 0 to 112 : f32 {..}                    %ko = loop.index [%s * 28 + %ko_p] ..
      %r = loop.load %res[%m, %n] : ..             }
      %y = arith.addf %acc, %r : f32       ->      loop.store %0, %part[%s, %m, %n] : ..
      loop.store %y, %out[%m, %n] : ..           }
    }                                            tile.launch (%m = 32 : thread, %n = 64 : thread) {
                                                   %acc = loop.reduce {arith.addf} %s = 0 to 4 : f32 {
                                                     %0 = loop.load %part[%s, %m, %n] : .. loop.yield %0 : f32
                                                   }
                                                   %r = loop.load %res[%m, %n] : .. %y = arith.addf %acc, %r : f32
                                                   loop.store %y, %out[%m, %n] : ..
                                                 }

With `over=block`, as above, the first launch is a batched contraction of parts of k; the second adds the parts in their
order, so that results do not depend on timing, and does what follows the contraction, once. Both are scheduled like
any other launch. In the buffer of parts each pair of neighbours is swapped, `%n floordiv 2 * 2 - %n mod 2 + 1` instead
of `%n`.

    tile.launch (%s = 4 : block, %m = 32 : thread, %n = 64 : thread) {
      %0 = loop.reduce {arith.addf} %ko_p = 0 to 28 : f32 {..}
      %acc = tile.combine {arith.addf} %0 over (%s) : f32
      %r = loop.load %res[%m, %n] : .. %y = arith.addf %acc, %r : f32
      loop.store %y, %out[%m, %n] : ..
    }

With `over=ticket` there is one launch, whose combine the last CTA of a tile does: worth it where the parts of a tile
are small. With `over=cluster` the axis is bound to a cluster of CTAs, which read each other's parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects import memref
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.machine.targets import FIRST_CLUSTERS, capability, target_at
from deplodock.analysis.operations import label, only_reads
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import Axis, append_axis, erase_unneeded, reorder, share_loop
from deplodock.passes.tile.rule import LaunchRule, Skip, folded, require_constant, staged

Way: TypeAlias = Literal["block", "ticket", "cluster"]
"""How the parts are combined."""


@dataclass(frozen=True)
class SplitMatmulKPass(LaunchRule):
    """Share the reduce axis of a contraction among CTAs."""

    name = "split-matmul-k"
    after = ("flatten-contraction",)
    s: int | None = option(None, Integers((2, 3, 4, 6, 8, 12, 16)), "parts of k; without it k stays whole")
    over: Way = option(
        "block",
        Way,
        "how the parts are combined: by a second launch (block), by the last CTA of a tile (ticket), or each CTA of a "
        "cluster for some threads (cluster)",
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        roles = contraction_of(launch)
        if roles is None:
            raise Skip("no reduction of the launch is a contraction")
        reduction = roles.reduction
        if _is_part(launch):
            raise Skip("k is shared by CTAs already")
        if staged(launch) or launch.ctas or launch.bound_to(Binding.REGISTER):
            raise Skip("the launch has blocks, registers or slabs; split-matmul-k runs before what makes them")
        if wheres(launch.body.block):
            raise Skip("some points of the launch are inactive, and have no partial sums")
        if reduction.trips is None:
            raise Skip(f"the bound of the loop over {label(reduction.iv)} is not constant")
        require_constant(launch, launch.axes)
        if self.s is None:
            raise Skip("the tiles fill the SMs of the target without a split")
        if self.s == 1:
            raise Skip("s=1 leaves k whole")
        if self.over == "block":
            _cut(rewriter, launch, reduction, self.s)
            return
        if self.over == "cluster":
            _check_clusters(launch)
        _combine(rewriter, launch, reduction, self.s, Binding.CLUSTER if self.over == "cluster" else Binding.BLOCK)


def _check_clusters(launch: tile.LaunchOp) -> None:
    """Raises Skip where the target has no clusters."""
    target = target_at(launch)
    if capability(target) < FIRST_CLUSTERS:
        raise Skip(f"{target.arch.data} has no clusters")


def _is_part(launch: tile.LaunchOp) -> bool:
    """Whether a launch folds a block axis, or stores to a buffer of its function as one for partial sums does."""
    stores = [op for op in launch.walk() if isinstance(op, loop.StoreOp)]
    is_folded = any(axis in launch.ctas for axis in folded(launch))
    return is_folded or any(isinstance(op.destination.owner, memref.AllocOp) for op in stores)


def _combine(
    rewriter: PatternRewriter, launch: tile.LaunchOp, reduction: loop.ReduceOp, parts: int, binding: Binding
) -> None:
    """Share a reduction over an axis of CTAs, and give the users of its result the combined parts."""
    axis = append_axis(rewriter, launch, Axis(parts, binding, "s"))
    names = [result.name_hint for result in reduction.results]
    partial = share_loop(rewriter, reduction, axis, parts)
    combined = tile.CombineOp(partial.results, [axis], partial.identities, partial.combiner.clone())
    rewriter.insert(combined, InsertPoint.after(partial))
    for old, new, name in zip(partial.results, combined.results, names, strict=True):
        new.name_hint = name
        rewriter.replace_uses_with_if(old, new, lambda use: use.operation is not combined)
    reorder(rewriter, launch, [axis, *(other for other in launch.axes if other is not axis)])


def _cut(rewriter: PatternRewriter, launch: tile.LaunchOp, reduction: loop.ReduceOp, parts: int) -> None:
    """Let a launch store partial sums, and a copy of it behind it add them and do what follows."""
    second = launch.clone()
    rewriter.insert(second, InsertPoint.after(launch))
    depends = Dependence().of(*reduction.results)
    varying = [axis.index for axis in launch.axes if axis in depends]
    shape = [parts, *(launch.extent(launch.axes[i]) or 0 for i in varying)]
    workspaces = [memref.AllocOp.get(result.type, shape=shape) for result in reduction.results]
    for workspace, result in zip(workspaces, reduction.results, strict=True):
        workspace.memref.name_hint = f"{result.name_hint or 'acc'}_part"
    rewriter.insert(workspaces, InsertPoint.before(launch))

    position = list(launch.body.block.ops).index(reduction)
    twin = list(second.body.block.ops)[position]
    assert isinstance(twin, loop.ReduceOp)
    _add_parts(rewriter, twin, [workspace.memref for workspace in workspaces], [second.axes[i] for i in varying])
    erase_unneeded(rewriter, second.body.block, [op for op in second.body.block.ops if not only_reads(op)])

    axes = [launch.axes[i] for i in varying]
    axis = append_axis(rewriter, launch, Axis(parts, Binding.THREAD, "s"))
    partial = share_loop(rewriter, reduction, axis, parts)
    stores = [
        loop.StoreOp(result, workspace.memref, _part_map(shape), [axis, *axes])
        for result, workspace in zip(partial.results, workspaces, strict=True)
    ]
    rewriter.insert(stores, InsertPoint.after(partial))
    erase_unneeded(rewriter, launch.body.block, stores)
    reorder(rewriter, launch, [axis, *(other for other in launch.axes if other is not axis)])


def _part_map(shape: Sequence[int]) -> AffineMap:
    """Where the partial sum of an output lies in the buffer of parts: neighbours in pairs, each pair swapped.

    So a thread stores several accumulators at once without tying them to the register banks of the factors' columns.
    """
    *outer, last = (AffineExpr.dimension(i) for i in range(len(shape)))
    if shape[-1] % 2 == 0:
        last = last // 2 * 2 + last % 2 * -1 + 1
    return AffineMap(len(shape), 0, (*outer, last))


def _add_parts(
    rewriter: PatternRewriter, reduction: loop.ReduceOp, workspaces: Sequence[SSAValue], axes: list[SSAValue]
) -> None:
    """Replace a reduction by one over its stored parts, in their order."""
    shape = loop.memref_of(workspaces[0]).get_shape()
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = "s"
    loads = [loop.LoadOp(workspace, _part_map(shape), [body.args[0], *axes]) for workspace in workspaces]
    body.add_ops([*loads, loop.YieldOp(*(load.result for load in loads))])
    total = loop.ReduceOp(shape[0], Region(body), reduction.identities, reduction.combiner.clone())
    rewriter.replace(reduction, total)
