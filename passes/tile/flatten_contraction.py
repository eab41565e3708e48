"""flatten-contraction: let each role of a contraction be one axis, so that windows are rows of a matrix.

    tile.launch (%b = 8 : thread, %c = 128 : thread,        tile.launch (%c = 128 : thread, %n = 25088 : thread) {
                 %y = 56 : thread, %x = 56 : thread) {        %b = loop.index [%n floordiv 3136]
      %acc = loop.reduce {arith.addf} %i = 0 to 64 {          %y = loop.index [%n floordiv 56 mod 56]
        %0 = loop.reduce {arith.addf} %h = 0 to 3 {    ->     %x = loop.index [%n mod 56]
          %1 = loop.reduce {arith.addf} %w = 0 to 3 {         %acc = loop.reduce {arith.addf} %k = 0 to 576 {
            ..                                                  %i = loop.index [%k floordiv 9]
            loop.yield %p                                       %h = loop.index [%k floordiv 3 mod 3]
          }                                                     %w = loop.index [%k mod 3]
          loop.yield %1                                         ..
        }                                                       loop.yield %p
        loop.yield %0                                         }
      } ..

Here m are the channels of the output, n the pixels of all images and k the elements of a window. The rules after this
one tile those as they tile the rows and columns of matrices, whatever the extents of an image, and `stage-inputs`
gathers the elements of windows into slabs of k and n (implicit GEMM). The order of the sum stays that of the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.roles import accumulating_loops, contraction_of, runs_through_windows
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.tile.edits import Axis, append_axis, drop_axis, reorder
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, require_constant, staged


@dataclass(frozen=True)
class FlattenContractionPass(LaunchRule):
    """Let each role of a contraction be one axis."""

    name = "flatten-contraction"
    after = ("tileify",)

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        roles = contraction_of(launch)
        if roles is None:
            raise Skip("no reduction of the launch is a contraction")
        if staged(launch) or any(launch.binding(axis) is not Binding.THREAD for axis in launch.axes):
            raise Skip("the launch has blocks, registers or slabs; flatten-contraction runs before what makes them")
        loops = accumulating_loops(roles.reduction)
        groups = {name: axes for name, axes in (("m", roles.m), ("n", roles.n)) if len(axes) > 1}
        if len(loops) == 1 and not groups:
            raise NothingToDo("m, n and k are one axis each")
        if len(loops) > 1 and not runs_through_windows(roles):
            raise Skip("k runs in chunks already; flatten-contraction runs before chunk-matmul-k")
        require_constant(launch, chain(*groups.values()))
        _check_loops(loops)
        order: list[SSAValue] = list(launch.axes)
        for name, axes in groups.items():
            order[order.index(axes[-1])] = _join_axes(rewriter, launch, name, axes)
            order = [axis for axis in order if axis not in axes]
        reorder(rewriter, launch, order)
        if len(loops) > 1:
            _join_loops(rewriter, loops)


def _check_loops(loops: Sequence[loop.ReduceOp]) -> None:
    """Raises Skip where the loops of a sum cannot be one."""
    for op in loops:
        if op.trips is None:
            raise Skip(f"the bound of the loop over {label(op.iv)} is not constant")
    for op in loops[:-1]:
        if wheres(op.body.block):
            raise Skip(f"the loop over {label(op.iv)} has a loop.where of its own")


def _join_axes(rewriter: PatternRewriter, launch: tile.LaunchOp, name: str, axes: Sequence[SSAValue]) -> SSAValue:
    """Make one axis of several, which are dropped. Returns it."""
    extents = [launch.extent(axis) or 1 for axis in axes]
    joined = append_axis(rewriter, launch, Axis(prod(extents), Binding.THREAD, name))
    _take_apart(rewriter, joined, axes, extents, launch.body.block)
    for axis in axes:
        assert isinstance(axis, BlockArgument)
        drop_axis(rewriter, launch, axis)
    return joined


def _join_loops(rewriter: PatternRewriter, loops: Sequence[loop.ReduceOp]) -> None:
    """Make one loop of those of a sum."""
    outer, inner = loops[0], loops[-1]
    variables = [op.iv for op in loops]
    moved = [op for around in loops[:-1] for op in around.body.block.ops if isinstance(op, loop.IndexOp)]
    trips = [op.trips or 1 for op in loops]
    body = Region(inner.body.detach_block(inner.body.block))
    joined = rewriter.insert_block_argument(body.block, 1, IndexType())
    joined.name_hint = "k"
    for op in reversed(moved):
        op.detach()
        rewriter.insert(op, InsertPoint.at_start(body.block))
    _take_apart(rewriter, joined, variables, trips, body.block)
    rewriter.erase_block_argument(variables[-1])
    made = loop.ReduceOp(prod(trips), body, outer.identities, outer.combiner.clone())
    made.location = outer.location
    made.attributes |= outer.attributes
    rewriter.replace(outer, made)


def _take_apart(
    rewriter: PatternRewriter, joined: SSAValue, coordinates: Sequence[SSAValue], extents: Sequence[int], block: Block
) -> None:
    """Compute coordinates from the one that takes their place, the last of them the fastest."""
    added: list[Operation] = []
    stride = prod(extents)
    for place, (coordinate, extent) in enumerate(zip(coordinates, extents, strict=True)):
        stride //= extent
        expr = AffineExpr.dimension(0) // stride if stride > 1 else AffineExpr.dimension(0)
        index = loop.IndexOp(AffineMap(1, 0, (expr % extent if place else expr,)), [joined])
        index.result.name_hint = coordinate.name_hint
        rewriter.replace_all_uses_with(coordinate, index.result)
        added.append(index)
    rewriter.insert(added, InsertPoint.at_start(block))
