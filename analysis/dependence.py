"""What a value may vary along: the launch axes and loop variables it depends on.

A value read from memory varies along what its subscripts and the contents of the buffer vary along, a gathered index
included; a combine is uniform along the axes it folds, a reduction along its own variable. A staged slab varies along
what its origin varies along.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from deplodock.dialects import loop, tile


class Dependence:
    """The axes and loop variables each value depends on, computed once for each value.

    The sets are ordered by first appearance, so that iteration is deterministic.
    """

    def __init__(self) -> None:
        self._known: dict[SSAValue, dict[SSAValue, None]] = {}

    def of(self, *values: SSAValue) -> dict[SSAValue, None]:
        """The axes and loop variables that any of `values` depends on."""
        result: dict[SSAValue, None] = {}
        for value in values:
            if value not in self._known:
                self._known[value] = self._compute(value)
            result |= self._known[value]
        return result

    def of_op(self, op: Operation) -> dict[SSAValue, None]:
        """What an operation's execution depends on: its operands and the free values of its regions."""
        result = self.of(*op.operands)
        for region in op.regions:
            for inner in region.walk():
                result |= self.of(*inner.operands)
        bound = {argument for region in op.regions for block in region.blocks for argument in block.args}
        return without(result, bound)

    def _compute(self, value: SSAValue) -> dict[SSAValue, None]:
        if isinstance(value, BlockArgument):
            return {value: None} if is_coordinate(value) else {}
        op = value.owner
        assert isinstance(op, Operation)
        match op:
            case tile.CombineOp():
                return without(self.of(*op.inputs), set(op.axes))
            case loop.ReduceOp():
                conditions = [v for where in wheres(op.body.block) for v in where.indices]
                return without(self.of(*op.yielded, *op.bound_operands, *conditions), {op.iv})
            case loop.LoadOp() if isinstance(op.source.owner, tile.StageOp):
                return self.of(*op.indices, *op.source.owner.indices)
            case _:
                return self.of(*(operand for operand in op.operands))


def is_coordinate(value: SSAValue) -> bool:
    """Whether a value is a launch axis or the induction variable of a loop."""
    if not isinstance(value, BlockArgument) or value.type != IndexType():
        return False
    parent = value.block.parent_op()
    if isinstance(parent, loop.ReduceOp | loop.ForOp):
        return value.block is parent.body.block
    return isinstance(parent, tile.LaunchOp)


def wheres(block: Block) -> list[loop.WhereOp]:
    """The activity conditions of a loop or launch body."""
    return [op for op in block.ops if isinstance(op, loop.WhereOp)]


def without(values: Iterable[SSAValue], removed: Container[SSAValue]) -> dict[SSAValue, None]:
    """The ordered set `values` less `removed`."""
    return {value: None for value in values if value not in removed}
