"""What a value may vary along: the launch axes and loop variables it depends on.

A value read from memory varies along what its subscripts and the contents of the buffer vary along, a gathered index
included; a combine is uniform along the axes it folds, a reduction along its own variable, a scan varies along its
axes, and all vary along what decides which of their points are active. A contract folds all points of its axes. A
staged slab, or a slot of a ring, varies along what its origin varies along, and a kept one along what differs between
CTAs and iterations.

Two values are alike if they are the same function of loop variables that stand for each other. A lane axis shares the
threads of its carrier: a thread holds one value for its coordinate along a carrier. If a value varied along two axes of
one carrier, the thread would need a value for each pair of their coordinates, but has it for equal ones only.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from deplodock.analysis.affine.linear import (
    Linear,
    bounds_of,
    condition_of,
    equal,
    extent_or_one,
    form_of_value,
    subscripts_of,
)
from deplodock.analysis.operations import label
from deplodock.dialects import loop, tile
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.math_ext import WithLowPartOp
from deplodock.dialects.tile import Binding


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

    def _compute(self, value: SSAValue) -> dict[SSAValue, None]:
        if isinstance(value, BlockArgument):
            return {value: None} if is_coordinate(value) else self._of_argument(value)
        op = value.owner
        assert isinstance(op, Operation)
        match op:
            case tile.CombineOp():
                found = self.of(*op.inputs, *self._activity(op), *op.place_axes)
                return without(found, {*op.axes, *op.moved})
            case loop.ScanOp():
                return self.of(*op.inputs, *op.axes, *self._activity(op))
            case tile.ContractOp():
                return without(self.of(*op.lhs, *op.rhs, *op.place_axes), {*op.axes, *op.moved})
            case loop.ReduceOp():
                conditions = [v for where in wheres(op.body.block) for v in where.indices]
                yielded = [op.yielded[place] for place in _folded_into(op, op.results.index(value))]
                return without(self.of(*yielded, *op.bound_operands, *conditions), {op.iv})
            case loop.LoadOp() if isinstance(op.source.owner, tile.StageOp):
                return self.of(*op.indices, *op.source.owner.indices)
            case loop.LoadOp() if isinstance(kept := op.source.owner, tile.KeepOp):
                found = self.of(kept.value, *kept.indices)
                return self.of(*op.indices) | {value: None for value in found if not _is_within_cta(value)}
            case loop.LoadOp() if isinstance(op.source.owner, tile.AllocOp):
                return self.of(*op.indices) | self._of_copies(op)
            case _:
                return self.of(*(operand for operand in op.operands))

    def _of_argument(self, value: BlockArgument) -> dict[SSAValue, None]:
        """What an accumulator of a reduction's combiner, or a value that it takes, depends on.

        At points that the conditions of the loop leave out it takes the identity.
        """
        op = value.block.parent_op()
        if not isinstance(op, loop.ReduceOp) or value.block is not op.combiner.block:
            return {}
        if value.index < (count := len(op.results)):
            return self.of(op.results[value.index])
        conditions = [v for where in wheres(op.body.block) for v in where.indices]
        return self.of(op.yielded[value.index - count], *conditions)

    def _of_copies(self, op: loop.LoadOp) -> dict[SSAValue, None]:
        """What the copies that fill the slots read by a load depend on, less the variables of loops of their own."""
        copies = [use.operation for use in op.source.uses if isinstance(use.operation, tile.CopyOp)]
        found = self.of(*(index for copy in copies for index in copy.indices))
        return {value: None for value in found if _is_around(value, op)}

    def _activity(self, op: AxisFold) -> list[SSAValue]:
        """The indices of the conditions that decide which points of its axes an operation folds."""
        found: list[SSAValue] = []
        parent = op.parent_op()
        while isinstance(parent, loop.LoopLike | tile.LaunchOp):
            for where in wheres(parent.body.block):
                if any(axis in self.of(*where.indices) for axis in op.axes):
                    found += where.indices
            parent = parent.parent_op()
        return found


def _folded_into(op: loop.ReduceOp, result: int) -> list[int]:
    """The places of the values that a reduction folds into a result, as its combiner computes it from them."""
    block, count, found = op.combiner.block, len(op.results), {result}
    if count == 1 or block.last_op is None:
        return [result]
    folded = block.last_op.operands
    pending = [folded[result]]
    while pending:
        value = pending.pop()
        if isinstance(value, OpResult) and value.op.parent is block:
            pending += value.op.operands
        elif isinstance(value, BlockArgument) and value.block is block and (place := value.index % count) not in found:
            found.add(place)
            pending.append(folded[place])
    return sorted(found)


def _is_within_cta(coordinate: SSAValue) -> bool:
    """Whether a coordinate is that of an axis along which one CTA has several points."""
    assert isinstance(coordinate, BlockArgument)
    launch = coordinate.block.parent_op()
    return isinstance(launch, tile.LaunchOp) and coordinate not in launch.ctas


def varying_bound(op: loop.LoopLike) -> loop.LoopLike | None:
    """The first loop inside a loop whose bound depends on the outer variable, or None."""
    return bound_along(op.iv, op.body)


def bound_along(coordinate: SSAValue, body: Region) -> loop.LoopLike | None:
    """The first loop of a region whose bound depends on a coordinate, or None."""
    dependence = Dependence()
    for inner in body.walk():
        if isinstance(inner, loop.LoopLike) and coordinate in dependence.of(*inner.bound_operands):
            return inner
    return None


def _is_around(coordinate: SSAValue, op: Operation) -> bool:
    """Whether an operation stands inside the loop or launch of a coordinate."""
    assert isinstance(coordinate, BlockArgument)
    owner = coordinate.block.parent_op()
    return owner is not None and owner.is_ancestor(op)


def is_coordinate(value: SSAValue) -> bool:
    """Whether a value is a launch axis or the induction variable of a loop."""
    if not isinstance(value, BlockArgument) or value.type != IndexType():
        return False
    parent = value.block.parent_op()
    if isinstance(parent, loop.LoopLike):
        return value.block is parent.body.block
    return isinstance(parent, tile.LaunchOp)


def wheres(block: Block) -> list[loop.WhereOp]:
    """The activity conditions of a loop or launch body."""
    return [op for op in block.ops if isinstance(op, loop.WhereOp)]


def without(values: Iterable[SSAValue], removed: Container[SSAValue]) -> dict[SSAValue, None]:
    """The ordered set `values` less `removed`."""
    return {value: None for value in values if value not in removed}


def alike(a: SSAValue, b: SSAValue, variables: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether `a` is what `b` is where the variables of `a`, the keys, are those of `b`, the values.

    Reads, scalars and reductions are followed; what an operation without them gives is itself alone.
    """
    if isinstance(a.type, IndexType) and isinstance(b.type, IndexType):
        return alike_forms([form_of_value(a)], [form_of_value(b)], variables)
    if a is b or not (isinstance(a.owner, Operation) and isinstance(b.owner, Operation)):
        return a is b
    one, other = a.owner, b.owner
    if type(one) is not type(other) or one.results.index(a) != other.results.index(b):
        return False
    if isinstance(one, loop.ReduceOp) and isinstance(other, loop.ReduceOp):
        inner = {**variables, one.iv: other.iv}
        place = one.results.index(a)
        return alike_loops(one, other, variables) and alike(one.yielded[place], other.yielded[place], inner)
    if one.regions:
        return False
    if isinstance(one, loop.LoadOp) and isinstance(other, loop.LoadOp):
        same = one.source is other.source and one.padded == other.padded
        return same and alike_forms(subscripts_of(one), subscripts_of(other), variables)
    same = (one.properties, one.attributes) == (other.properties, other.attributes)
    same = same and len(one.operands) == len(other.operands)
    return same and all(alike(x, y, variables) for x, y in zip(one.operands, other.operands, strict=True))


