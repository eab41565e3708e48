"""Runs one launch of a kernel: all threads of many CTAs in lockstep, as the lanes of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.machine.targets import WARP
from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.dialects.kernel import (
    AllocOp,
    ArriveCopiesOp,
    ArriveOp,
    BarrierOp,
    ClusterBarrierOp,
    ClusterLoadOp,
    CommitGroupOp,
    FenceOp,
    FenceProxyAsyncOp,
    FuncOp,
    MbarrierOp,
    MoveOp,
    ShuffleXorOp,
    TicketOp,
    TmaLoadOp,
    WaitGroupOp,
    WaitPhaseOp,
)
from deplodock.dialects.loop import ForOp, GuardOp, IndexOp, InsideOp, LoadOp, StoreOp
from deplodock.dialects.tile import Memory, memory_of
from deplodock.interpreters.evaluate.machine import TooLong, holds
from deplodock.interpreters.scalars import check_scalar, evaluate_scalar
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import MemoryUnit
from deplodock.interpreters.simulate.checks.unwritten import Origins, joined
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.memory import AccessLog, Buffer, Layout, Registers, Values
from deplodock.interpreters.simulate.nests import Nests, varying_index
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.simulate.sync import SyncUnit
from deplodock.interpreters.simulate.tickets import TicketUnit
from deplodock.interpreters.simulate.tma import TmaUnit
from deplodock.interpreters.values import Array, poison

_LANES_AT_ONCE = 1 << 18
_ELEMENTS_AT_ONCE = 1 << 21


class Launch:
    """One launch of a kernel on its arguments."""

    def __init__(
        self,
        kernel: FuncOp,
        arguments: Sequence[Buffer],
        report: Report,
        counters: Counters,
        check: bool,
        order: Array | None = None,
        most_steps: int | None = None,
    ) -> None:
        """`order` holds the ids of the CTAs that run, in that order, those of a cluster together; by default all.

        `most_steps` are the lane steps that may run, None: any number.
        """
        self._kernel = kernel
        self._most_steps = most_steps
        self._order = np.arange(kernel.num_blocks) if order is None else order
        self._report = report
        self._counters = counters
        self._check = check
        self._memory = MemoryUnit(kernel, report, counters, check)
        self._sync = SyncUnit(self._memory, report, check)
        self._tma = TmaUnit(self._memory, self._sync, report, check)
        self._tickets = TicketUnit(kernel, self._memory, report, check)
        self._buffers: dict[SSAValue, Buffer | Registers] = dict(zip(kernel.parameters, arguments, strict=True))
        self._values: dict[SSAValue, Array] = {}
        self._origins = Origins(self._memory, self._buffers, report)
        self._accesses = {op: accesses_of(op) for op in kernel.body.walk()}
        self._nests = Nests(self._identity, _ELEMENTS_AT_ONCE // kernel.num_threads)
        self._ops: dict[Block, list[Operation]] = {}
        self._maps: dict[int, tuple[list[Array], list[Array]]] = {}
        self._handlers: dict[type[Operation], Callable[[Any, Frame], None]] = {
            ForOp: self._for,
            GuardOp: self._guard,
            IndexOp: self._index,
            InsideOp: self._inside,
            LoadOp: self._load,
            StoreOp: self._store,
            AllocOp: self._alloc,
            MoveOp: self._move,
            ShuffleXorOp: self._shuffle,
            BarrierOp: self._barrier,
            CommitGroupOp: self._commit,
            WaitGroupOp: self._wait,
            MbarrierOp: self._mbarrier,
            ArriveOp: self._arrive,
            ArriveCopiesOp: self._arrive_copies,
            WaitPhaseOp: self._wait_phase,
            TmaLoadOp: self._tma_load,
            FenceOp: self._fence,
            FenceProxyAsyncOp: self._fence_proxy,
            TicketOp: self._ticket,
            ClusterBarrierOp: self._cluster_barrier,
            ClusterLoadOp: self._cluster_load,
        }

    def run(self) -> None:
        """Run the CTAs, as many at once as memory allows. Findings and counts go where the launch was told.

        Raises:
            UnsupportedError: an op or type that the simulator does not know.
        """
        self._check_registers()
        self._log_global_writes()
        self._run_ctas()
        self._tickets.check()

    def _run_ctas(self) -> None:
        at_once = self._ctas_at_once()
        with np.errstate(all="ignore"):
            for first in range(0, len(self._order), at_once):
                ids = self._order[first : first + at_once]
                self._memory.start(ids)
                self._values[self._kernel.block_id] = ids.reshape(-1, 1)
                self._values[self._kernel.thread_id] = np.arange(self._kernel.num_threads).reshape(1, -1)
                self._block(self._kernel.body.block, Frame((len(ids), self._kernel.num_threads)))
                self._memory.finish()

    def _identity(self, buffer: SSAValue) -> Hashable:
        """What tells buffers apart: arguments may be the same buffer under two names."""
        return id(self._buffers[buffer]) if buffer in self._kernel.parameters else buffer

    def _check_registers(self) -> None:
        if not self._check:
            return
        for op, sides in self._accesses.items():
            for access in sides:
                if access.memory is not Memory.REGISTER:
                    continue
                varying = varying_index(access)
                if varying is not None:
                    self._report_varying(op, access, varying)

    def _report_varying(self, op: Operation, access: Access, varying: SSAValue) -> None:
        names = self._report.names
        self._report.add(
            kinds.DYNAMIC_REGISTER_INDEX,
            op,
            1,
            lambda: (
                f"a subscript of the register array {names.value(access.buffer)} depends on {names.value(varying)}, "
                "which is no constant after unrolling; unroll its loop or use shared memory"
            ),
        )

    def _log_global_writes(self) -> None:
        """Log the accesses to those arguments that the kernel writes."""
        sides = (access for found in self._accesses.values() for access in found)
        written = {self._identity(access.buffer) for access in sides if access.writes and not access.is_atomic}
        for parameter in self._kernel.parameters:
            buffer = self._buffers[parameter]
            if self._check and isinstance(buffer, Buffer) and self._identity(parameter) in written:
                buffer.log = AccessLog(buffer.data.size, self._memory.grid)

    def _ctas_at_once(self) -> int:
        threads = self._kernel.num_threads
        points, registers, shared = 1, 0, 0
        for op in self._kernel.body.walk():
            if isinstance(op, ForOp) and (nest := self._nests.of(op)) is not None:
                points = max(points, nest.points)
            if isinstance(op, AllocOp):
                size = Layout.of(op.result).size
                if memory_of(op.result) is Memory.REGISTER:
                    registers += size
                else:
                    shared += size
        by_lanes = _LANES_AT_ONCE // (threads * points)
        by_memory = _ELEMENTS_AT_ONCE // (threads * (points + registers) + shared)
        cluster = self._kernel.cluster_size
        return max(cluster, min(len(self._order), by_lanes, by_memory) // cluster * cluster)

    def _ops_of(self, block: Block) -> list[Operation]:
        """The operations of a block that run."""
        return list(block.ops)

    def _block(self, block: Block, frame: Frame) -> None:
        ops = self._ops.get(block)
        if ops is None:
            ops = self._ops[block] = self._ops_of(block)
        for op in ops:
            self._counters.lane_steps += frame.active
            handler = self._handlers.get(type(op))
            if handler is not None:
                handler(op, frame)
            else:
                check_scalar(op)
                operands = self._get(op.operands)
                self._values[op.results[0]] = evaluate_scalar(op, operands)
                self._origins.note_scalar(op, operands)

    def _get(self, values: Sequence[SSAValue]) -> list[Array]:
        return [self._values[value] for value in values]

    def _mapped(self, owner: object, map: AffineMap, indices: Sequence[SSAValue]) -> list[Array]:
        """The values of the map of an operation or access: the same list as last time if the indices are the same."""
        dims = self._get(indices)
        known = self._maps.get(id(owner))
        if known is not None and all(now is before for now, before in zip(dims, known[0], strict=True)):
            return known[1]
        results = evaluate_map(map, dims)
        self._maps[id(owner)] = dims, results
        return results

    def _set(self, result: SSAValue, value: Values) -> None:
        self._values[result] = value.data
        self._origins.note(result, value.origin)

    def _for(self, op: ForOp, frame: Frame) -> None:
        nest = self._nests.of(op)
        if nest is not None and op.trips is not None:
            inner, self._values[op.iv] = frame.nest(op.trips, nest.depth)
            self._block(op.body.block, inner)
            return
        self._origins.count(op, self._origins.of(op.bound_operands), frame)
        bounds = evaluate_map(op.bound.data, self._get(op.bound_operands))
        trips = bounds[0]
        for bound in bounds[1:]:
            trips = np.minimum(trips, bound)
        count = int(trips.max())
        steps = self._counters.lane_steps + count * frame.active * len(op.body.block.ops)
        if self._most_steps is not None and steps > self._most_steps:
            raise TooLong(op, steps, self._most_steps)
        for i in range(count):
            inner = frame.where(np.asarray(i < trips))
            if not inner.active:
                return
            self._values[op.iv] = np.asarray(i, np.int64)
            self._block(op.body.block, inner)

    def _guard(self, op: GuardOp, frame: Frame) -> None:
        self._origins.count(op, self._origins.of(op.indices), frame)
        inner = frame.where(holds(op.conditions.data, self._get(op.indices)))
        if inner.active:
            self._block(op.body.block, inner)

    def _index(self, op: IndexOp, frame: Frame) -> None:
        (value,) = self._mapped(op, op.map.data, op.indices)
        self._set(op.result, Values(value, self._origins.of(op.indices)))

    def _inside(self, op: InsideOp, frame: Frame) -> None:
        value = holds(op.conditions.data, self._get(op.indices))
        self._set(op.result, Values(value, self._origins.of(op.indices)))

    def _load(self, op: LoadOp, frame: Frame) -> None:
        self._set(op.result, self._read(self._accesses[op][0], frame))

    def _store(self, op: StoreOp, frame: Frame) -> None:
        self._write(self._accesses[op][0], Values(self._values[op.value], self._origins.of([op.value])), frame)

    def _alloc(self, op: AllocOp, frame: Frame) -> None:
        layout = Layout.of(op.result)
        if memory_of(op.result) is Memory.REGISTER:
            self._buffers[op.result] = Registers(layout, (frame.shape[-2], frame.shape[-1]))
        else:
            self._buffers[op.result] = self._memory.shared(op, layout)

    def _move(self, op: MoveOp, frame: Frame) -> None:
        source, destination = self._accesses[op]
        write = self._write if not op.is_async else self._copy
        if op.where is None:
            write(destination, self._read(source, frame), frame)
            return
        condition = holds(op.where.data, self._get(op.where_indices))
        inside = frame.where(condition)
        zero = np.zeros((), self._buffers[op.source].layout.dtype)
        value, origin = self._read(source, inside) if inside.active else Values(zero)
        origin = None if origin is None else np.where(condition, origin, 0)
        origin = joined(origin, self._origins.of(op.where_indices))
        write(destination, Values(np.where(condition, value, zero), origin), frame)

    def _read(self, access: Access, frame: Frame, rank: Array | None = None) -> Values:
        subscripts = self._mapped(access, access.map, access.indices)
        value, origin = self._memory.read(access, self._buffers[access.buffer], subscripts, frame, rank)
        return Values(value, joined(origin, self._origins.of(access.indices)))

    def _write(self, access: Access, value: Values, frame: Frame) -> None:
        self._origins.count(access.op, self._origins.of(access.indices), frame)
        if access.memory is None:
            self._origins.count(access.op, value.origin, frame.widened(access.width))
            value = Values(value.data)
        subscripts = self._mapped(access, access.map, access.indices)
        self._memory.write(access, self._buffers[access.buffer], subscripts, value, frame)

    def _copy(self, access: Access, value: Values, frame: Frame) -> None:
        self._origins.count(access.op, self._origins.of(access.indices), frame)
        buffer = self._buffers[access.buffer]
        assert isinstance(buffer, Buffer)
        self._memory.copy(access, buffer, evaluate_map(access.map, self._get(access.indices)), value, frame)

    def _commit(self, op: CommitGroupOp, frame: Frame) -> None:
        self._memory.commit(frame)

    def _wait(self, op: WaitGroupOp, frame: Frame) -> None:
        self._memory.wait(frame, op.pending.value.data)

    def _mbarrier(self, op: MbarrierOp, frame: Frame) -> None:
        self._sync.initialise(op, frame)

    def _arrive(self, op: ArriveOp, frame: Frame) -> None:
        self._sync.arrive(op, frame, self._slot(op))

    def _arrive_copies(self, op: ArriveCopiesOp, frame: Frame) -> None:
        self._sync.arrive_copies(op, frame, self._slot(op))

    def _wait_phase(self, op: WaitPhaseOp, frame: Frame) -> None:
        (parity,) = evaluate_map(op.parity.data, self._get(op.parity_indices))
        self._sync.wait(op, frame, self._slot(op), parity)

    def _tma_load(self, op: TmaLoadOp, frame: Frame) -> None:
        source, destination = self._buffers[op.map], self._buffers[op.destination]
        assert isinstance(source, Buffer)
        assert isinstance(destination, Buffer)
        first = evaluate_map(op.source_map.data, self._get(op.source_indices))
        subscripts = evaluate_map(op.destination_map.data, self._get(op.destination_indices))
        self._tma.load(op, source, destination, (first, subscripts, self._slot(op)), frame)

    def _slot(self, op: ArriveOp | ArriveCopiesOp | WaitPhaseOp | TmaLoadOp) -> Array:
        return evaluate_map(op.slot.data, self._get(op.slot_indices))[0]

    def _shuffle(self, op: ShuffleXorOp, frame: Frame) -> None:
        value, origin = np.broadcast_to(self._values[op.value], frame.shape), self._origins.of([op.value])
        threads = frame.shape[-1]
        if self._check and (frame.mask is not None or threads % WARP):
            self._check_warps(op, frame)
        partner = np.arange(threads) ^ op.mask.value.data
        exists = partner < threads
        source = np.where(exists, partner, 0)
        origin = None if origin is None else np.broadcast_to(origin, frame.shape)[..., source]
        shuffled = value[..., source]
        shuffled = shuffled if exists.all() else np.where(exists, shuffled, poison(value.dtype))
        self._set(op.result, Values(shuffled, origin))

    def _check_warps(self, op: ShuffleXorOp, frame: Frame) -> None:
        """Report a shuffle that a warp runs without all of its 32 lanes."""
        active = np.ones(frame.shape, np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, frame.shape)
        missing = -frame.shape[-1] % WARP
        padded = np.concatenate([active, np.zeros((*active.shape[:-1], missing), np.bool_)], axis=-1)
        lanes = padded.reshape(*padded.shape[:-1], -1, WARP).sum(axis=-1)
        broken = (lanes > 0) & (lanes < WARP)
        if not broken.any():
            return

        def message() -> str:
            position = [int(i) for i in np.unravel_index(np.argmax(broken), broken.shape)]
            cta = int(self._memory.ids[position[-2]])
            return (
                f"only {int(lanes[tuple(position)])} of the 32 lanes of warp {position[-1]} of CTA {cta} take part; "
                "all lanes of a warp must reach a shuffle"
            )

        self._report.add(kinds.DIVERGENT_SHUFFLE, op, int(np.count_nonzero(broken)), message)

    def _fence(self, op: FenceOp, frame: Frame) -> None:
        self._tickets.fence(frame)

    def _fence_proxy(self, op: FenceProxyAsyncOp, frame: Frame) -> None:
        self._memory.proxies.fence(all_lanes(frame))
        if self._memory.phases is not None:
            self._memory.phases.fence(all_lanes(frame))

    def _ticket(self, op: TicketOp, frame: Frame) -> None:
        self._meet(op, frame)
        counters = self._buffers[op.counter]
        assert isinstance(counters, Buffer)
        subscripts = evaluate_map(op.map.data, self._get(op.indices))
        self._values[op.result] = self._tickets.take(op, counters, subscripts, frame)

    def _cluster_barrier(self, op: ClusterBarrierOp, frame: Frame) -> None:
        self._memory.cluster_barrier(op, self._meet(op, frame))

    def _cluster_load(self, op: ClusterLoadOp, frame: Frame) -> None:
        (rank,) = evaluate_map(op.rank.data, self._get(op.rank_indices))
        self._set(op.result, self._read(self._accesses[op][0], frame, rank))

    def _barrier(self, op: BarrierOp, frame: Frame) -> None:
        self._meet(op, frame)

    def _meet(self, op: BarrierOp | TicketOp | ClusterBarrierOp, frame: Frame) -> Array:
        """Let the lanes of CTAs meet. Returns which CTAs are here."""
        ctas, threads = frame.shape
        arrived = np.full(ctas, threads)
        if frame.mask is not None:
            arrived = np.broadcast_to(frame.mask, frame.shape).sum(axis=-1)
        split = (arrived > 0) & (arrived < threads)
        if self._check and split.any():
            self._report_split(op, frame, split, arrived)
        self._counters.barriers += int(np.count_nonzero(arrived))
        self._memory.barrier(arrived > 0)
        return arrived > 0

    def _report_split(
        self, op: BarrierOp | TicketOp | ClusterBarrierOp, frame: Frame, split: Array, arrived: Array
    ) -> None:
        def message() -> str:
            cta = int(np.argmax(split))
            here = np.ones(frame.shape, np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, frame.shape)
            there, away = int(np.argmax(here[cta])), int(np.argmin(here[cta]))
            return (
                f"only {int(arrived[cta])} of the {frame.shape[-1]} threads of CTA {int(self._memory.ids[cta])} "
                f"reach it: thread {there} does, thread {away} does not; move it out of the guard or loop"
            )

        self._report.add(kinds.DIVERGENT_BARRIER, op, int(np.count_nonzero(split)), message)
