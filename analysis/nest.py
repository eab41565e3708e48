"""A kernel as its free axes and the body computed at each of their points, alike at the loop and the tile level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument
from xdsl.traits import IsTerminator

from deplodock.analysis.effects import only_reads
from deplodock.dialects import loop, tile
from deplodock.errors import UnsupportedError


@dataclass(frozen=True)
class Nest:
    """The outer free axes of one loop nest or launch, outermost first, and the block below them."""

    axes: tuple[BlockArgument, ...]
    body: Block

    def row_loops(self) -> list[loop.ForOp | loop.ReduceOp]:
        """The loops that stand directly in the body."""
        return [op for op in self.body.ops if isinstance(op, loop.ForOp | loop.ReduceOp)]

    def reductions(self) -> list[loop.ReduceOp]:
        """The reductions that stand directly in the body."""
        return [op for op in self.body.ops if isinstance(op, loop.ReduceOp)]


def kernels(module: ModuleOp) -> list[func.FuncOp]:
    """The functions that hold a kernel at loop or tile level, in order.

    Raises UnsupportedError for one of several blocks.
    """
    found = [
        op
        for op in module.ops
        if isinstance(op, func.FuncOp)
        and any(isinstance(inner, loop.ForOp | loop.ReduceOp | loop.StoreOp | tile.LaunchOp) for inner in op.walk())
    ]
    if (jumping := next((function for function in found if len(function.body.blocks) != 1), None)) is not None:
        raise UnsupportedError(f"@{jumping.sym_name.data} has several blocks; a kernel is one block of loops")
    return found


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


def loop_nest(block: Block) -> Nest:
    """Peel the perfectly nested free loops off a block: each is alone in its block, but for reads and scalars."""
    axes: list[BlockArgument] = []
    while (inner := only_loop(block)) is not None:
        axes.append(inner.iv)
        block = inner.body.block
    return Nest(tuple(axes), block)


def only_loop(block: Block) -> loop.ForOp | None:
    """The free loop that is alone in its block, but for reads, scalars and the terminator; else None."""
    found: loop.ForOp | None = None
    for op in block.ops:
        if isinstance(op, loop.ForOp) and found is None:
            found = op
        elif not op.has_trait(IsTerminator) and (op.regions or not only_reads(op)):
            return None
    return found
