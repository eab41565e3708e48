"""Copies of computed values at other places, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead


def copied(value: SSAValue, block: Block, known: dict[SSAValue, SSAValue], place: InsertPoint) -> SSAValue:
    """A value that is computed in a block, computed anew at a place; `known` are the values that stand for others."""
    owner = value.owner
    if value in known or not isinstance(owner, Operation) or owner.parent is not block:
        return known.get(value, value)
    for operand in [operand for inner in owner.walk() for operand in inner.operands]:
        copied(operand, block, known, place)
    clone = owner.clone(known)
    Rewriter.insert_op(clone, place)
    for before, after in zip(owner.results, clone.results, strict=True):
        after.name_hint = before.name_hint
        known[before] = after
    return known[value]


def erase_dead(block: Block, erase: Callable[[Operation], None] = Rewriter.erase_op) -> None:
    """Erase the operations of a block whose results nobody uses, as the rewriter of a pattern does, if one is given."""
    for op in reversed(list(block.ops)):
        if op.results and is_trivially_dead(op):
            erase(op)
