"""A kernel as its free axes and the body computed at each of their points, alike at the loop and the tile level.

A launch is called by the names of what it stores to and of what it reduces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from deplodock.analysis.operations import ancestors, only_reads
from deplodock.dialects import loop, tile
from deplodock.errors import UnsupportedError


@dataclass(frozen=True)
class Nest:
    """The outer free axes of one loop nest or launch, outermost first, and the block below them."""

    axes: tuple[BlockArgument, ...]
    body: Block

    def row_loops(self) -> list[loop.LoopLike]:
        """The loops that stand directly in the body."""
        return [op for op in self.body.ops if isinstance(op, loop.LoopLike)]

    def reductions(self) -> list[loop.ReduceOp]:
        """The reductions that stand directly in the body."""
        return [op for op in self.body.ops if isinstance(op, loop.ReduceOp)]

    def folds(self) -> list[loop.LoopLike]:
        """The reductions, and the loops that scans run along, that stand directly in the body."""
        return [op for op in self.row_loops() if isinstance(op, loop.ReduceOp) or scans_along(op.iv)]


def scans_along(coordinate: SSAValue) -> list[loop.ScanOp]:
    """The scans that run along the variable of a loop or an axis of a launch."""
    return [use.operation for use in coordinate.uses if isinstance(use.operation, loop.ScanOp)]


def loops_of(op: loop.ScanOp) -> list[SSAValue]:
    """The variables of loops among the axes of a scan, in order."""
    return [a for a in op.axes if isinstance(a, BlockArgument) and isinstance(a.block.parent_op(), loop.LoopLike)]


def kernels(module: ModuleOp) -> list[func.FuncOp]:
    """The functions that hold a kernel at loop or tile level, in order.

    Raises UnsupportedError for one of several blocks.
    """
    found = [op for op in module.ops if is_kernel(op)]
    if (jumping := next((function for function in found if len(function.body.blocks) != 1), None)) is not None:
        raise UnsupportedError(f"@{jumping.sym_name.data} has several blocks; a kernel is one block of loops")
    return found


_OF_KERNELS = loop.LoopLike | loop.StoreOp | tile.LaunchOp
"""What a kernel has at loop or tile level."""


def is_kernel(op: Operation) -> TypeGuard[func.FuncOp]:
    """Whether an operation is a function that holds a kernel at loop or tile level."""
    return isinstance(op, func.FuncOp) and any(isinstance(inner, _OF_KERNELS) for inner in op.walk())


def kernel_of(op: Operation) -> str:
    """The name of the function that an operation is, or is in; ? if it is in none."""
    around = (op, *ancestors(op))
    return next((function.sym_name.data for function in around if isinstance(function, func.FuncOp)), "?")


def launches(function: func.FuncOp) -> list[tile.LaunchOp]:
    """The launches of a function, in order."""
    return [op for op in function.body.ops if isinstance(op, tile.LaunchOp)]


def nests(function: func.FuncOp) -> Iterator[Nest]:
    """The nests of a kernel function: one a launch, or that of its loops where nothing is launched yet."""
    if found := launches(function):
        yield from map(launch_nest, found)
    else:
        yield loop_nest(function.body.block)


def launch_nest(launch: tile.LaunchOp) -> Nest:
    """The axes and the body of a launch."""
    return Nest(tuple(launch.axes), launch.body.block)


def side_by_side(function: func.FuncOp) -> list[Nest]:
    """The nests that are launches or, where nothing is launched yet, become one each."""
    if launches(function):
        return list(nests(function))
    block = function.body.block
    return [_peeled(block, body) for body in launch_bodies(list(block.ops)[:-1])]


def loop_nest(block: Block) -> Nest:
    """Peel the perfectly nested free loops off a block: each is alone in its block, but for reads and scalars.

    A loop that a scan runs along is no free one.
    """
    return _peeled(block, block.ops)


def _peeled(block: Block, ops: Iterable[Operation]) -> Nest:
    """The nest of some operations of a block."""
    axes: list[BlockArgument] = []
    while (inner := only_loop(ops)) is not None and not scans_along(inner.iv):
        axes.append(inner.iv)
        block = inner.body.block
        ops = block.ops
    return Nest(tuple(axes), block)


def launch_bodies(ops: Sequence[Operation]) -> list[list[Operation]]:
    """What each launch computes: nests that share no reduction get one each, with the reads and scalars they use.

    All that needs no loop is one launch.
    """
    writers = [op for op in ops if not only_reads(op)]
    groups: list[set[Operation]] = []
    for used in (_closure(op, ops) for op in writers):
        shared = [group for group in groups if _has_loops(group & used) or not (_has_loops(group) or _has_loops(used))]
        groups = [group for group in groups if group not in shared] + [used.union(*shared)]
    if len(groups) < 2:
        return [list(ops)]
    bodies = [[op for op in ops if op in group] for group in groups]
    return sorted(bodies, key=lambda body: ops.index(next(op for op in body if op in writers)))


def _has_loops(ops: Iterable[Operation]) -> bool:
    return any(op.regions for op in ops)


def _closure(op: Operation, ops: Sequence[Operation]) -> set[Operation]:
    """An operation with those among `ops` that it is computed from."""
    found: set[Operation] = set()
    pending = [op]
    while pending:
        current = pending.pop()
        if current in found:
            continue
        found.add(current)
        owners = {value.owner for inner in current.walk() for value in inner.operands}
        pending += [other for other in ops if other in owners]
    return found


def only_loop(ops: Iterable[Operation]) -> loop.ForOp | None:
    """The free loop that is alone among operations, but for reads, scalars and the terminator; else None."""
    found: loop.ForOp | None = None
    for op in ops:
        if isinstance(op, loop.ForOp) and found is None:
            found = op
        elif not op.has_trait(IsTerminator) and (op.regions or not only_reads(op)):
            return None
    return found


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
