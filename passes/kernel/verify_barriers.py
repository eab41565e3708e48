"""verify-barriers: check that barriers order accesses of shared memory and are reached by all threads.

The facts are those by which place-barriers places them, so any kernel can be checked. In

    loop.store %v, %part[%thread] : memref<32xf32, #tile.memory<shared>>
    %w = loop.load %part[%thread * -1 + 31] : memref<32xf32, #tile.memory<shared>>

the load is refused: `%part is written by loop.store and then read by loop.load with no kernel.barrier between them`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.access.boxes import misaligned
from deplodock.analysis.access.matrices import unreadable
from deplodock.analysis.access.shared_accesses import Hazard
from deplodock.analysis.operations import position_of
from deplodock.analysis.order.facts import KernelFacts
from deplodock.analysis.order.hazards import first_hazard
from deplodock.analysis.order.uniformity import divergent
from deplodock.dialects import kernel
from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import Access, Collective, Landing, accesses_of
from deplodock.dialects.kernel.order import MakeBarriers, Meet, order_of
from deplodock.dialects.kernel.wgmma import ReadsTiles
from deplodock.passes.options import CheckPass

_WAITS = {Landing.PRODUCT: "kernel.wgmma_wait", Landing.STORE: "kernel.tma_wait"}
"""What waits for reads beside the program."""


@dataclass(frozen=True)
class VerifyBarriersPass(CheckPass):
    """Check that barriers order the accesses of shared memory and are reached by all threads."""

    name = "verify-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            verify_barriers(function)


def verify_barriers(function: kernel.FuncOp) -> None:
    """Raises DiagnosticException at the first barrier in divergent code, misaligned box, hazard, or wrong phase."""
    name = function.sym_name.data
    accesses = {op: accesses_of(op) for op in function.walk()}
    for op, found in accesses.items():
        for access in found:
            is_box = access.lands in (Landing.PHASE, Landing.STORE) and access.memory is Memory.SHARED
            if is_box and (reason := misaligned(access)) is not None:
                raise DiagnosticException(f"verify-barriers: @{name}: {_position(op)}misaligned slot: {reason}")
        if isinstance(op, ReadsTiles) and (reason := unreadable(op)) is not None:
            raise DiagnosticException(f"verify-barriers: @{name}: {_position(op)}unreadable tile: {reason}")
        if op.has_trait(Collective) and (around := divergent(op, function)) is not None:
            raise DiagnosticException(
                f"verify-barriers: @{name}: {_position(op)}{op.name} stands in a {around.name} that not all threads "
                "run alike; move it out"
            )
    _verify_clusters(name, accesses)
    hazard = first_hazard(KernelFacts(function))
    if hazard is None:
        return
    if not isinstance(hazard, Hazard):
        raise DiagnosticException(f"verify-barriers: @{name}: {_position(hazard.op)}{hazard}")
    missing = "with no kernel.barrier between them; add one"
    if hazard.is_in_flight:
        missing = "with no kernel.wait_group between them; wait for its group"
    if hazard.is_in_flight and hazard.first.lands in _WAITS:
        missing = f"with no {_WAITS[hazard.first.lands]} between them; wait for its group"
    elif any(isinstance(order_of(op), MakeBarriers) for op in accesses):
        early = "the slot is released early, " if hazard.second.writes and not hazard.first.writes else ""
        missing = f"with no phase between them; {early}arrive after the first and wait for that phase before the second"
    raise DiagnosticException(f"verify-barriers: @{name}: {_position(hazard.second.op)}{hazard} {missing}")


def _verify_clusters(name: str, accesses: Mapping[Operation, Sequence[Access]]) -> None:
    """Check that cluster barriers stand between writes of shared memory and reads by other CTAs, and after the reads.

    The operations are taken in the order of the text.
    """
    unordered: list[SSAValue] = []
    read: Operation | None = None
    for op, found in accesses.items():
        if isinstance(order := order_of(op), Meet) and order.is_cluster:
            unordered, read = [], None
        for access in found:
            if access.rank is not None:
                read = op
                if access.buffer in unordered:
                    raise DiagnosticException(
                        f"verify-barriers: @{name}: {_position(op)}{op.name} reads what this CTA writes, with no "
                        "kernel.cluster_barrier between; add one"
                    )
            elif access.writes:
                unordered.append(access.buffer)
    if read is not None:
        raise DiagnosticException(
            f"verify-barriers: @{name}: {_position(read)}the CTA whose memory {read.name} reads may have ended; "
            "a kernel.cluster_barrier must follow"
        )


def _position(op: Operation) -> str:
    """`file:line:column: ` of an operation read from a file."""
    position = position_of(op)
    return "" if position is None else f"{position}: "
