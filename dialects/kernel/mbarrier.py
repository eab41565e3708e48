"""Barriers in shared memory that complete in phases: `mbarrier` of the PTX ISA (sm_80, `expect` sm_90).

    %full = kernel.mbarrier 3 arrivals 256
    %empty = kernel.mbarrier 3 arrivals 8
    kernel.wait_phase %empty[%k mod 3], %k floordiv 3 mod 2 + 1
    kernel.move 4 async ..
    kernel.arrive_copies %full[%k mod 3]
    kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2
    ..
    kernel.arrive warp %empty[%k mod 3]

A phase of a barrier completes once `arrivals` arrivals and all expected bytes have come, and the next one begins. What
a thread did before it arrived is seen by the threads that wait for that phase.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, UnitAttr, i64
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_map
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import AllocatesResult, Collective, Feature, NeedsFeature, Place
from deplodock.dialects.kernel.order import (
    Arrive,
    ArriveCopies,
    MakeBarriers,
    OrdersAccesses,
    OrdersSharedMemory,
    WaitPhase,
)

MAX_ARRIVALS = (1 << 20) - 1
"""The most arrivals of a phase, and the most bytes that it can expect (PTX ISA, `mbarrier`)."""


@irdl_attr_definition
class MbarrierType(ParametrizedAttribute, TypeAttribute):
    """`!kernel.mbarrier`: some barriers in the shared memory of a CTA, told apart by a subscript."""

    name = "kernel.mbarrier"


@op_definition
class MbarrierOp(IRDLOperation, OrdersAccesses, NeedsFeature):
    """A number of barriers, each in its first phase; one thread initialises them, so a kernel.barrier must follow.

    %full = kernel.mbarrier 3 arrivals 129
    """

    name = "kernel.mbarrier"
    slots = prop_def(IntegerAttr.constr(i64))
    arrivals = prop_def(IntegerAttr.constr(i64))
    result = result_def(MbarrierType)
    traits = traits_def(AllocatesResult(), OrdersSharedMemory(), Collective())
    assembly_format = "$slots `arrivals` $arrivals attr-dict"

    def __init__(self, slots: int, arrivals: int):
        super().__init__(
            properties={"slots": IntegerAttr(slots, i64), "arrivals": IntegerAttr(arrivals, i64)},
            result_types=[MbarrierType()],
        )

    def order(self) -> MakeBarriers:
        """The barriers are made."""
        return MakeBarriers(self.slots.value.data, self.arrivals.value.data)

    def needs(self) -> Feature:
        """Barriers with phases."""
        return Feature.PHASES

    def verify_(self) -> None:
        if self.slots.value.data < 1:
            raise VerifyException(f"there must be at least one barrier, got {self.slots.value.data}")
        if not 1 <= self.arrivals.value.data <= MAX_ARRIVALS:
            raise VerifyException(f"a phase takes 1 to {MAX_ARRIVALS} arrivals, got {self.arrivals.value.data}")


def mbarrier_of(barrier: SSAValue) -> MbarrierOp:
    """The operation that makes a barrier. Raises VerifyException if no kernel.mbarrier does."""
    if not isinstance(barrier.owner, MbarrierOp):
        raise VerifyException("the barrier must be the result of a kernel.mbarrier")
    return barrier.owner


def verify_slot(barrier: SSAValue, slot: Place) -> None:
    """Check the subscript of a barrier. Raises VerifyException."""
    verify_map("the subscript of the barrier", *slot, results=1)
    mbarrier_of(barrier)


@op_definition
class ArriveOp(IRDLOperation, OrdersAccesses, NeedsFeature):
    """One arrival of this thread; with `warp` the lanes of a warp meet and one arrives for all of them.

    `expect` adds bytes that must also come before the phase completes.

        kernel.arrive %full[%k mod 3] expect 16384
        kernel.arrive warp %empty[%k mod 3]
    """

    name = "kernel.arrive"
    barrier = operand_def(MbarrierType)
    slot_indices = var_operand_def(IndexType)
    slot = prop_def(AffineMapAttr)
    expect = opt_prop_def(IntegerAttr.constr(i64))
    is_warp = opt_prop_def(UnitAttr, prop_name="warp")
    traits = traits_def(OrdersSharedMemory())
    assembly_format = "(`warp` $warp^)? $barrier custom<Subscript>($slot_indices, $slot) (`expect` $expect^)? attr-dict"

    def __init__(self, barrier: SSAValue, slot: Place, *, is_warp: bool = False, expect: int | None = None):
        super().__init__(
            operands=[barrier, slot[1]],
            properties={
                "slot": AffineMapAttr(slot[0]),
                "warp": UnitAttr() if is_warp else None,
                "expect": None if expect is None else IntegerAttr(expect, i64),
            },
        )

    def order(self) -> Arrive:
        """The thread, or its warp, arrives."""
        bytes = 0 if self.expect is None else self.expect.value.data
        return Arrive(self.barrier, (self.slot.data, self.slot_indices), bool(self.is_warp), bytes)

    def needs(self) -> Feature | None:
        """Phases that expect bytes, if it does."""
        return None if self.expect is None else Feature.EXPECTED_BYTES

    def verify_(self) -> None:
        verify_slot(self.barrier, (self.slot.data, self.slot_indices))
        if self.expect is not None and not 1 <= self.expect.value.data <= MAX_ARRIVALS:
            raise VerifyException(f"a phase expects 1 to {MAX_ARRIVALS} bytes, got {self.expect.value.data}")


def arrival_of_warp(barrier: SSAValue, slot: Place) -> ArriveOp:
    """One arrival for each warp that comes here."""
    return ArriveOp(barrier, slot, is_warp=True)


@op_definition
class ArriveCopiesOp(IRDLOperation, OrdersAccesses):
    """One arrival for this thread, once all asynchronous moves that it has issued so far have landed.

    Only those moves are ordered before the phase, not what else the thread did.

        kernel.arrive_copies %full[%k mod 3]
    """

    name = "kernel.arrive_copies"
    barrier = operand_def(MbarrierType)
    slot_indices = var_operand_def(IndexType)
    slot = prop_def(AffineMapAttr)
    traits = traits_def(OrdersSharedMemory(), Collective())
    assembly_format = "$barrier custom<Subscript>($slot_indices, $slot) attr-dict"

    def __init__(self, barrier: SSAValue, slot: Place):
        super().__init__(operands=[barrier, slot[1]], properties={"slot": AffineMapAttr(slot[0])})

    def order(self) -> ArriveCopies:
        """The copies of the thread arrive."""
        return ArriveCopies(self.barrier, (self.slot.data, self.slot_indices))

    def verify_(self) -> None:
        verify_slot(self.barrier, (self.slot.data, self.slot_indices))


@op_definition
class WaitPhaseOp(IRDLOperation, OrdersAccesses):
    """Waits until the current or the last phase with this parity has completed; the first phase has parity 0.

    Parities count modulo 2. A wait for parity 1 of a barrier in its first phase does not wait.

        kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2
    """

    name = "kernel.wait_phase"
    barrier = operand_def(MbarrierType)
    slot_indices = var_operand_def(IndexType)
    parity_indices = var_operand_def(IndexType)
    slot = prop_def(AffineMapAttr)
    parity = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(OrdersSharedMemory())
    assembly_format = (
        "$barrier custom<Subscript>($slot_indices, $slot) `,` custom<Index>($parity_indices, $parity) attr-dict"
    )

    def __init__(self, barrier: SSAValue, slot: Place, parity: Place):
        super().__init__(
            operands=[barrier, slot[1], parity[1]],
            properties={"slot": AffineMapAttr(slot[0]), "parity": AffineMapAttr(parity[0])},
        )

    def order(self) -> WaitPhase:
        """The thread waits."""
        slot, parity = (self.slot.data, self.slot_indices), (self.parity.data, self.parity_indices)
        return WaitPhase(self.barrier, slot, parity)

    def verify_(self) -> None:
        verify_slot(self.barrier, (self.slot.data, self.slot_indices))
        verify_map("the parity", self.parity.data, self.parity_indices, results=1)
