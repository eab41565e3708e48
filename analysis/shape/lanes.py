"""Lane axes of a launch: what their carriers' threads hold.

A thread holds one value for its coordinate along a carrier. If a value varied along two axes of one carrier, the thread
would need a value for each pair of their coordinates, but has it for equal ones only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue

from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.dialects import loop, tile
from deplodock.dialects.math_ext import WithLowPartOp
from deplodock.dialects.tile import Binding


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
