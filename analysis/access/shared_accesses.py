"""The accesses of shared memory that the operations of a kernel make, and pairs of them that nothing orders."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, condition_forms, forms_of
from deplodock.analysis.operations import label
from deplodock.dialects import kernel, loop
from deplodock.dialects.kernel.mbarrier import ArriveCopiesOp, ArriveOp, MbarrierOp, WaitPhaseOp
from deplodock.dialects.kernel.tma import TmaLoadOp
from deplodock.dialects.loop import memref_of
from deplodock.dialects.tile import Memory, memory_of


@dataclass(frozen=True, eq=False)
class SharedAccess:
    """One operation's read or write of a shared buffer: a box of elements from the subscripts on.

    A walk makes one object for equal accesses, so that they are told apart quickly.
    """

    op: Operation
    buffer: SSAValue
    writes: bool
    subscripts: tuple[Linear, ...]
    extents: tuple[int, ...]
    """The elements of the box along each dimension."""
    since: Operation
    """Where it takes effect: at the operation, or at the wait where an asynchronous copy lands."""

    @property
    def width(self) -> int:
        """The elements along the last dimension."""
        return self.extents[-1] if self.extents else 1


@dataclass(frozen=True)
class MissingFence:
    """A write of shared memory by a thread itself that a copy of a box may not see."""

    first: SharedAccess
    second: SharedAccess

    @property
    def op(self) -> Operation:
        """The copy."""
        return self.second.op

    def __str__(self) -> str:
        buffer = label(self.first.buffer)
        return (
            f"missing proxy fence: {buffer} is written by {self.first.op.name} and then used by {self.second.op.name} "
            "with no kernel.fence_proxy_async of the writing thread before it hands it over"
        )


@dataclass(frozen=True)
class Hazard:
    """Two accesses that need a barrier between them, in the order they run; or a wait, if the first is in flight."""

    first: SharedAccess
    second: SharedAccess
    is_in_flight: bool = False

    def __str__(self) -> str:
        done = "written" if self.first.writes else "read"
        then = "overwritten" if self.second.writes else "read"
        buffer = label(self.first.buffer)
        if self.is_in_flight:
            return f"{buffer} is {then} by {self.second.op.name} while an async {self.first.op.name} to it is in flight"
        return f"{buffer} is {done} by {self.first.op.name} and then {then} by {self.second.op.name}"


def shared_accesses(op: Operation) -> list[SharedAccess]:
    """The accesses of shared memory that one operation makes; one of a barrier with phases reads or makes it."""
    match op:
        case loop.LoadOp() | kernel.ClusterLoadOp():
            sides = [(op.source, False, op.map.data, op.indices, 1)]
        case loop.StoreOp():
            sides = [(op.destination, True, op.map.data, op.indices, 1)]
        case kernel.MoveOp():
            sides = [
                (op.source, False, op.source_map.data, op.source_indices, op.elements),
                (op.destination, True, op.destination_map.data, op.destination_indices, op.elements),
            ]
        case MbarrierOp():
            return [SharedAccess(op, op.result, True, (), (), op)]
        case ArriveOp() | ArriveCopiesOp() | WaitPhaseOp():
            return [SharedAccess(op, op.barrier, False, (), (), op)]
        case TmaLoadOp():
            subscripts = tuple(forms_of(op.destination_map.data, op.destination_indices))
            box = SharedAccess(op, op.destination, True, subscripts, _box(op), op)
            return [SharedAccess(op, op.barrier, False, (), (), op), box]
        case _:
            return []
    return [
        SharedAccess(op, buffer, writes, tuple(forms_of(map, indices)), _row(len(map.results), width), op)
        for buffer, writes, map, indices, width in sides
        if memory_of(buffer) is Memory.SHARED
    ]


def _row(rank: int, width: int) -> tuple[int, ...]:
    """The extents of `width` elements along the last of so many dimensions."""
    return (*[1] * (rank - 1), width) if rank else ()


def _box(op: TmaLoadOp) -> tuple[int, ...]:
    """The elements along each dimension of its destination that a box fills: the last ones of its row-major order."""
    left, extents = math.prod(op.tensor_map.extents), list[int]()
    for extent in reversed(memref_of(op.destination).get_shape()):
        extents.append(min(left, extent))
        left //= extents[-1]
    return tuple(reversed(extents))


def conditions_of(op: loop.GuardOp) -> list[Linear]:
    """The conditions of a guard as forms that are below 0 where they hold."""
    return condition_forms(op.conditions.data, op.indices)


def slot_of(form: Linear) -> Division[Linear] | None:
    """The remainder that a subscript is, if it is one of loop variables: the slot of a ring."""
    if len(form.terms) != 1 or form.constant:
        return None
    ((atom, coefficient),) = form.terms
    if not isinstance(atom, Division) or not atom.remainder or coefficient != 1:
        return None
    return atom if all(_is_loop_variable(root) for root in form.roots()) else None


def _is_loop_variable(root: SSAValue) -> bool:
    return isinstance(root, BlockArgument) and isinstance(root.block.parent_op(), loop.ForOp)
