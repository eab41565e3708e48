"""split-factors: multiply FP32 factors on tensor cores, which read TF32, as sums of products of their parts.

    %0 = loop.reduce {arith.addf}                  %0 = loop.reduce {arith.addf}
      %ko = 0 to 112 : f32 {                         %ko = 0 to 112 apart : f32 {
      ..                                       ->    ..
      %c = tile.contract mma %a * %b                 %al = math_ext.low_part %a : f32
        over (%k_t, %k_v) at (..)                    %bl = math_ext.low_part %b : f32
        {deplodock.precision = "high"}               %c = tile.contract mma %al * %b + %a * %bl + %a * %b
        : f32, f32 -> f32                              over (%k_t, %k_v) at (..) : f32, f32 -> f32

The engine reads the leading part of a factor by itself; of what threads hold for a warpgroup they compute it, so that
products read no register that is loaded (prefetch-factors). With the low parts two parts of 11 bits each stand for the
24 of an FP32; the product of two low parts is left out, 2^-22 of the product. Small products are added first. Tensor
cores round sums toward zero, which costs a digit in a few thousand terms: so the products of `chain` elements of k
start from 0, and are added up in FP32 as any other sum, which `apart` says.

Source: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical
peak performance", IJHPCA 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.affine.linear import extent_or_one
from deplodock.dialects import loop, math_ext, tile
from deplodock.dialects.engines import reads_slabs
from deplodock.dialects.precision import HIGH, MEDIUM, precision_of, set_precision_of
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import computed_of, split_loop
from deplodock.passes.tile.rule import LaunchRule, Skip
from deplodock.schedule.choose.sizes import CHAIN


@dataclass(frozen=True)
class SplitFactorsPass(LaunchRule):
    """Multiply FP32 factors on tensor cores as sums of products of their TF32 parts."""

    name = "split-factors"
    after = ("stream-tile", "tensor-tile")
    # Longer chains have a larger error than precision high promises, so no search may take them.
    chain: int = option(
        CHAIN, Integers((CHAIN // 2, CHAIN), step=8), "elements of k whose products tensor cores add up alone"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        found = [op for op in launch.body.walk() if isinstance(op, tile.ContractOp) and precision_of(op) == HIGH]
        if not found:
            raise Skip("the launch has no contract of FP32 factors of high precision")
        low: dict[SSAValue, SSAValue] = {}
        for op in found:
            _promote(rewriter, _split(rewriter, op, low), self.chain)


def _split(rewriter: PatternRewriter, op: tile.ContractOp, low: dict[SSAValue, SSAValue]) -> tile.ContractOp:
    """Let a contract multiply parts; `low` has those of factors already split."""
    pairs: list[tuple[SSAValue, SSAValue]] = []
    for left, right in op.pairs:
        right, right_low = _parts(rewriter, right, low)
        high = computed_of(rewriter, left, math_ext.HighPartOp, "_high") if reads_slabs(op.engine.data) else left
        pairs += [(_low(rewriter, left, low), right), (high, right_low), (high, right)]
    made = tile.ContractOp(op.engine.data, pairs, op.axes, op.at, op.result.type)
    made.location = op.location
    made.attributes = dict(op.attributes)
    set_precision_of(made, MEDIUM)
    known = {factor.owner: None for factor in op.rhs}
    rewriter.replace(op, made)
    for both in known:
        if isinstance(both, math_ext.WithLowPartOp) and not both.result.uses:
            rewriter.erase(both)
    return made


def _parts(rewriter: PatternRewriter, factor: SSAValue, low: dict[SSAValue, SSAValue]) -> tuple[SSAValue, SSAValue]:
    """A factor, of which the engine reads the leading part, and its low part, which may be stored."""
    if isinstance(known := factor.owner, math_ext.WithLowPartOp):
        return known.value, known.low
    return factor, _low(rewriter, factor, low)


def _low(rewriter: PatternRewriter, factor: SSAValue, low: dict[SSAValue, SSAValue]) -> SSAValue:
    """The low part of a factor, computed where the factor is."""
    if factor not in low:
        low[factor] = computed_of(rewriter, factor, math_ext.LowPartOp, "_low")
    return low[factor]


def _promote(rewriter: PatternRewriter, op: tile.ContractOp, chain: int) -> None:
    """Mark the loop whose iterations are added up in FP32: the innermost that would make a chain longer than this."""
    length = prod(extent_or_one(axis) for axis in op.axes)
    around = op.parent_op()
    inner: SSAValue = op.result
    while isinstance(around, loop.ReduceOp) and inner in around.yielded:
        trips, place = around.trips, list(around.yielded).index(inner)
        if trips is None or length * trips > chain:
            parts = [steps for steps in range(2, chain // length + 1) if trips is not None and trips % steps == 0]
            if parts and trips != parts[-1]:
                is_unrolled = around.unroll
                around, _ = split_loop(rewriter, around, parts[-1])
                assert isinstance(around, loop.ReduceOp)
                around.unroll = is_unrolled
            around.apart = UnitAttr()
            rewriter.notify_op_modified(around)
            return
        length *= trips
        inner, around = around.results[place], around.parent_op()
