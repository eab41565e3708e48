"""Which functions a pass has changed, as what follows each pass (clean-up, verification) is for those alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from deplodock.analysis.operations import operands_of

_State: TypeAlias = tuple[object, tuple[SSAValue, ...], Sequence[SSAValue], dict[str, Attribute], dict[str, Attribute]]
"""An operation or block with the values that it uses or takes, its results, its attributes and its properties."""


class Changes:
    """The functions of a module as they were when they were last asked for.

    Attributes and values are never changed in place, so a function is as it was if it holds the same operations with
    the same operands, attributes and results, in the same order.
    """

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self._states: dict[Operation, list[_State]] = {}

    def take(self) -> list[Operation]:
        """The functions that have changed since the last call: at the first call, all.

        They are all as well if a name or type has changed, come or gone, as functions name each other.
        """
        before, after = self._states, {op: _state(op) for op in self.module.ops}
        self._states = after
        if before.keys() != after.keys() or any(op.properties != before[op][0][-1] for op in after):
            return list(after)
        return [op for op, state in after.items() if state != before[op]]

    def pass_over(self, functions: Iterable[Operation]) -> None:
        """Take some functions, in which nothing but operations has changed since, as they are now."""
        self._states |= {op: _state(op) for op in functions}


def _state(function: Operation) -> list[_State]:
    state: list[_State] = []
    _add(function, state)
    return state


def _add(op: Operation, state: list[_State]) -> None:
    state.append((op, operands_of(op), op.results, {**op.attributes}, {**op.properties}))
    for region in op.regions:
        for block in region.blocks:
            state.append((block, block.args, (), {}, {}))
            for inner in block.ops:
                _add(inner, state)
