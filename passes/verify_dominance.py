"""verify-dominance: check that every value is defined before the operations that use it.

xDSL reads and verifies a use before its definition; here `%b` is used too early:

    %c = arith.addf %b, %b : f32
    %b = arith.addf %a, %a : f32
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import IsolatedFromAbove

from deplodock.passes.options import CheckPass
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class VerifyDominancePass(CheckPass):
    """Check that every value is defined before it is used, in the same block or in one around it.

    Regions of several blocks are not checked: no dialect of deplodock has any.
    """

    name = "verify-dominance"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _verify_regions(op, set())


def _verify_regions(op: Operation, visible: set[SSAValue]) -> None:
    outer = set[SSAValue]() if op.has_trait(IsolatedFromAbove) else visible
    for region in op.regions:
        if len(region.blocks) == 1:
            _verify_block(region.block, outer)


def _verify_block(block: Block, visible: set[SSAValue]) -> None:
    """Check a block inside the scope `visible`. Raises PassFailedException at the first use of any other value."""
    defined: list[SSAValue] = list(block.args)
    visible.update(defined)
    for op in block.ops:
        for position, operand in enumerate(op.operands):
            if operand not in visible:
                raise failure(op, _message(position, operand))
        _verify_regions(op, visible)
        visible.update(op.results)
        defined.extend(op.results)
    visible.difference_update(defined)


def _message(position: int, operand: SSAValue) -> str:
    name = f"%{operand.name_hint}" if operand.name_hint else f"operand {position}"
    if isinstance(operand, BlockArgument):
        return f"{name} is an argument of a block that this operation is not in; use it inside that block only"
    assert isinstance(operand, OpResult)
    return f"{name} is not defined before this use; move {operand.op.name}, which defines it, before it"
