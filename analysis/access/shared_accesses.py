"""The accesses of shared memory that the operations of a kernel make, and pairs of them that nothing orders."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, condition_forms, forms_of
from deplodock.analysis.operations import label
from deplodock.dialects import loop
from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import Landing, accesses_of
from deplodock.dialects.kernel.order import MakeBarriers, Order, UsesPhase


@dataclass(frozen=True, eq=False)
class SharedAccess:
    """An access of a shared buffer with its subscripts as forms; or of a barrier, which has none.

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
    lands: Landing | None = None
    by_proxy: bool = False
    is_remote: bool = False
    """Whether it touches the memory of another CTA."""

    @property
    def width(self) -> int:
        """The elements along the last dimension."""
        return self.extents[-1] if self.extents else 1


@dataclass(frozen=True)
class MissingFence:
    """A write by a thread itself that the asynchronous proxy, or a product's accumulators, may not see."""

    first: SharedAccess
    second: SharedAccess

    @property
    def is_of_product(self) -> bool:
        """Whether it is a product of a warpgroup that may not see its accumulators."""
        return self.second.lands is Landing.PRODUCT and not self.second.by_proxy

    @property
    def op(self) -> Operation:
        """What may not see it."""
        return self.second.op

    def __str__(self) -> str:
        buffer = label(self.first.buffer)
        if self.is_of_product:
            return (
                f"missing fence of products: {buffer} is written by {self.first.op.name} and then used by "
                f"{self.second.op.name} with no kernel.wgmma_fence between"
            )
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
        if self.is_in_flight and self.first.lands in (Landing.PRODUCT, Landing.STORE):
            return f"{buffer} is {then} by {self.second.op.name} while {self.first.op.name} of it is in flight"
        if self.is_in_flight:
            return f"{buffer} is {then} by {self.second.op.name} while an async {self.first.op.name} to it is in flight"
        return f"{buffer} is {done} by {self.first.op.name} and then {then} by {self.second.op.name}"


@dataclass(frozen=True)
class Unfinished:
    """A store of a box that may still read shared memory when the kernel ends."""

    store: SharedAccess

    @property
    def op(self) -> Operation:
        """The store."""
        return self.store.op

    def __str__(self) -> str:
        return (
            f"unfinished store: the kernel may end while {self.op.name} still reads {label(self.store.buffer)}, "
            "with no kernel.tma_wait between; wait for its group"
        )


def ordered_accesses(op: Operation, order: Order | None, sums: Container[SSAValue] = ()) -> list[SharedAccess]:
    """The accesses of shared memory, and of accumulators of products, that one operation makes.

    What it orders may read or make a barrier with phases.
    """
    found = [
        SharedAccess(
            op,
            access.buffer,
            access.writes,
            tuple(forms_of(access.map, access.indices)),
            access.extents,
            op,
            access.lands,
            access.by_proxy,
            access.rank is not None,
        )
        for access in accesses_of(op)
        if access.memory is Memory.SHARED or access.buffer in sums
    ]
    if isinstance(order, UsesPhase):
        return [SharedAccess(op, order.barrier, False, (), (), op), *found]
    return [SharedAccess(op, op.results[0], True, (), (), op)] if isinstance(order, MakeBarriers) else found


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
