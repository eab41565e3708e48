"""The memory that combines over block axes need: the parts of CTAs, and counters by which the last one is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_of
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.dialects import kernel, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class Workspace:
    """The memory of a combine: a buffer of parts for each value, [tiles, parts, ..] as `part_shape` goes on, and
    counters.
    """

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
        types = [result.type for result in op.results]
        own = part_shape([positive_extent(axis) for axis in kept], types, _size(launch.bound_to(Binding.THREAD)))
        made = [memref.AllocOp.get(type, shape=[_size(others), _size(folded), *own]) for type in types]
        for alloc, result in zip(made, op.results, strict=True):
            alloc.memref.name_hint = f"{result.name_hint or 'fold'}_part"
        counters = kernel.CountersOp(_size(others))
        counters.result.name_hint = "turns"
        added: list[Operation] = [*made, counters]
        Rewriter.insert_op(added, InsertPoint.before(launch))
        found[op] = Workspace(tuple(alloc.memref for alloc in made), counters.result)
    return found


def part_shape(extents: Sequence[int], types: Sequence[Attribute], threads: int) -> list[int]:
    """The shape of what the threads of a CTA leave of values that vary along register axes: [registers.., threads, 4].

    The values of the last axes lie side by side where they make an access of 16 bytes, the threads' behind each other.
    """
    count = packed_axes(extents, types)
    loose, packed = extents[: len(extents) - count], extents[len(extents) - count :]
    return [*loose, threads, *([math.prod(packed)] if packed else [])]


def packed_axes(extents: Sequence[int], types: Sequence[Attribute]) -> int:
    """How many of the last axes make an access of 16 bytes of values of these types; 0 where none do."""
    sizes = {element_bytes(type) for type in types}
    lanes = ACCESS_BYTES // max(sizes) if len(sizes) == 1 else 1
    count, size = 0, 1
    while size < lanes and count < len(extents):
        count, size = count + 1, size * extents[-1 - count]
    return count if size == lanes else 0


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
