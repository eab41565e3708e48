"""Which scans run along a coordinate, and which loops a scan runs along."""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from deplodock.dialects import loop


def scans_along(coordinate: SSAValue) -> list[loop.ScanOp]:
    """The scans that run along the variable of a loop or an axis of a launch."""
    return [use.operation for use in coordinate.uses if isinstance(use.operation, loop.ScanOp)]


def loops_of(op: loop.ScanOp) -> list[SSAValue]:
    """The variables of loops among the axes of a scan, in order."""
    return [a for a in op.axes if isinstance(a, BlockArgument) and isinstance(a.block.parent_op(), loop.LoopLike)]
