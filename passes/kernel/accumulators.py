"""Registers that a kernel cannot do without: what its loops carry from one iteration to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.targets import REGISTER_BYTES
from deplodock.analysis.operations import ancestors
from deplodock.dialects import loop
from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.kernel import FuncOp
from deplodock.dialects.loop import memref_of


@dataclass(frozen=True)
class Carried:
    """The registers of a thread that are alive whenever an iteration of a loop starts."""

    around: loop.ForOp
    registers: int


@dataclass(frozen=True)
class _Access:
    """An access of a register buffer, and its place in the text."""

    op: Operation
    place: int
    writes: bool


def most_carried(function: FuncOp) -> Carried | None:
    """The loop round which a thread carries the most registers, or None where no loop carries any.

    This is a lower bound of what the thread takes. It is, for the worst loop that is not unrolled and runs twice or
    more,

        sum over the buffers it carries of ceil(elements * bytes of an element / 4)

    A loop carries a register buffer that was made outside, is written in each iteration, and is read there before it is
    written: an accumulator. What an outer loop carries counts in an inner one, unless the next access is a write. No
    order of the instructions does with less, for the next iteration needs all that the last one left. Everything else
    (addresses, factors, buffers that are only read in the loop, scalars) is left out: it can be computed again.

    Raises UnsupportedError for a buffer whose elements have no size.
    """
    places = {op: place for place, op in enumerate(function.walk())}
    accesses = _accesses(places)
    found = [
        Carried(
            op, sum(registers_of(buffer) for buffer, known in accesses.items() if _carries(op, place, buffer, known))
        )
        for op, place in places.items()
        if type(op) is loop.ForOp and _repeats(op)
    ]
    most = max(found, key=lambda carried: carried.registers, default=None)
    return most if most is not None and most.registers else None


def _accesses(places: Mapping[Operation, int]) -> dict[SSAValue, list[_Access]]:
    """The accesses of each register buffer in the order of the text, of one operation reads first."""
    found: dict[SSAValue, list[_Access]] = {}
    for op, place in places.items():
        for access in accesses_of(op):
            if access.memory is Memory.REGISTER:
                found.setdefault(access.buffer, []).append(_Access(op, place, access.writes))
    return found


def _carries(inner: loop.ForOp, place: int, buffer: SSAValue, accesses: list[_Access]) -> bool:
    """Whether a buffer is alive where iterations of `inner` start, for the next one of it or of a loop around it."""
    made = buffer.owner
    assert isinstance(made, Operation)
    for around in takewhile(lambda op: not op.is_ancestor(made), (inner, *ancestors(inner))):
        inside = [access for access in accesses if around.is_ancestor(access.op)]
        if inside and isinstance(around, loop.ForOp) and _repeats(around):
            following = [access for access in inside if access.place > place]
            is_accumulator = not inside[0].writes and any(access.writes for access in inside)
            return is_accumulator and not (following or inside)[0].writes
    return False


def _repeats(op: loop.ForOp) -> bool:
    """Whether a loop stays one and may run twice."""
    return not op.unroll and (op.trips is None or op.trips > 1)


def registers_of(buffer: SSAValue) -> int:
    """The registers of a thread that a register buffer takes."""
    type = memref_of(buffer)
    return -(-math.prod(type.get_shape()) * element_bytes(type.element_type) // REGISTER_BYTES)
