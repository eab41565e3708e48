"""What operations of a kernel do to the order of accesses, as values: `verify-barriers` derives the order from them.

The simulator runs the operations themselves, so that each checks the other.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, Resource

from deplodock.dialects.interfaces import Landing, Place


class SharedMemory(Resource):
    """The shared memory of a CTA, as a resource of memory effects."""

    def name(self) -> str:
        return "<SharedMemory>"


class OrdersSharedMemory(MemoryEffect):
    """Orders all accesses to shared memory around it, which a write to all of it says."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.WRITE, None, SharedMemory())}


class OrdersMemory(MemoryEffect):
    """Orders all accesses of memory around it, which a write to all of it says."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.WRITE)}


@dataclass(frozen=True)
class Meet:
    """All threads of the CTA, or of a role, meet, or those of the whole cluster once other roles have ended.

    They see what the others did before.
    """

    is_cluster: bool = False


@dataclass(frozen=True)
class CloseGroup:
    """The thread closes the group of its asynchronous copies, products, or stores of boxes."""

    of: Landing = Landing.GROUP


@dataclass(frozen=True)
class WaitGroups:
    """The thread waits until all groups of copies, products, or stores but the `pending` last ones are over."""

    pending: int
    of: Landing = Landing.GROUP


@dataclass(frozen=True)
class FenceProxy:
    """The asynchronous proxy sees what the thread wrote before."""


@dataclass(frozen=True)
class FenceProducts:
    """Products see the registers that the thread wrote before."""


@dataclass(frozen=True)
class MakeBarriers:
    """Barriers are made, each in its first phase, which takes so many arrivals."""

    slots: int
    arrivals: int


@dataclass(frozen=True)
class Arrive:
    """The thread, or its warp once, arrives at a phase, which then expects so many bytes more."""

    barrier: SSAValue
    slot: Place
    is_warp: bool
    bytes: int


@dataclass(frozen=True)
class ArriveCopies:
    """The asynchronous copies of the thread so far arrive at a phase once they have landed."""

    barrier: SSAValue
    slot: Place


@dataclass(frozen=True)
class CompleteBytes:
    """What the operation writes lands with a phase, on which so many bytes complete; one thread issues it."""

    barrier: SSAValue
    slot: Place
    bytes: int


@dataclass(frozen=True)
class WaitPhase:
    """The thread waits for the phase of this parity, and sees what its arrivals order."""

    barrier: SSAValue
    slot: Place
    parity: Place


UsesPhase: TypeAlias = Arrive | ArriveCopies | CompleteBytes | WaitPhase
"""What advances the phases of a barrier, or waits for one."""

Order: TypeAlias = Meet | CloseGroup | WaitGroups | FenceProxy | FenceProducts | MakeBarriers | UsesPhase


class OrdersAccesses:
    """An operation that orders accesses of shared memory, or says when asynchronous ones take effect."""

    def order(self) -> Order:
        """What it does to the order."""
        raise NotImplementedError


def order_of(op: Operation) -> Order | None:
    """What one operation does to the order of accesses, None if nothing."""
    return op.order() if isinstance(op, OrdersAccesses) else None
