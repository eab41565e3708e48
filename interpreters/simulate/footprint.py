"""Which elements of global memory each CTA of a launch touches, without the values: only addresses are computed.

What an access needs are the conditions and loops around it and the operations that its subscripts come from; all else
is left out, so all CTAs of a launch cost little more than one pass over its outputs. What depends on shared memory, on
registers, or on memory that the launch itself writes cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from deplodock.analysis.host.arguments import Role, argument_roles
from deplodock.analysis.operations import ancestors
from deplodock.dialects.interfaces import Access, GivesUniform, accesses_of
from deplodock.dialects.kernel import FuncOp, TensorMapType
from deplodock.dialects.loop import IndexOp, InsideOp, LoadOp
from deplodock.interpreters.affine import holds
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.launch import HANDLERS, Launch
from deplodock.interpreters.simulate.machine import Lockstep
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.simulate.tma import units_of_boxes
from deplodock.interpreters.values import Array

NOBODY = -1

_MOST_ELEMENTS = 1 << 26
"""Of more elements no owners are kept, which take 4 bytes each."""


@dataclass(frozen=True)
class Overlap:
    """An element of a parameter that two CTAs write."""

    op: Operation
    parameter: int
    element: int
    ctas: tuple[int, int]


@dataclass(frozen=True)
class Writers:
    """The id of the CTA that writes each element of a parameter, -1 for none, by the parameter's number."""

    owners: dict[int, Array]
    overlap: Overlap | None


def writers(kernel: FuncOp, arguments: Sequence[Buffer], known: Collection[int], report: Report) -> Writers | None:
    """Who writes the elements of a kernel's parameters, or None if only a run with values can tell.

    The parameters with the numbers `known` hold the values that they have in the launch.
    """
    found = _global_accesses(kernel, lambda access: access.writes)
    ops = _slice(kernel, found, known)
    if ops is None or sum(arguments[number].data.size for number in set(found.values())) > _MOST_ELEMENTS:
        return None
    owners = {number: np.full(arguments[number].data.size, NOBODY, np.int32) for number in set(found.values())}
    overlaps: list[Overlap] = []

    def touch(access: Access, elements: Array, ctas: Array) -> None:
        number = found[access.op, True]
        owner = owners[number]
        before = owner[elements]
        owner[elements] = ctas
        clash = ((before != NOBODY) & (before != ctas)) | (owner[elements] != ctas)
        if clash.any() and not overlaps:
            at = int(np.argmax(clash))
            other = before[at] if before[at] not in (NOBODY, ctas[at]) else owner[elements[at]]
            first, second = sorted((int(other), int(ctas[at])))
            overlaps.append(Overlap(access.op, number, int(elements[at]), (first, second)))

    # Tickets may order the CTAs that write one element; in all other launches nothing does.
    is_ordered = bool(_tickets(kernel))
    _Footprint(kernel, arguments, report, ops, set(found), touch, check=not is_ordered).run()
    return Writers(owners, None if is_ordered or not overlaps else overlaps[0])


def readers(
    kernel: FuncOp,
    arguments: Sequence[Buffer],
    parameters: Collection[int],
    known: Collection[int],
    ctas: Array,
    report: Report,
) -> dict[int, Array] | None:
    """Which elements of these parameters some CTAs read, or None if only a run with values can tell; see `writers`."""
    if any(access.by_proxy for op in kernel.body.walk() for access in accesses_of(op)):
        return None
    found = {
        key: number
        for key, number in _global_accesses(kernel, lambda access: not access.writes).items()
        if number in parameters
    }
    ops = _slice(kernel, found, known)
    if ops is None:
        return None
    masks = {number: np.zeros(arguments[number].data.size, np.bool_) for number in parameters}

    def touch(access: Access, elements: Array, _: Array) -> None:
        masks[found[access.op, False]][elements] = True

    _Footprint(kernel, arguments, report, ops, set(found), touch, ctas).run()
    return masks


@dataclass(frozen=True)
class Companions:
    """Where CTAs work together: pairs of a CTA and the number of a cluster, or of a counter of tickets."""

    ctas: Array
    places: Array

    def with_others(self, chosen: Array) -> Array:
        """Some CTAs, and all those that they work together with."""
        places = self.places[np.isin(self.ctas, chosen)]
        return np.union1d(chosen, self.ctas[np.isin(self.places, places)])


