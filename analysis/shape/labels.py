"""What launches of a kernel are called: by the names of what they store to and of what they reduce."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects import func, memref
from xdsl.ir import SSAValue

from deplodock.analysis.shape.nest import launches
from deplodock.dialects import loop, tile


def labels(function: func.FuncOp) -> dict[tile.LaunchOp, frozenset[str]]:
    """The labels of each launch of a function: buffers that it stores to, and results of reductions in it.

    They are the names that the IR prints, without `%`: the second reduction that is called `acc` is `acc_1`.
    """
    names = _names(function)
    found: dict[tile.LaunchOp, frozenset[str]] = {}
    for launch in launches(function):
        values: list[SSAValue] = []
        for op in launch.body.walk():
            if isinstance(op, loop.StoreOp | tile.StoreOp):
                values.append(op.destination)
            elif isinstance(op, loop.ReduceOp | tile.CombineOp):
                values += op.results
        found[launch] = frozenset(names[value] for value in values if value in names)
    return found


def _names(function: func.FuncOp) -> dict[SSAValue, str]:
    """The names of a function's buffers, reductions and combines that have one."""
    values: list[SSAValue] = [*function.body.block.args]
    for op in function.walk():
        if isinstance(op, memref.AllocOp | loop.ReduceOp | tile.CombineOp):
            values += op.results
    seen: Counter[str] = Counter()
    names: dict[SSAValue, str] = {}
    for value in values:
        if (hint := value.name_hint) is not None:
            names[value] = f"{hint}_{seen[hint]}" if seen[hint] else hint
            seen[hint] += 1
    return names
