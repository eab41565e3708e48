"""round-factors: round FP32 factors of products of `medium` to TF32, where they come on chip.

    tile.copy %x[..] to %xs at %ring[%i] tma                   tile.copy %x[..] to %xs at %ring[%i] tma tf32
    ..                                                         ..
    %a = loop.load %xs[..]                                     %a = loop.load %xs[..]
    %b = loop.load %y_reg[..]                             ->   %b = loop.load %y_reg[..]
    %c = tile.contract mma %a * %b over (..) at (..)           %y = math_ext.round_tf32 %b : f32
      {deplodock.precision = "medium"} : f32, f32 -> f32       %c = tile.contract mma %a * %y over (..) at (..)
                                                                 {deplodock.precision = "medium"} : f32, f32 -> f32

Tensor cores drop the last bits of a factor, which costs 2.6 times the error of rounding. Slabs that contracts alone
read, and that come in boxes, are rounded on the way by the tensor memory accelerator, for nothing. Warps round others
in registers, by an instruction for each factor, which targets before sm_90 lack; there factors stay as they are, and so
do slabs that warpgroups read and no box fills. So do those beside factors that warps compute, the weights of attention:
it waits for its warps, and took 1.2 times as long on an H200. A contract of several pairs multiplies parts of its
factors (split-factors), which count to their last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from deplodock.analysis.machine.targets import has_feature, target_at
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import reads_slabs
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.math_ext import HighPartOp, RoundTf32Op
from deplodock.dialects.precision import MEDIUM, precision_of
from deplodock.passes.tile.edits import computed_of


@dataclass(frozen=True)
class RoundFactorsPass(ModulePass):
    """Round FP32 factors of products of `medium` to TF32."""

    name = "round-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(inner, tile.ContractOp) and _rounds(inner) for inner in op.walk()):
            PatternRewriteWalker(RoundFactors(), apply_recursively=False).rewrite_module(op)


class RoundFactors(RewritePattern):
    """Rounds FP32 factors of the products of a launch."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        contracts = [inner for inner in op.body.walk() if isinstance(inner, tile.ContractOp) and _rounds(inner)]
        if contracts and has_feature(target_at(op), Feature.TF32_ROUNDING):
            _round(rewriter, contracts)


def _rounds(op: tile.ContractOp) -> bool:
    """Whether the factors of a contract may be rounded."""
    return op.lhs[0].type == f32 and precision_of(op) == MEDIUM and len(op.pairs) == 1


def _round(rewriter: PatternRewriter, contracts: Collection[tile.ContractOp]) -> None:
    """Round the factors of contracts, each value once."""
    rounded: dict[SSAValue, SSAValue] = {}
    factors = [factor for op in contracts for factor in (*op.lhs, *op.rhs)]
    in_registers = all(isinstance(factor.owner, loop.LoadOp | RoundTf32Op) for factor in factors)
    for op in contracts:
        for place, factor in enumerate((*op.lhs, *op.rhs)):
            if boxes := _boxes_of(factor, contracts):
                for box in (box for box in boxes if not box.is_tf32):
                    box.is_tf32 = UnitAttr()
                    rewriter.notify_op_modified(box)
            elif in_registers and not reads_slabs(op.engine.data) and not isinstance(factor.owner, RoundTf32Op):
                op.operands[place] = rounded[factor] = rounded.get(factor) or computed_of(rewriter, factor, RoundTf32Op)
                rewriter.notify_op_modified(op)


def _boxes_of(factor: SSAValue, contracts: Collection[Operation]) -> list[tile.StageOp | tile.CopyOp]:
    """The copies of boxes that fill the slab of which a factor is read, if contracts of these alone read it."""
    read = factor.owner.value.owner if isinstance(factor.owner, HighPartOp) else factor.owner
    if not isinstance(read, loop.LoadOp):
        return []
    slab = read.source
    uses = [slab.owner, *(use.operation for use in slab.uses)]
    fills = [op for op in uses if isinstance(op, tile.StageOp | tile.CopyOp)]
    loads = [op for op in uses if isinstance(op, loop.LoadOp)]
    readers = [reader for op in loads for reader in _readers(op.result)]
    is_known = all(isinstance(op, tile.StageOp | tile.AllocOp | tile.CopyOp | loop.LoadOp) for op in uses)
    is_whole = is_known and all(op.is_tma for op in fills) and all(reader in contracts for reader in readers)
    return fills if is_whole else []


def _readers(value: SSAValue) -> Iterator[Operation]:
    """What reads a value, or its leading part, which rounding leaves as it is."""
    for use in value.uses:
        if isinstance(use.operation, HighPartOp):
            yield from _readers(use.operation.result)
        else:
            yield use.operation
