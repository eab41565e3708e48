"""The memory that combines over block axes need: the parts of CTAs, and counters by which the last one is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import extent_of
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.dialects import kernel, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.failures import failure


@dataclass(frozen=True)
class Workspace:
    """The memory of a combine: a buffer of parts for each value, [tiles, parts, registers.., threads], and counters."""

    parts: tuple[SSAValue, ...]
    counters: SSAValue


def allocate(launch: tile.LaunchOp, function: func.FuncOp) -> dict[tile.CombineOp, Workspace]:
    """Allocate before a launch what its combines over block axes need.

    Raises PassFailedException if a combine over CTAs stands in a loop or extents are not constant.
    """
    found: dict[tile.CombineOp, Workspace] = {}
    for op in launch.body.walk():
        if not isinstance(op, tile.CombineOp) or not any(axis in op.axes for axis in launch.ctas):
            continue
        if op.parent_op() is not launch:
            raise failure(op, "a combine over block axes stands in a loop; it must stand in the launch itself")
        if not (folded := blocks_of(op, launch)):
            continue
        others = [axis for axis in launch.ctas if axis not in folded]
        depends = Dependence().of(*op.results)
        kept = [axis for axis in launch.bound_to(Binding.REGISTER) if axis in depends]
        shape = [_size(others), _size(folded), *map(positive_extent, kept), _size(launch.bound_to(Binding.THREAD))]
        made = [memref.AllocOp.get(result.type, shape=shape) for result in op.results]
        for alloc, result in zip(made, op.results, strict=True):
            alloc.memref.name_hint = f"{result.name_hint or 'fold'}_part"
        counters = kernel.CountersOp(_size(others))
        counters.result.name_hint = "turns"
        added: list[Operation] = [*made, counters]
        Rewriter.insert_op(added, InsertPoint.before(launch))
        found[op] = Workspace(tuple(alloc.memref for alloc in made), counters.result)
    return found


def blocks_of(op: tile.CombineOp, launch: tile.LaunchOp) -> list[BlockArgument]:
    """The block axes that a combine folds, in the launch's order."""
    return [axis for axis in launch.bound_to(Binding.BLOCK) if axis in op.axes]


def cluster_of(op: tile.CombineOp, launch: tile.LaunchOp) -> list[BlockArgument]:
    """The cluster axes of a combine over them: all of the launch.

    Raises PassFailedException if it folds some of them only, or block axes besides.
    """
    ranks = launch.bound_to(Binding.CLUSTER)
    found = [axis for axis in ranks if axis in op.axes]
    if found and (len(found) < len(ranks) or blocks_of(op, launch)):
        raise failure(op, "a combine over a cluster folds all its axes, and no block axes besides")
    return found


def _size(axes: Sequence[SSAValue]) -> int:
    return math.prod(map(positive_extent, axes))


def positive_extent(axis: SSAValue) -> int:
    """The extent of an axis or loop, at least 1. Raises PassFailedException if it is not constant."""
    return max(constant_extent(axis), 1)


def constant_extent(axis: SSAValue) -> int:
    """The extent of an axis or loop. Raises PassFailedException if it is not constant."""
    if (extent := extent_of(axis)) is None:
        owner = axis.owner.parent_op() if isinstance(axis.owner, Block) else axis.owner
        assert owner is not None
        raise failure(owner, f"the extent of axis {label(axis)} is not constant; only constant extents are lowered")
    return extent
