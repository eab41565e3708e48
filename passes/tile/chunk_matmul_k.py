"""chunk-matmul-k: split the reduce axis of a contraction into chunks, so that slabs of one chunk fit on chip.

    %acc = loop.reduce {arith.addf}          %acc = loop.reduce {arith.addf} %ko = 0 to 112 : f32 {
      %k = 0 to 3584 : f32 {                   %0 = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
      ..                               ->        %k = loop.index [%ko * 32 + %ki] ..
      loop.yield %p : f32                        loop.yield %p : f32
    }                                          }
                                               loop.yield %0 : f32
                                             }

The nested reductions share one accumulator, so the order of the sum stays that of the loops. With `kv`, each chunk is
split once more into vectors of `kv` consecutive k, an unrolled loop, for operands that are read as vectors along k.

Chunks of which a `loop.where` leaves out every element do not run:

    %k = 0 to 2048 : f32 {                              %ko = 0 to min(64, %m floordiv 128 * 4 + 4) : f32 {
      loop.where %k < %m floordiv 128 * 128 + 128  ->     %0 = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
      ..                                                    ..
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.affine.linear import Linear, condition_of, equal, least
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import bound_by, greatest, split_loop, unroll
from deplodock.passes.tile.rule import LaunchRule, Skip, staged
from deplodock.schedule.choose.tiling import CHUNK


@dataclass(frozen=True)
class ChunkMatmulKPass(LaunchRule):
    """Split the reduce axis of a contraction into chunks."""

    name = "chunk-matmul-k"
    after = ("flatten-contraction",)
    bk: int = option(CHUNK, Integers((8, 16, 32, 64, 128)), "elements of k in a chunk")
    kv: int = option(1, Integers((1, 2, 4)), "consecutive elements of k that are read as one vector; 1 for none")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        roles = contraction_of(launch)
        if roles is None:
            raise Skip("no reduction of the launch is a contraction; chunk-reduce splits others")
        reduction = roles.reduction
        if roles.innermost is not reduction:
            raise Skip("the contraction runs in chunks, or over several axes, already")
        if staged(launch):
            raise Skip("inputs are staged; chunk-matmul-k runs before stage-inputs")
        if reduction.trips is None:
            raise Skip(f"the bound of the loop over {label(reduction.iv)} is not constant")
        if self.bk % self.kv:
            raise Skip(f"vectors of {self.kv} do not divide chunks of {self.bk}")
        if reduction.trips <= self.bk:
            raise Skip(f"k has {reduction.trips} elements, one chunk of {self.bk} holds them")
        outer, inner = split_loop(rewriter, reduction, self.bk)
        lanes = [*launch.bound_to(Binding.REGISTER), *(launch.bound_to(Binding.THREAD) if launch.ctas else ())]
        _leave_out(rewriter, outer, inner, self.bk, {axis: launch.extent(axis) or 1 for axis in lanes})
        if self.kv > 1:
            assert isinstance(inner, loop.ReduceOp)
            _, vector = split_loop(rewriter, inner, self.kv)
            unroll(rewriter, vector)


def _leave_out(
    rewriter: PatternRewriter, outer: loop.LoopLike, inner: loop.LoopLike, bk: int, sizes: Mapping[SSAValue, int]
) -> None:
    """Let the loop over chunks end where the conditions of its elements fail for all of a chunk at once.

    The points of a tile, which takes `sizes` of each axis, run it together; conditions that they do not share stay.
    """
    assert outer.trips is not None
    bounds = [Linear(constant=outer.trips)]
    for where in wheres(inner.body.block):
        bound = Linear.of(outer.iv) - condition_of(where) // bk
        shared = greatest(bound, sizes)
        if any(root in sizes or outer.is_ancestor(root.owner) for root in shared.roots()):
            continue
        bounds.append(shared)
        if equal(bound, shared):
            rewriter.erase(where)
    bound_by(rewriter, outer, least(bounds))