def companions(
    kernel: FuncOp, arguments: Sequence[Buffer], known: Collection[int], report: Report
) -> Companions | None:
    """Where the CTAs of a kernel work together: in clusters, or by counters of tickets.

    None if all may work together; see `writers`.
    """
    ids = np.arange(kernel.num_blocks)
    tickets = _tickets(kernel)
    if not tickets:
        return Companions(ids, ids // kernel.cluster_size)
    ops = _slice(kernel, {(op, True): 0 for op in tickets}, known)
    if len(tickets) > 1 or kernel.cluster_size > 1 or ops is None:
        return None
    footprint = _Footprint(kernel, arguments, report, ops, set(), _ignore)
    footprint.run()
    none = np.zeros(0, np.int64)
    return Companions(*(np.concatenate([none, *(pair[side] for pair in footprint.tickets)]) for side in (0, 1)))


def _tickets(kernel: FuncOp) -> list[Operation]:
    """The operations that count atomically in memory, by which CTAs work together."""
    return [op for op in kernel.body.walk() if any(access.is_atomic for access in accesses_of(op))]


def _ignore(access: Access, elements: Array, ctas: Array) -> None:
    """No access is wanted."""


def _global_accesses(kernel: FuncOp, wanted: Callable[[Access], bool]) -> dict[tuple[Operation, bool], int]:
    """The wanted accesses of parameters: the op and whether it writes, with the number of the parameter."""
    numbers: dict[SSAValue, int] = {parameter: number for number, parameter in enumerate(kernel.parameters)}
    return {
        (op, access.writes): numbers[access.buffer]
        for op in kernel.body.walk()
        for access in accesses_of(op)
        if access.buffer in numbers and not access.is_atomic and wanted(access)
    }


def _slice(
    kernel: FuncOp, roots: Collection[tuple[Operation, bool]], known: Collection[int]
) -> frozenset[Operation] | None:
    """The operations by which accesses happen and get their subscripts; None if unknown values decide about that."""
    roles = argument_roles(kernel)
    readable = [kernel.parameters[number] for number in known if roles[number] is Role.IN]
    ops: set[Operation] = set()
    pending: list[SSAValue] = []
    for op, writes in roots:
        ops.add(op)
        pending += _places(op, writes)
    around = {outer for op in ops for outer in ancestors(op, below=kernel)}
    for op in around:
        ops.add(op)
        pending += op.operands
    while pending:
        value = pending.pop()
        if not isinstance(value, OpResult) or (value.op in ops and not isinstance(value.op, LoadOp)):
            continue
        op = value.op
        is_known = (isinstance(op, LoadOp) and op.source in readable) or op.has_trait(GivesUniform)
        if not (is_known or isinstance(op, IndexOp | InsideOp | arith.ConstantOp) or _is_scalar(op)):
            return None
        ops.add(op)
        pending += _places(op, writes=False) if accesses_of(op) else op.operands
    return frozenset(ops)


def _places(op: Operation, writes: bool) -> list[SSAValue]:
    """What an access takes its subscripts from, and whether it happens."""
    if any(access.is_atomic for access in accesses_of(op)):
        return [operand for operand in op.operands if isinstance(operand.type, IndexType)]
    accesses = [access for access in accesses_of(op) if access.writes is writes]
    found = [index for access in accesses for index in access.indices]
    return [*found, *(index for access in accesses if access.where is not None for index in access.where[1])]


def _is_scalar(op: Operation) -> bool:
    return op.dialect_name() in ("arith", "math")


class _Footprint(Launch):
    """A launch of which only some operations run; wanted accesses are told to `touch`, with elements and CTAs."""

    def __init__(
        self,
        kernel: FuncOp,
        arguments: Sequence[Buffer],
        report: Report,
        ops: frozenset[Operation],
        wanted: Collection[tuple[Operation, bool]],
        touch: Callable[[Access, Array, Array], None],
        order: Array | None = None,
        check: bool = False,
    ) -> None:
        super().__init__(kernel, arguments, report, Counters(), check, order)
        self._wanted = wanted
        self._touch = touch
        self._sliced = ops
        self._handlers = {**HANDLERS, **{type(op): _note for op, accesses in self.accesses.items() if accesses}}
        self.tickets: list[tuple[Array, Array]] = []
        """CTAs with the numbers of the counters of which they take a ticket."""

    def run(self) -> None:
        """Compute the addresses of all accesses; counters are left as they were."""
        counters = [self.buffers[op.operands[0]] for op in _tickets(self.kernel)]
        before = [counter.data.copy() for counter in counters if isinstance(counter, Buffer)]
        self.run_ctas()
        for counter, data in zip(counters, before, strict=True):
            counter.data[...] = data

    def ops_of(self, block: Block) -> list[Operation]:
        """The operations of a block that matter."""
        return [op for op in block.ops if op in self._sliced]

    def note(self, op: Operation, frame: Frame) -> None:
        """Tell the wanted accesses of an operation, and note the counters of its tickets, or run it."""
        accesses = self.accesses[op]
        if accesses[0].is_atomic:
            self._count(accesses[0], frame)
        wanted = [access for access in accesses if (op, access.writes) in self._wanted]
        for access in wanted:
            self._tell(access, frame)
        if not wanted:
            HANDLERS[type(op)](self, op, frame)

    def _count(self, access: Access, frame: Frame) -> None:
        buffer = self.buffers[access.buffer]
        assert isinstance(buffer, Buffer)
        subscripts = evaluate_map(access.map, self.get(access.indices))
        numbers = sum((s * row for s, row in zip(subscripts, buffer.layout.rows, strict=True)), np.asarray(0))
        comes = all_lanes(frame).any(axis=-1)
        numbers = np.broadcast_to(numbers, frame.shape)[..., 0]
        self.tickets.append((self.memory.ids[comes], numbers[comes].astype(np.int64)))

    def _tell(self, access: Access, frame: Frame) -> None:
        if access.where is not None:
            frame = frame.where(holds(access.where[0], self.get(access.where[1])))
        if not frame.active:
            return
        buffer = self.buffers[access.buffer]
        assert isinstance(buffer, Buffer)
        subscripts = evaluate_map(access.map, self.get(access.indices))
        if isinstance(access.buffer.type, TensorMapType):
            access, subscripts, frame = units_of_boxes(access, buffer.layout, subscripts, frame)
        self._touch(access, *self.memory.touched(access, buffer, subscripts, frame))


def _note(launch: Lockstep, op: Operation, frame: Frame) -> None:
    assert isinstance(launch, _Footprint)
    launch.note(op, frame)
