"""d:001 decompose: lower every operation of the `torch` dialect to `tensor_ext`, by the pattern of its family.

    %y = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>
    ->
    %zero = arith.constant dense<0.0> : tensor<f32>
    %zeros = tensor_ext.index_map %zero affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
    %y = tensor_ext.elementwise {arith.maximumf} %x, %zeros : tensor<4xf32>

Composite operations become the formula by which PyTorch computes them, broadcasts become explicit index maps. A
function returns fresh tensors: an argument that it returns, or a value that it returns twice, is copied by an identity
index map.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, UnregisteredOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.dialects.tensor import IndexMapOp, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.failures import failure
from deplodock.passes.torch import (
    activations,
    attention,
    comparisons,
    convolutions,
    creation,
    division,
    elementwise,
    indexing,
    matmul,
    normalizations,
    pools,
    positions,
    powers,
    reductions,
    shapes,
)
from deplodock.passes.torch.lowering import LOWERINGS, lower
from deplodock.passes.torch.pattern import AtenPattern

PATTERNS: tuple[type[AtenPattern], ...] = (
    comparisons.LowerComparison,
    comparisons.LowerIsSpecial,
    comparisons.LowerLogical,
    comparisons.LowerBitwise,
    comparisons.LowerShift,
    comparisons.LowerWhere,
    comparisons.LowerMaskedFill,
    reductions.LowerReduction,
    reductions.LowerAnyAll,
    reductions.LowerVariance,
    reductions.LowerCumulative,
    positions.LowerPosition,
    normalizations.LowerSoftmax,
    normalizations.LowerLogSoftmax,
    normalizations.LowerLogSumExp,
    normalizations.LowerRmsNorm,
    normalizations.LowerLayerNorm,
    normalizations.LowerGroupNorm,
    normalizations.LowerBatchNorm,
    matmul.LowerMatmul,
    matmul.LowerAddMatmul,
    matmul.LowerOuter,
    matmul.LowerLinear,
    matmul.LowerEinsum,
    attention.LowerAttention,
    shapes.LowerPermutation,
    shapes.LowerReshape,
    shapes.LowerExpand,
    shapes.LowerAlias,
    shapes.LowerSlice,
    shapes.LowerSelect,
    shapes.LowerSplit,
    shapes.LowerUnbind,
    shapes.LowerFlip,
    shapes.LowerRoll,
    shapes.LowerRepeat,
    shapes.LowerRepeatInterleave,
    shapes.LowerCat,
    shapes.LowerDiagonal,
    shapes.LowerUnfold,
    shapes.LowerAsStrided,
    indexing.LowerGather,
    indexing.LowerIndexSelect,
    indexing.LowerIndex,
    indexing.LowerScatterSlice,
    indexing.LowerPad,
    indexing.LowerTriangle,
    creation.LowerFull,
    creation.LowerFill,
    creation.LowerArange,
    creation.LowerEye,
    convolutions.LowerConvolution,
    pools.LowerMaxPool,
    pools.LowerAveragePool,
    pools.LowerAdaptiveAveragePool,
    pools.LowerAdaptiveMaxPool,
)
"""One pattern for each family of operations."""

FAMILIES = (activations, division, elementwise, powers)
"""The files whose functions are the lowerings of all overloads."""


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Lower every operation of the `torch` dialect to `tensor_ext` operations and splat constants."""

    name = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # A plain walk: xDSL's driver wraps errors of a pattern in a dump of the module.
        patterns = {name: pattern() for pattern in PATTERNS for name in pattern.overloads}
        for inner in [inner for inner in op.walk() if isinstance(inner, AtenOp)]:
            if inner.schema().name in LOWERINGS:
                lower(inner)
                continue
            pattern = patterns.get(inner.schema().name)
            if pattern is not None:
                pattern.match_and_rewrite(inner, PatternRewriter(inner))
        left = [inner for inner in op.walk() if _name(inner).startswith("torch.")]
        if left:
            names = ", ".join(sorted({_name(inner) for inner in left}))
            raise failure(left[0], f"no decomposition of {names}")
        for inner in op.walk():
            if isinstance(inner, func.ReturnOp):
                _copy_returned(inner)


def _copy_returned(op: func.ReturnOp) -> None:
    """Copy returned arguments, and all but the first of equal returned values."""
    seen: list[SSAValue] = []
    for index, value in enumerate(op.operands):
        if isinstance(value.type, TensorType) and (isinstance(value, BlockArgument) or value in seen):
            copy = IndexMapOp(value, AffineMap.identity(len(shape_of(value))), shape_of(value))
            copy.result.name_hint = "copy"
            Rewriter.insert_op(copy, InsertPoint.before(op))
            op.operands[index] = copy.result
        seen.append(value)


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name
