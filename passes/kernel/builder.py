"""Operations that are appended to a block, with forms as maps over the values that stand there.

Combines over block axes need memory besides: the parts of CTAs, and counters by which the last one is told.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import AffineMapAttr, IndexType, LocationAttr, MemRefType, UnknownLoc
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, constant_place, extent_of, form_of_value, to_map, to_sides
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.remarks import failure

Condition = Linear
"""A condition of activity as the form `lhs - rhs`, which is below 0 where it holds."""


def require_expanded(launch: tile.LaunchOp) -> None:
    """Raises PassFailedException for a launch that is not expanded."""
    if tile.EXPANDED not in launch.attributes:
        raise failure(launch, "it is not expanded; run expand-launch first")


class ThreadBuilder:
    """Appends what one thread of an expanded launch runs."""

    def __init__(self, expanded: tile.LaunchOp) -> None:
        self.block: Block = expanded.body.block
        self.location: LocationAttr = expanded.location
        """Where the operation that is being lowered stands in the program."""
        (self.thread,) = expanded.bound_to(Binding.THREAD)
        self.threads = positive_extent(self.thread)

    def here(self, root: SSAValue) -> SSAValue | int:
        """What stands for a value or coordinate at this point."""
        return root

    def add(self, op: Operation, name: str | None = None) -> SSAValue:
        """Append an operation; returns its first result, with the name hint."""
        self.run(op)
        if op.results and name:
            op.results[0].name_hint = name
        return op.results[0]

    def run(self, op: Operation) -> None:
        """Append an operation; one that was made for the launch has the location of what is being lowered."""
        if type(op.location) is UnknownLoc:
            op.location = self.location
        self.block.add_op(op)

    def alloc(self, type: MemRefType[Attribute], name: str | None) -> SSAValue:
        """Append the allocation of a buffer on chip."""
        return self.add(kernel.AllocOp(type), name)

    def map(
        self, forms: Iterable[Linear | SSAValue], dims: Sequence[SSAValue] = ()
    ) -> tuple[AffineMap, list[SSAValue]]:
        """Forms, or the values of coordinates, as a map over the values here, and its operands.

        Where `dims` are given, these roots are the dimensions of the map and the values its symbols.
        """
        operands: dict[SSAValue, int] = {}

        def position(root: SSAValue) -> AffineExpr:
            if root in dims:
                return AffineExpr.dimension(dims.index(root))
            value = self.here(root)
            if isinstance(value, int):
                return AffineExpr.constant(value)
            place = operands.setdefault(value, len(operands))
            return AffineExpr.symbol(place) if dims else AffineExpr.dimension(place)

        exprs = tuple((form if isinstance(form, Linear) else form_of_value(form)).affine(position) for form in forms)
        return AffineMap(len(dims) or len(operands), len(operands) if dims else 0, exprs), list(operands)

    def condition_map(self, conditions: Sequence[Condition]) -> tuple[AffineMap, list[SSAValue]]:
        """Conditions as a map of sides `lhs < rhs`, constants on the right."""
        return self.map(to_sides(conditions))

    def enter_loop(self, trips: int, name: str | None, unroll: bool = True) -> BlockArgument:
        """Append a loop and emit into its body from now on; returns its variable."""
        body = Block(arg_types=[IndexType()])
        self.run(loop.ForOp(trips, Region(body), unroll=unroll))
        body.args[0].name_hint = name
        self.block = body
        return body.args[0]

    @contextmanager
    def guarded(self, conditions: Sequence[Condition]) -> Generator[None]:
        """Emit into a guard on the conditions, or in place if there are none."""
        outer = self.block
        if conditions:
            map, indices = self.condition_map(conditions)
            body = Block()
            self.run(loop.GuardOp(map, indices, Region(body)))
            self.block = body
        yield
        self.block = outer


def in_shape(
    type: MemRefType[Attribute], subscripts: Sequence[Linear], reach: Sequence[Linear] | None = None
) -> list[Condition]:
    """When subscripts lie inside a buffer, less the conditions that always hold; an unknown range is trusted.

    `reach` are forms with the values that the subscripts can have, if others than all of theirs.
    """
    conditions: list[Condition] = []
    for form, values, extent in zip(subscripts, reach or subscripts, type.get_shape(), strict=True):
        bounds = values.range()
        if bounds is None:
            continue
        if bounds[1] >= extent:
            conditions.append(form - extent)
        if bounds[0] < 0:
            conditions.append(-form - 1)
    return conditions


def digits(axes: Sequence[SSAValue], id: SSAValue) -> Iterator[tuple[SSAValue, Linear]]:
    """Each axis with its coordinate as a form of their linear id, the last axis fastest."""
    stride = 1
    forms: list[tuple[SSAValue, Linear]] = []
    for axis in reversed(axes):
        extent = positive_extent(axis)
        digit = Linear.of(id) // stride
        forms.append((axis, digit if axis is axes[0] else digit % extent))
        stride *= extent
    return reversed(forms)


def step_at(form: Linear, name: str | None = None) -> loop.IndexOp:
    """The number of a step, which stands for a loop's variable outside of it, or in another step."""
    made = loop.IndexOp(*to_map([form]))
    made.result.name_hint = name
    return made


def run_less(steps: loop.ForOp) -> None:
    """Let a loop of known trips run a step less."""
    assert steps.trips is not None
    steps.properties["bound"] = AffineMapAttr(constant_place(steps.trips - 1)[0])


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
