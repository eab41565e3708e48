"""Copies of computed values at other places, what is left behind, and the symbols of functions that passes make."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp, StringAttr
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


class Symbols:
    """The symbols of a module, to name new ones apart from them."""

    def __init__(self, module: ModuleOp) -> None:
        self._uses: dict[str, int] = {}
        for op in module.walk():
            match op.properties.get("sym_name"):
                case StringAttr(data=name):
                    self._uses[name] = self._uses.get(name, 0) + 1
                case _:
                    pass

    def fresh(self, name: str) -> str:
        """`name`, or with a number if it is taken."""
        free, number = name, 0
        while free in self._uses:
            number += 1
            free = f"{name}_{number}"
        self._uses[free] = 1
        return free

    def remove(self, name: str) -> None:
        """Note that a symbol of that name is no more."""
        self._uses[name] -= 1
        if not self._uses[name]:
            del self._uses[name]

    def renamed(self, name: str) -> str:
        """The name for what replaces one symbol `name`: the same, unless another symbol has it too."""
        if self._uses[name] == 1:
            return name
        self._uses[name] -= 1
        return self.fresh(name)
