"""Hazards on shared memory: pairs of accesses by different threads of a CTA that no barrier orders.

Two accesses conflict when one of them writes, they are of the same buffer, and different threads may touch the same element. A thread's own
accesses need no barrier: where both addresses give back the same thread index, the pair is safe. Loops are walked twice, so that accesses of
one iteration meet those of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.alignment import address
from deplodock.analysis.linear import Linear, fold_map
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of


@dataclass(frozen=True)
class Access:
    """One operation's read or write of a shared buffer: `width` elements from `address` on."""

    op: Operation
    buffer: SSAValue
    writes: bool
    address: Linear
    width: int


@dataclass(frozen=True)
class Hazard:
    """Two accesses that need a barrier between them, in the order they run."""

    first: Access
    second: Access

    def __str__(self) -> str:
        kinds = {(True, False): "read", (False, True): "overwritten", (True, True): "overwritten"}
        done = "written" if self.first.writes else "read"
        buffer = f"%{self.first.buffer.name_hint or '?'}"
        return f"{buffer} is {done} by {self.first.op.name} and then {kinds[self.first.writes, self.second.writes]} by {self.second.op.name}"


def first_hazard(function: kernel.FuncOp) -> Hazard | None:
    """The first pair of accesses of a kernel that no barrier orders, or None."""
    return next(_walk(function, function.body.block, []), None)


def shared_accesses(op: Operation) -> list[Access]:
    """The accesses of shared memory that one operation makes."""
    match op:
        case loop.LoadOp():
            sides = [(op.source, False, op.map.data, op.indices, 1)]
        case loop.StoreOp():
            sides = [(op.destination, True, op.map.data, op.indices, 1)]
        case kernel.MoveOp():
            sides = [
                (op.source, False, op.source_map.data, op.source_indices, op.elements),
                (op.destination, True, op.destination_map.data, op.destination_indices, op.elements),
            ]
        case _:
            return []
    return [
        Access(op, buffer, writes, address(loop.memref_of(buffer), fold_map(map, indices)), width)
        for buffer, writes, map, indices, width in sides
        if memory_of(buffer) is Memory.SHARED
    ]


def _walk(function: kernel.FuncOp, block: Block, pending: list[Access]) -> Iterator[Hazard]:
    """Meet the accesses of a block with those pending since the last barrier; updates `pending` in place."""
    for op in block.ops:
        match op:
            case kernel.BarrierOp():
                pending.clear()
            case loop.ForOp():
                yield from _walk_loop(function, op, pending)
            case loop.GuardOp():
                before = list(pending)
                yield from _walk(function, op.body.block, pending)
                pending[:] = _union(before, pending)
            case _:
                for access in shared_accesses(op):
                    for other in pending:
                        if _conflicts(function, other, access):
                            yield Hazard(other, access)
                pending += shared_accesses(op)


def _walk_loop(function: kernel.FuncOp, op: loop.ForOp, pending: list[Access]) -> Iterator[Hazard]:
    before = list(pending)
    passes = 1 if op.trips == 1 else 2
    for _ in range(passes):
        yield from _walk(function, op.body.block, pending)
    if not op.trips:
        pending[:] = _union(before, pending)


def _union(before: Sequence[Access], after: Sequence[Access]) -> list[Access]:
    return [*before, *(access for access in after if access not in before)]


def _conflicts(function: kernel.FuncOp, first: Access, second: Access) -> bool:
    if first.buffer is not second.buffer or not (first.writes or second.writes):
        return False
    owners = _owner(function, first), _owner(function, second)
    return owners[0] is None or owners[0] != owners[1]


def _owner(function: kernel.FuncOp, access: Access) -> int | None:
    """The stride s for which `address floordiv s mod threads` is the thread that makes the access, or None.

    It is so when the thread index enters the address once, as `thread * s`, all smaller terms add up to less than s, and all others are
    multiples of s times the number of threads.
    """
    thread, threads = function.thread_id, function.num_threads
    stride = access.address.coefficient(thread)
    if stride <= 0:
        return None
    low, high = access.width - 1, Linear()
    for atom, coefficient in access.address.terms:
        if atom is thread:
            continue
        term = Linear(((atom, coefficient),))
        if any(root is thread for root in term.roots()):
            return None
        if coefficient % (stride * threads) == 0:
            high = high + term
            continue
        bounds = term.range()
        if bounds is None or bounds[0] < 0:
            return None
        low += bounds[1]
    constant = access.address.constant
    low += constant % (stride * threads)
    return stride if constant >= 0 and low < stride else None
