"""Contract products and sums of kernels to fused multiply-adds: the only place where that is decided.

The printed CUDA is compiled without contraction (`-fmad=false`), so what this pass leaves alone is rounded twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from deplodock.dialects.kernel import FuncOp


def _product(value: SSAValue, user: Operation) -> arith.MulfOp | None:
    """The multiplication that gives `value` for `user` alone, in the same block."""
    op = value.owner
    if not isinstance(op, arith.MulfOp) or op.parent is not user.parent:
        return None
    if not isinstance(value.type, Float32Type | Float64Type):
        return None
    return op if value.has_one_use() else None


@dataclass
class FuseAdd(RewritePattern):
    """`a * b + c` and `c + a * b` become `fma(a, b, c)`; of two products the first is fused."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddfOp, rewriter: PatternRewriter, /) -> None:
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if (product := _product(value, op)) is not None:
                rewriter.replace(op, math.FmaOp(product.lhs, product.rhs, other))
                rewriter.erase(product)
                return


@dataclass
class FuseSubtract(RewritePattern):
    """`a * b - c` becomes `fma(a, b, -c)`, and `c - a * b` becomes `fma(-a, b, c)`: a negation is exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.SubfOp, rewriter: PatternRewriter, /) -> None:
        if (product := _product(op.lhs, op)) is not None:
            negated = rewriter.insert(arith.NegfOp(op.rhs))
            fused = math.FmaOp(product.lhs, product.rhs, negated.result)
        elif (product := _product(op.rhs, op)) is not None:
            negated = rewriter.insert(arith.NegfOp(product.lhs))
            fused = math.FmaOp(negated.result, product.rhs, op.lhs)
        else:
            return
        rewriter.replace(op, fused)
        rewriter.erase(product)


@dataclass(frozen=True)
class FuseMultiplyAddPass(ModulePass):
    """Fuse a multiplication with the addition or subtraction that is its only user, in the same block of a kernel.

        %p = arith.mulf %a, %b : f32
        %s = arith.addf %acc, %p : f32

    becomes

        %s = math.fma %a, %b, %acc : f32
    """

    name = "fuse-multiply-add"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every `kernel.func` of the module."""
        for function in op.walk():
            if isinstance(function, FuncOp):
                PatternRewriteWalker(FuseAdd()).rewrite_region(function.body)
                PatternRewriteWalker(FuseSubtract()).rewrite_region(function.body)
