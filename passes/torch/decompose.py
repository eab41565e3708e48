"""decompose: lower every operation of the `torch` dialect to `tensor_ext`, by the formula of its overload.

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

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, TensorType, UnregisteredOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import PassFailedException

from deplodock.dialects.tensor import IndexMapOp, RecurrenceOp, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.remarks import failure
from deplodock.passes.torch.lowering import lower, lowering_of


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Lower every operation of the `torch` dialect to `tensor_ext` operations and splat constants.

    Raises PassFailedException with what stands against any of them.
    """

    name = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # A plain walk: xDSL's driver wraps errors of a pattern in a dump of the module.
        errors: dict[str, PassFailedException] = {}
        given = set(op.ops)
        for inner in [inner for inner in op.walk() if isinstance(inner, AtenOp)]:
            if (lowering := lowering_of(inner.schema().name)) is not None:
                try:
                    lower(inner, lowering)
                except PassFailedException as error:
                    errors.setdefault(str(error), error)
        if errors:
            raise PassFailedException("\n".join(errors))
        left = [inner for inner in op.walk() if _name(inner).startswith("torch.")]
        if left:
            names = ", ".join(sorted({_name(inner) for inner in left}))
            raise failure(left[0], f"no decomposition of {names}")
        for inner in op.walk():
            if isinstance(inner, func.ReturnOp):
                _copy_returned(inner)
        if cells := [function for function in op.ops if function not in given and isinstance(function, func.FuncOp)]:
            _erase_unused(op, cells)


def _erase_unused(module: ModuleOp, cells: Sequence[func.FuncOp]) -> None:
    """Erase those cells of recurrences of which nothing is used, as where only a shape of their results is."""
    region_dce(module.body)
    used = {op.cell for op in module.walk() if isinstance(op, RecurrenceOp)}
    for function in cells:
        if SymbolRefAttr(function.sym_name) not in used:
            function.detach()
            function.erase()


def _copy_returned(op: func.ReturnOp) -> None:
    """Copy returned arguments, and all but the first of equal returned values."""
    seen: list[SSAValue] = []
    for index, value in enumerate(op.operands):
        if isinstance(value.type, TensorType) and (isinstance(value, BlockArgument) or value in seen):
            copy = IndexMapOp(value, AffineMap.identity(len(shape_of(value))), shape_of(value))
            copy.location = op.location
            copy.result.name_hint = "copy"
            Rewriter.insert_op(copy, InsertPoint.before(op))
            op.operands[index] = copy.result
        seen.append(value)


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name
