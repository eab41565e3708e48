"""Registers that a kernel cannot do without: what its loops carry from one iteration to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from xdsl.ir import Operation, Use

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.targets import REGISTER_BYTES
from deplodock.analysis.operations import ancestors
from deplodock.dialects import loop
from deplodock.dialects.kernel import AllocOp, FuncOp, MoveOp
from deplodock.dialects.loop import memref_of
from deplodock.dialects.tile import Memory, memory_of


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
    accesses = {op: _accesses(op, places) for op in places if type(op) is AllocOp}
    found = [
        Carried(op, sum(_registers(alloc) for alloc, known in accesses.items() if _carries(op, place, alloc, known)))
        for op, place in places.items()
        if type(op) is loop.ForOp and _repeats(op)
    ]
    most = max(found, key=lambda carried: carried.registers, default=None)
    return most if most is not None and most.registers else None


def _accesses(alloc: AllocOp, places: Mapping[Operation, int]) -> list[_Access]:
    """The accesses of a register buffer in the order of the text, none for another buffer."""
    if memory_of(alloc.result) is not Memory.REGISTER:
        return []
    found = [_Access(use.operation, places[use.operation], _writes(use)) for use in alloc.result.uses]
    return sorted(found, key=lambda access: (access.place, access.writes))


def _writes(use: Use) -> bool:
    """Whether a use of a buffer writes it: as the destination, the second operand of a store and of a move."""
    return isinstance(use.operation, loop.StoreOp | MoveOp) and use.index == 1


def _carries(inner: loop.ForOp, place: int, alloc: AllocOp, accesses: list[_Access]) -> bool:
    """Whether a buffer is alive where iterations of `inner` start, for the next one of it or of a loop around it."""
    for around in takewhile(lambda op: not op.is_ancestor(alloc), (inner, *ancestors(inner))):
        inside = [access for access in accesses if around.is_ancestor(access.op)]
        if inside and isinstance(around, loop.ForOp) and _repeats(around):
            following = [access for access in inside if access.place > place]
            is_accumulator = not inside[0].writes and any(access.writes for access in inside)
            return is_accumulator and not (following or inside)[0].writes
    return False


def _repeats(op: loop.ForOp) -> bool:
    """Whether a loop stays one and may run twice."""
    return not op.unroll and (op.trips is None or op.trips > 1)


def _registers(alloc: AllocOp) -> int:
    type = memref_of(alloc.result)
    return -(-math.prod(type.get_shape()) * element_bytes(type.element_type) // REGISTER_BYTES)
