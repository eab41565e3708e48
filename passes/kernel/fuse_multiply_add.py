"""fuse-multiply-add: contract the product that an accumulator takes in. No other place decides contraction.

    %p = arith.mulf %a, %b : f32                          %c = loop.load %acc[%m] : ..
    %c = loop.load %acc[%m] : ..                    ->    %s = math.fma %a, %b, %c : f32
    %s = arith.addf %c, %p : f32                          loop.store %s, %acc[%m] : ..
    loop.store %s, %acc[%m] : ..

The printed CUDA is compiled without contraction (`-fmad=false`), so what this pass leaves alone is rounded twice. No
other sum is contracted: a value that one place computes from a rounded product and another from an exact one would
differ, and `exp(x * s - max(x * s))` of a large s is infinite instead of 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of


@dataclass
class FuseAccumulation(RewritePattern):
    """`acc + a * b`, stored back to the register that `acc` was read from, becomes `fma(a, b, acc)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddfOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op.result.type, Float32Type | Float64Type):
            return
        for accumulator, value in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            product = value.owner
            if not isinstance(product, arith.MulfOp) or product.parent is not op.parent or not value.has_one_use():
                continue
            if _accumulates(accumulator, op):
                rewriter.replace(op, math.FmaOp(product.lhs, product.rhs, accumulator))
                rewriter.erase(product)
                return


def _accumulates(value: SSAValue, op: arith.AddfOp) -> bool:
    """Whether a value is read from a register that takes the sum in its place, and nothing else takes the sum."""
    read = value.owner
    if not isinstance(read, loop.LoadOp) or memory_of(read.source) is not Memory.REGISTER:
        return False
    users = [use.operation for use in op.result.uses]
    if len(users) != 1 or not isinstance(store := users[0], loop.StoreOp):
        return False
    return store.destination is read.source and store.map == read.map and tuple(store.indices) == tuple(read.indices)


@dataclass(frozen=True)
class FuseMultiplyAddPass(ModulePass):
    """Fuse the multiplication whose only user adds it to an accumulator, in the same block of a kernel."""

    name = "fuse-multiply-add"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            PatternRewriteWalker(FuseAccumulation()).rewrite_region(function.body)
