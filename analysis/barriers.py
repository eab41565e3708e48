"""Hazards on shared memory: pairs of accesses by different threads of a CTA that no barrier orders.

Two accesses conflict when one of them writes, they are of the same buffer, and different threads may touch the same
element. A thread's own accesses need no barrier: where both addresses give back the same thread index, the pair is
safe. Loops are walked twice, so that accesses of one iteration meet those of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.linear import Atom, Division, Linear, fold_map
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of


@dataclass(frozen=True)
class Access:
    """One operation's read or write of a shared buffer: `width` elements along the last dimension."""

    op: Operation
    buffer: SSAValue
    writes: bool
    subscripts: tuple[Linear, ...]
    width: int


@dataclass(frozen=True)
class Hazard:
    """Two accesses that need a barrier between them, in the order they run."""

    first: Access
    second: Access

    def __str__(self) -> str:
        done = "written" if self.first.writes else "read"
        then = "overwritten" if self.second.writes else "read"
        buffer = f"%{self.first.buffer.name_hint or '?'}"
        return f"{buffer} is {done} by {self.first.op.name} and then {then} by {self.second.op.name}"


def first_hazard(function: kernel.FuncOp) -> Hazard | None:
    """The first pair of accesses of a kernel that no barrier orders, or None."""
    return next(_walk(function, function.body.block, []), None)


def divergent(op: Operation, function: kernel.FuncOp) -> Operation | None:
    """The guard or loop around an operation whose condition or bound may differ between threads of a CTA, or None."""
    parent = op.parent_op()
    while parent is not None and parent is not function:
        if isinstance(parent, loop.GuardOp) and not _is_uniform(parent.conditions.data, parent.indices, function):
            return parent
        if isinstance(parent, loop.ForOp) and not _is_uniform(parent.bound.data, parent.bound_operands, function):
            return parent
        parent = parent.parent_op()
    return None


def _is_uniform(map: AffineMap, operands: Sequence[SSAValue], function: kernel.FuncOp) -> bool:
    """Whether a map's values are the same for all threads of a CTA: they depend on the block id and loops only."""
    return all(_is_uniform_root(root, function) for form in fold_map(map, operands) for root in form.roots())


def _is_uniform_root(root: SSAValue, function: kernel.FuncOp) -> bool:
    if root is function.thread_id or not isinstance(root, BlockArgument):
        return False
    owner = root.block.parent_op()
    return owner is function or (
        isinstance(owner, loop.ForOp) and _is_uniform(owner.bound.data, owner.bound_operands, function)
    )


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
        Access(op, buffer, writes, tuple(fold_map(map, indices)), width)
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
    owner = _thread_of(function.thread_id, first)
    return owner is None or owner != _thread_of(function.thread_id, second)


Path = tuple["str | int | Path", ...]
"""How an index follows from the subscripts of an element: equal paths give equal indices for the same element."""


def _thread_of(thread: SSAValue, access: Access) -> Path | None:
    """How the thread that touches an element follows from the element's subscripts, or None if it does not.

    A subscript gives back each of its terms whose digits do not overlap those of the others; the quotient and the
    remainder of a form by the same divisor give back the form, and so its terms.
    """
    known: dict[Atom, Path] = {}
    last = len(access.subscripts) - 1
    pending: list[tuple[Linear, int, Path]] = [
        (form, access.width - 1 if dim == last else 0, ("subscript", dim)) for dim, form in enumerate(access.subscripts)
    ]
    joined: list[Linear] = []
    while pending:
        form, slack, path = pending.pop()
        for atom, coefficient in form.terms:
            size = _digit_size(form, atom, coefficient, slack)
            if size is not None and atom not in known:
                known[atom] = ("digit", path, coefficient, size)
        for atom in list(known):
            if not isinstance(atom, Division) or atom.form in joined:
                continue
            other = replace(atom, remainder=not atom.remainder)
            if other in known:
                parts = (known[atom], known[other]) if atom.remainder else (known[other], known[atom])
                joined.append(atom.form)
                pending.append((atom.form, 0, ("join", *parts, atom.divisor)))
    return known.get(thread)


def _digit_size(form: Linear, atom: Atom, coefficient: int, slack: int) -> int | None:
    """The size n of a term's digit, so that the term is `form floordiv coefficient mod n`; None if others overlap it.

    `slack` is how far past the form's value an access reaches.
    """
    bounds = Linear(((atom, 1),)).range()
    if coefficient <= 0 or bounds is None or bounds[0] != 0:
        return None
    size = bounds[1] + 1
    low = form.constant % (coefficient * size) + slack
    for other, step in form.terms:
        if other is atom or step % (coefficient * size) == 0:
            continue
        reach = Linear(((other, step),)).range()
        if reach is None or reach[0] < 0:
            return None
        low += reach[1]
    return size if low < coefficient else None