def alike_loops(a: loop.ReduceOp, b: loop.ReduceOp, variables: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether two reductions run at the same points, under the same conditions, and fold one value alike."""
    inner = {**variables, a.iv: b.iv}
    conditions, others = ([condition_of(where) for where in wheres(op.body.block)] for op in (a, b))
    return (
        len(a.results) == len(b.results) == 1
        and a.identities == b.identities
        and a.combiner.is_structurally_equivalent(b.combiner)
        and alike_forms(bounds_of(a), bounds_of(b), variables)
        and alike_forms(conditions, others, inner)
    )


def alike_forms(a: Sequence[Linear], b: Sequence[Linear], variables: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether forms of the variables of the one, the keys, are those of the other, the values."""
    renamed = list(a)
    for old, new in variables.items():
        renamed = [form.substitute(old, Linear.of(new)) for form in renamed]
    return len(a) == len(b) and all(equal(x, y) for x, y in zip(renamed, b, strict=True))


@dataclass(frozen=True)
class LaneFault:
    """An operation that the threads of a carrier cannot run, and why."""

    op: Operation
    reason: str


def carried(launch: tile.LaunchOp, form: Linear) -> Linear:
    """A form as a thread computes it: each lane axis has the coordinate of its carrier."""
    for lane, carrier in launch.carried_axes().items():
        form = form.substitute(lane, Linear.of(carrier))
    return form


def thread_strides(launch: tile.LaunchOp) -> dict[SSAValue, int]:
    """How far apart neighbours along each thread axis are in the number of a thread, the fastest axis first."""
    strides, stride = dict[SSAValue, int](), 1
    for axis in reversed(launch.bound_to(Binding.THREAD)):
        strides[axis] = stride
        stride *= extent_or_one(axis)
    return strides


def place_among_threads(launch: tile.LaunchOp, axis: SSAValue) -> tuple[int, int] | None:
    """How many threads neighbours along an axis are apart, and how many there are; None of an axis of no threads.

    A lane axis has the place of its carrier.
    """
    axis = launch.carried_axes().get(axis, axis)
    stride = thread_strides(launch).get(axis)
    return None if stride is None else (stride, extent_or_one(axis))


def lane_faults(launch: tile.LaunchOp) -> Iterator[LaneFault]:
    """The operations of a launch whose values vary along two axes of one carrier, in order.

    The factors and the result of a contract may vary along different ones, each held by its threads; so may what a
    combine folds and where it takes the fold.
    """
    if not (carriers := launch.carried_axes()):
        return
    dependence = Dependence()
    for op in launch.body.walk():
        if isinstance(op, loop.IndexOp) or (op.regions and not op.results):
            continue
        for values in _held_at_once(op):
            if (pair := siblings(dependence.of(*values), carriers)) is not None:
                axes = f"{label(pair[0])} and {label(pair[1])}"
                yield LaneFault(op, f"its values vary along {axes}, which share their threads")


def _held_at_once(op: Operation) -> list[Sequence[SSAValue]]:
    """The values of an operation that a thread holds for the same coordinates."""
    match op:
        case tile.ContractOp():
            return [op.results]
        case tile.CombineOp() if op.moved:
            return [op.inputs, op.results]
        case _:
            return [[*op.operands, *op.results]]


def readers_of(load: loop.LoadOp) -> list[Operation]:
    """What reads the buffer of a load in a launch: the load, or contracts whose engine does in its place."""
    roots = [root for form in subscripts_of(load) for root in form.roots()]
    if not any(isinstance(root, BlockArgument) and _is_unheld(root) for root in roots):
        return [load]
    return [use.operation for use in load.result.uses]


def _is_unheld(root: BlockArgument) -> bool:
    launch = root.block.parent_op()
    return isinstance(launch, tile.LaunchOp) and launch.binding(root) is Binding.ENGINE


def engine_faults(launch: tile.LaunchOp) -> Iterator[LaneFault]:
    """The operations whose values vary along an engine axis, though a thread must hold them, in order.

    A load of a slab may, where contracts alone use it, by itself or with its low part; and an index, where such loads
    do.
    """
    unheld = launch.bound_to(Binding.ENGINE)
    if not unheld:
        return
    dependence = Dependence()
    for op in launch.body.walk():
        found = dependence.of(*op.operands, *op.results)
        axis = next((axis for axis in unheld if axis in found), None)
        users = [use.operation for result in op.results for use in result.uses]
        is_read = isinstance(op, loop.LoadOp | WithLowPartOp) and all(
            isinstance(user, tile.ContractOp | WithLowPartOp) for user in users
        )
        if axis is not None and not (is_read or isinstance(op, loop.IndexOp | tile.ContractOp) or op.regions):
            yield LaneFault(op, f"its values vary along {label(axis)}, whose coordinates no thread holds")


def siblings(axes: Iterable[SSAValue], carriers: Mapping[SSAValue, SSAValue]) -> tuple[SSAValue, SSAValue] | None:
    """Two of some axes that one axis runs, by the carriers of lane axes, or None."""
    first: dict[SSAValue, SSAValue] = {}
    for axis in axes:
        other = first.setdefault(carriers.get(axis, axis), axis)
        if other is not axis:
            return other, axis
    return None
