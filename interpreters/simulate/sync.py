"""Operations on barriers with phases: their checks and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.machine.targets import WARP
from deplodock.dialects.kernel.mbarrier import ArriveCopiesOp, ArriveOp, MbarrierOp, WaitPhaseOp, mbarrier_of
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.flight import Copies
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep, Unit
from deplodock.interpreters.simulate.phases import Barrier, Phases
from deplodock.interpreters.simulate.roles import Roles
from deplodock.interpreters.values import Array

_Use: TypeAlias = ArriveOp | ArriveCopiesOp | WaitPhaseOp
"""The operations on barriers with phases that have been made; what copies complete on them comes from elsewhere."""


class SyncUnit(Unit):
    """The barriers with phases of the CTAs that run together."""

    def __init__(self, launch: Lockstep) -> None:
        self._memory = launch.memory
        self._report = launch.report
        self._check = launch.check
        self._roles = launch.unit(Roles)

    def initialise(self, op: MbarrierOp, frame: Frame) -> None:
        """Make barriers, each in its first phase."""
        slots, arrivals, ctas = op.slots.value.data, op.arrivals.value.data, all_lanes(frame).any(axis=1)
        if self._phases.initialise(op, slots, arrivals, np.asarray(ctas)):
            self._add(
                kinds.UNINITIALISED_BARRIER,
                op,
                lambda: "the barriers are made again while threads may use them; a kernel.barrier must come before",
            )

    def arrive(self, op: ArriveOp, frame: Frame, slot: Array) -> None:
        """Let lanes arrive, or the warps that they make."""
        barrier, lanes = self._barrier(op, op.barrier), all_lanes(frame)
        self._memory.tell(Check.on_arrive, lanes)
        bytes = 0 if op.expect is None else op.expect.value.data
        for cta, number, here in self._rows(op, barrier, lanes, slot):
            threads = np.flatnonzero(here)
            count = len(threads)
            if op.is_warp:
                count = len(np.unique(threads // WARP))
                self._check_warps(op, here)
            self._phases.arrive(barrier, cta, number, here, count, bytes * count)
        self._complete(barrier)

    def arrive_copies(self, op: ArriveCopiesOp, frame: Frame, slot: Array) -> None:
        """Let the copies of lanes arrive once they land."""
        barrier, lanes = self._barrier(op, op.barrier), all_lanes(frame)
        for cta, number, here in self._rows(op, barrier, lanes, slot):
            phase = int(barrier.completed[cta, number])
            self._memory.flight.arrive(mbarrier_of(op.barrier), number, self._in_ctas(cta) & here, phase)
            self._phases.arrive_copies(barrier, cta, number, here)
        self._complete(barrier)

    def signal(self, op: Operation, made: SSAValue, frame: Frame, slot: Array, copies: Copies, bytes: int) -> None:
        """Let the boxes that lanes copy land with the current phase of a barrier, and their bytes complete on it."""
        barrier, lanes = self._barrier(op, made), all_lanes(frame)
        if not barrier.is_fenced:
            self._add(
                kinds.MISSING_FENCE,
                op,
                lambda: (
                    f"copies may not see {self._name(barrier)} initialised; a kernel.fence_proxy_async must follow "
                    "that, before the kernel.barrier"
                ),
            )
        for cta, number, here in self._rows(op, barrier, lanes, slot):
            phase = int(barrier.completed[cta, number])
            issued = self._in_ctas(cta).reshape(-1)[copies.cta] & here[copies.thread]
            self._memory.flight.issue_to(mbarrier_of(made), number, copies.of(issued), phase)
            self._phases.complete_bytes(barrier, cta, number, here, bytes)
        self._complete(barrier)

    def wait(self, op: WaitPhaseOp, frame: Frame, slot: Array, parity: Array) -> None:
        """Let lanes wait for the phase with a parity; what its arrivals order has happened for them."""
        barrier, lanes = self._barrier(op, op.barrier), all_lanes(frame)
        parity = np.broadcast_to(parity, lanes.shape) % 2

        def is_over() -> bool:
            rows = self._rows(op, barrier, lanes, slot)
            return all(barrier.completed[cta, number] % 2 != parity[cta][np.argmax(here)] for cta, number, here in rows)

        self._roles.wait(op, is_over)
        for cta, number, here in self._rows(op, barrier, lanes, slot):
            completed = int(barrier.completed[cta, number])
            wanted = int(parity[cta][np.argmax(here)])
            if completed % 2 == wanted:
                self._report_incomplete(op, barrier, cta, number)
                self._roles.end()
            elif barrier.meet(op, cta, number, here):
                self._report_again(op, barrier, cta, number, wanted)
            self._phases.wait(barrier, cta, number, here)
            ctas = self._in_ctas(cta)
            landed = self._memory.flight.land_phases(mbarrier_of(op.barrier), number, ctas.reshape(-1), completed)
            self._memory.land(landed, bool(ctas.all()))

    def _complete(self, barrier: Barrier) -> None:
        """Complete the phases for which all has come, and let those go on who wait for them."""
        barrier.complete()
        self._roles.give_way()

    @property
    def _phases(self) -> Phases:
        assert self._memory.phases is not None
        return self._memory.phases

    def _barrier(self, op: Operation, made: SSAValue) -> Barrier:
        barrier = self._phases.barriers[mbarrier_of(made)]
        if not barrier.is_visible:
            self._add(
                kinds.UNINITIALISED_BARRIER,
                op,
                lambda: (
                    f"other threads may not see {self._name(barrier)} initialised; a kernel.barrier must come before"
                ),
            )
        barrier.is_used = True
        return barrier

    def _rows(self, op: Operation, barrier: Barrier, lanes: Array, slot: Array) -> list[tuple[int, int, Array]]:
        """The CTAs, slots and lanes of an operation, without those whose slot is none of the barriers."""
        slot, slots = np.broadcast_to(slot, lanes.shape), barrier.arrived.shape[1]
        outside = lanes & ((slot < 0) | (slot >= slots))
        if outside.any():
            number = int(slot[outside][0])
            self._add(
                kinds.OUT_OF_BOUNDS,
                op,
                lambda: f"{self._name(barrier)} has {slots} barriers, the subscript is {number}",
            )
        return self._phases.rows(lanes & ~outside, slot)

    def _in_ctas(self, cta: int) -> Array:
        """The CTAs that a row stands for, as [CTAs, 1]."""
        ctas = np.arange(self._memory.ctas).reshape(-1, 1)
        return ctas == cta if self._phases.clocks.copies > 1 else ctas >= 0

    def _check_warps(self, op: ArriveOp, lanes: Array) -> None:
        missing = -lanes.size % WARP
        counts = np.concatenate([lanes, np.zeros(missing, np.bool_)]).reshape(-1, WARP).sum(axis=1)
        whole = np.minimum(WARP, lanes.size - WARP * np.arange(len(counts)))
        broken = (counts > 0) & (counts < whole)
        if broken.any():
            warp = int(np.argmax(broken))
            self._add(
                kinds.DIVERGENT_BARRIER,
                op,
                lambda: f"only {int(counts[warp])} lanes of warp {warp} arrive; all lanes of a warp must reach it",
            )

    def _report_incomplete(self, op: WaitPhaseOp, barrier: Barrier, cta: int, slot: int) -> None:
        arrived, bytes = int(barrier.arrived[cta, slot]), int(barrier.bytes[cta, slot])
        completed = int(barrier.completed[cta, slot])
        where = f"deadlock in CTA {int(self._memory.ids[cta])}: phase {completed} of {self._name(barrier)}[{slot}]"
        if arrived >= barrier.arrivals:
            more = f"expects {bytes} more bytes than" if bytes > 0 else f"does not expect {-bytes} of the bytes that"
            self._add(kinds.WRONG_BYTES, op, lambda: f"{where} {more} are copied; a box counts as a whole")
            return
        rest = f" and expects {bytes} more bytes" if bytes > 0 else ""
        self._add(
            kinds.INCOMPLETE_PHASE,
            op,
            lambda: (
                f"{where} has {arrived} of {barrier.arrivals} arrivals{rest}; an arrival is missing, "
                f"or the parity is wrong{self._roles.others()}"
            ),
        )

    def _report_again(self, op: WaitPhaseOp, barrier: Barrier, cta: int, slot: int, parity: int) -> None:
        completed = int(barrier.completed[cta, slot])
        self._add(
            kinds.WRONG_PHASE,
            op,
            lambda: (
                f"parity {parity} of {self._name(barrier)}[{slot}] does not wait: {completed} phases have completed, "
                f"which were waited for here before, and this is not the parity of phase {completed}"
            ),
        )

    def _name(self, barrier: Barrier) -> str:
        return self._report.names.value(barrier.value)

    def _add(self, kind: str, op: Operation, message: Callable[[], str]) -> None:
        if self._check:
            self._report.add(kind, op, 1, message)


def _mbarrier(launch: Lockstep, op: MbarrierOp, frame: Frame) -> None:
    launch.unit(SyncUnit).initialise(op, frame)


def _arrive(launch: Lockstep, op: ArriveOp, frame: Frame) -> None:
    launch.unit(SyncUnit).arrive(op, frame, _slot(launch, op))


def _arrive_copies(launch: Lockstep, op: ArriveCopiesOp, frame: Frame) -> None:
    launch.unit(SyncUnit).arrive_copies(op, frame, _slot(launch, op))


def _wait(launch: Lockstep, op: WaitPhaseOp, frame: Frame) -> None:
    (parity,) = evaluate_map(op.parity.data, launch.get(op.parity_indices))
    launch.unit(SyncUnit).wait(op, frame, _slot(launch, op), parity)


def _slot(launch: Lockstep, op: _Use) -> Array:
    return evaluate_map(op.slot.data, launch.get(op.slot_indices))[0]


HANDLERS: Handlers = {MbarrierOp: _mbarrier, ArriveOp: _arrive, ArriveCopiesOp: _arrive_copies, WaitPhaseOp: _wait}
"""How they run."""
