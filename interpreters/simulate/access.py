"""Loads, stores and moves of lanes, with their checks and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation

from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.dialects.kernel import FuncOp, MbarrierType
from deplodock.interpreters.evaluate.machine import outside_as_false
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.checks.cluster import Clusters
from deplodock.interpreters.simulate.checks.flight import Copies, Flight
from deplodock.interpreters.simulate.checks.grid import Grid
from deplodock.interpreters.simulate.checks.phases import Phases
from deplodock.interpreters.simulate.checks.proxy import Proxies
from deplodock.interpreters.simulate.checks.warps import sectors, warps, wavefronts
from deplodock.interpreters.simulate.elements import dot, is_same_in_ctas, select, select_values, widened
from deplodock.interpreters.simulate.lanes import Frame, all_lanes
from deplodock.interpreters.simulate.memory import AccessLog, Buffer, Layout, Registers, Values, origin_at
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.values import Array, poison


@dataclass(frozen=True)
class _Place:
    """Where lanes access a buffer: number and byte address of the first element, and the lanes that do, in bounds."""

    element: Array
    address: Array
    frame: Frame
    inside: Array | None
    """Where the subscripts are in bounds; None: everywhere."""


class MemoryUnit:
    """The accesses of the CTAs of one launch that run together, whose ids are `ids`."""

    def __init__(self, kernel: FuncOp, report: Report, counters: Counters, check: bool) -> None:
        self._threads = kernel.num_threads
        self._report = report
        self._counters = counters
        self._check = check
        self.ops = list(kernel.body.walk())
        self._numbers = {op: number for number, op in enumerate(self.ops)}
        self._shared: dict[Operation, Buffer] = {}
        self._in_registers: dict[int, tuple[Sequence[Array], _Place]] = {}
        self._has_phases = any(isinstance(result.type, MbarrierType) for op in self.ops for result in op.results)
        made = [access.buffer for op in self.ops for access in accesses_of(op) if access.by_proxy and access.writes]
        self._boxed = {buffer.owner for buffer in made}
        self.flight = Flight(0, 0)
        self.proxies = Proxies(0)
        self.phases: Phases | None = None
        has_tickets = any(access.is_atomic for op in self.ops for access in accesses_of(op))
        self.grid = Grid(kernel.num_blocks, kernel.num_threads) if check and has_tickets else None
        """What the CTAs of a launch with tickets know of each other."""
        self.clusters: Clusters | None = None
        self._cluster_size = kernel.cluster_size
        self.ids = np.zeros(0, np.int64)
        self.ctas = 0

    def start(self, ids: Array) -> None:
        """Go to other CTAs; they have no shared memory yet, and nothing is in flight."""
        self.ids, self.ctas = ids, len(ids)
        ctas = self.ctas
        self._shared = {}
        self.flight = Flight(ctas, self._threads)
        self.proxies = Proxies(ctas)
        self.phases = Phases(ctas, self._threads) if self._has_phases else None
        self.clusters = Clusters(ids, self._cluster_size, self.ops, self._report)

    def shared(self, op: Operation, layout: Layout) -> Buffer:
        """The shared memory that an allocation gives, the same each time it runs; what was in it is lost."""
        buffer = self._shared.get(op)
        if buffer is None:
            buffer = self._shared[op] = Buffer.unwritten(layout, self.ctas)
            clocks = None if self.phases is None else self.phases.clocks
            buffer.log = AccessLog(buffer.data.size // self.ctas, clocks) if self._check else None
            if op in self._boxed and self._check:
                self.proxies.watch(buffer)
        else:
            buffer.forget()
        return buffer

    def read(
        self,
        access: Access,
        buffer: Buffer | Registers,
        subscripts: Sequence[Array],
        frame: Frame,
        rank: Array | None = None,
    ) -> Values:
        """The values that lanes read; with a width, their first dimension is that of the elements.

        `rank`: the CTAs of the cluster whose shared memory is read, if it is not that of the lanes' own.
        """
        place = self._place(access, buffer, subscripts, frame)
        element = self._elements(access, buffer, place, rank)
        value = buffer.read(element)
        origin = self.origin(access.op, buffer, element)
        if self._check and isinstance(buffer, Buffer):
            origin = self._check_landed(access, buffer, element, origin, place)
        if origin is not None and place.frame.mask is not None:
            origin = np.where(place.frame.mask, origin, 0)
        if isinstance(buffer, Buffer) and buffer.log is not None and rank is None:
            self._record(access, buffer, buffer.log, place)
        elif isinstance(buffer, Buffer) and rank is not None and self._check:
            self._in_cluster.check_rank(access.op, rank)
            self._record_in_cluster(access, buffer, element, place.frame)
        return Values(value if place.inside is None else np.where(place.inside, value, poison(value.dtype)), origin)

    def origin(self, op: Operation, buffer: Buffer | Registers, element: Array) -> Array | None:
        """The origins of elements that an op reads, unless nothing is checked; None if they all hold a value."""
        origin = buffer.origin(element) if self._check else None
        return None if origin is None else np.where(origin < 0, origin_at(self._numbers[op], element), origin)

    def write(
        self, access: Access, buffer: Buffer | Registers, subscripts: Sequence[Array], value: Values, frame: Frame
    ) -> None:
        """Write the values of lanes; with a width, their first dimension is that of the elements."""
        place = self._place(access, buffer, subscripts, frame)
        element = self._elements(access, buffer, place)
        if isinstance(buffer, Registers):
            buffer.write(element, value, place.frame.mask)
            return
        frame = place.frame
        if self._check and self._cluster_size > 1 and self._is_shared(buffer):
            self._record_in_cluster(access, buffer, element, frame)
        lanes = select(element, access, frame.shape, frame.mask)
        buffer.write(lanes, select_values(value, access, frame.shape, frame.mask))
        if self._boxed:
            self.proxies.write(buffer, lanes, select(np.arange(self._threads), access, frame.shape, frame.mask))
        if buffer.log is not None:
            self._check_overwritten(access, buffer, place)
            self._record(access, buffer, buffer.log, place)

    def touched(self, access: Access, buffer: Buffer, subscripts: Sequence[Array], frame: Frame) -> tuple[Array, Array]:
        """The elements of global memory that active lanes access in bounds, and the ids of the lanes' CTAs."""
        place = self._place(access, buffer, subscripts, frame)
        element, shape, mask = self._elements(access, buffer, place), place.frame.shape, place.frame.mask
        ids = np.broadcast_to(self.ids.reshape(-1, 1), shape)
        return select(element, access, shape, mask), select(ids, access, shape, mask)

    def copy(self, access: Access, buffer: Buffer, subscripts: Sequence[Array], value: Values, frame: Frame) -> None:
        """Start to copy the values of lanes to shared memory; they arrive when the lanes wait for them."""
        self.flight.issue(self._started(access, buffer, value, self._place(access, buffer, subscripts, frame)))

    def box(self, access: Access, buffer: Buffer, start: Array, value: Values, frame: Frame) -> Copies:
        """Start to copy as many elements as the access is wide, from element `start` of each lane on."""
        self._counters.shared_bytes_written += frame.active * access.width * buffer.layout.dtype.itemsize
        self._counters.global_bytes_read += frame.active * access.width * buffer.layout.dtype.itemsize
        place = _Place(start, start * buffer.layout.dtype.itemsize, frame, None)
        return replace(self._started(access, buffer, value, place), is_box=True)

    def _started(self, access: Access, buffer: Buffer, value: Values, place: _Place) -> Copies:
        """The copies of lanes, which nothing before must conflict with."""
        if buffer.log is not None:
            self._check_overwritten(access, buffer, place)
            self._record(access, buffer, buffer.log, place, issues=True)
        shape, mask = place.frame.shape, place.frame.mask
        cta, thread = np.arange(self.ctas).reshape(-1, 1), np.arange(self._threads)
        stamp = thread if self.phases is None else self.phases.clocks.stamp(copies=True)
        tag = AccessLog.tag(2 * self._numbers[access.op] + 1, stamp)
        lanes = (self._elements(access, buffer, place), tag, cta, thread)
        element, tag, cta, thread = (select(array, access, shape, mask) for array in lanes)
        same = is_same_in_ctas(place.element) and (mask is None or is_same_in_ctas(mask))
        return Copies(buffer, element, select_values(value, access, shape, mask), tag, cta, thread, same)

    def commit(self, frame: Frame) -> None:
        """Close the group of copies that lanes have open."""
        self.flight.commit(all_lanes(frame))

    def wait(self, frame: Frame, pending: int) -> None:
        """Let arrive what lanes copy, but for their `pending` last groups: they write it now."""
        lanes = all_lanes(frame)
        same = is_same_in_ctas(lanes if frame.mask is not None else lanes[:1])
        landed = self.flight.land(lanes, pending)
        if self.phases is not None:
            stamp = np.broadcast_to(self.phases.clocks.stamp(), lanes.shape)
            landed = [copies.by(stamp[copies.cta, copies.thread]) for copies in landed]
        self.land(landed, same)

    def land(self, landed: Sequence[Copies], is_same_in_ctas: bool) -> None:
        """Write what copies bring; `is_same_in_ctas` says whether those of all CTAs land now."""
        for copies in landed:
            buffer = copies.buffer
            buffer.write(copies.element, copies.value)
            if not copies.is_box:
                self.proxies.write(buffer, copies.element, copies.thread)
            if buffer.log is None:
                continue
            if copies.is_same_in_ctas and is_same_in_ctas:
                copies = copies.of(copies.cta == 0) if buffer.log.copies == 1 else copies
            else:
                buffer.log.spread(self.ctas)
            buffer.log.write(copies.element, copies.tag)

    def barrier(self, ctas: Array) -> None:
        """Order the accesses to the shared memory of some CTAs before and after."""
        for buffer in self._shared.values():
            if buffer.log is not None:
                buffer.log.clear(ctas)
        self.proxies.hand_over(np.broadcast_to(ctas.reshape(-1, 1), (self.ctas, self._threads)))
        if self.phases is not None:
            self.phases.synchronise()

    def cluster_barrier(self, op: Operation, ctas: Array) -> None:
        """Order the accesses to the shared memory of the clusters of some CTAs before and after."""
        if self._check:
            self._in_cluster.barrier(op, ctas)

    def finish(self) -> None:
        """The CTAs that run together end."""
        if self._check:
            self._in_cluster.finish()

    def lane(self, position: Sequence[int]) -> str:
        """A lane, as a message names it."""
        return f"thread {position[-1]} of CTA {int(self.ids[position[-2]])}"

    def _place(self, access: Access, buffer: Buffer | Registers, subscripts: Sequence[Array], frame: Frame) -> _Place:
        if not isinstance(buffer, Registers):
            return self._placed(access, buffer, subscripts, frame)
        # Subscripts of registers are mostly those of the last time: nothing is outside or misaligned then, either.
        known = self._in_registers.get(id(access))
        if known is not None and known[0] is subscripts:
            return replace(known[1], frame=frame)
        place = self._placed(access, buffer, subscripts, frame)
        if place.inside is None and access.width == 1:
            self._in_registers[id(access)] = subscripts, place
        return place

    def _placed(self, access: Access, buffer: Buffer | Registers, subscripts: Sequence[Array], frame: Frame) -> _Place:
        layout = buffer.layout
        address = layout.address(subscripts)
        subscripts = subscripts or [np.asarray(0)]
        shape, rows = layout.shape or (1,), layout.rows or (1,)
        inside = outside_as_false(subscripts, (*shape[:-1], shape[-1] - access.width + 1))
        if inside is not None:
            outside = ~inside if frame.mask is None else frame.mask & ~inside
            if self._check and outside.any():
                self._report_outside(access, subscripts, frame, outside)
            frame = frame.where(inside)
        element = dot(subscripts, rows)
        place = _Place(element if inside is None else np.where(inside, element, 0), address, frame, inside)
        if self._check and access.width > 1:
            self._check_alignment(access, layout, place)
        if isinstance(buffer, Buffer):
            self._count(access, buffer, place)
        return place

    def _elements(self, access: Access, buffer: Buffer | Registers, place: _Place, rank: Array | None = None) -> Array:
        """The numbers of all elements accessed, in the copy of the lane's CTA, or of that rank in its cluster."""
        element = widened(place.element, access, place.frame)
        if not isinstance(buffer, Buffer) or not self._is_shared(buffer):
            return element
        if rank is not None:
            return element + self._in_cluster.peers(rank) * (buffer.data.size // self.ctas)
        return element + self._copies(buffer)

    @property
    def _in_cluster(self) -> Clusters:
        assert self.clusters is not None
        return self.clusters

    def _record_in_cluster(self, access: Access, buffer: Buffer, element: Array, frame: Frame) -> None:
        """Log an access for the other CTAs of the cluster."""
        cta = np.arange(self.ctas).reshape(-1, 1)
        elements, ctas = (select(lanes, access, frame.shape, frame.mask) for lanes in (element, cta))
        self._in_cluster.access(access.op, buffer, elements, ctas, writes=access.writes)

    def _untag(self, tag: int, buffer: Buffer) -> tuple[int, int]:
        """The op's number and the thread of a tag."""
        number, thread = AccessLog.untag(tag)
        if self.phases is not None and self._is_shared(buffer):
            thread = self.phases.clocks.thread(thread)
        elif self.grid is not None and not self._is_shared(buffer):
            thread = self.grid.thread(thread)
        return number, thread

    def _in_grid(self, thread: Array, place: _Place, *, writes: bool) -> Array:
        """The threads of the CTAs as tags hold them: numbered through the grid."""
        threads = thread + self.ids.reshape(-1, 1) * self._threads
        if self.grid is None:
            return threads
        if writes:
            self.grid.write(self.ids, all_lanes(place.frame))
        return self.grid.stamp(self.ids, threads)

    def _copies(self, buffer: Buffer) -> Array:
        """Where the copies of shared memory of the CTAs start."""
        return np.arange(self.ctas).reshape(-1, 1) * (buffer.data.size // self.ctas)

    def _is_shared(self, buffer: Buffer) -> bool:
        return any(buffer is shared for shared in self._shared.values())

    def _check_landed(
        self, access: Access, buffer: Buffer, element: Array, origin: Array | None, place: _Place
    ) -> Array | None:
        """Report reads of elements on their way; the result is `origin`, without a second report of those."""
        tags = self.flight.tags(buffer, element)
        if tags is None or not (tags >= 0).any():
            return origin

        def message(position: Sequence[int], tag: int) -> str:
            number, thread = self._untag(tag, buffer)
            element = self._element(access, buffer.layout, place, position)
            return (
                f"{self.lane(position)} reads {self._name(access)}{element} while thread {thread} still copies to it "
                f"in {self._report.reference(self.ops[number // 2])}; " + self._cure_in_flight
            )

        self._report_in_flight(kinds.READ_IN_FLIGHT, access, tags, place, message)
        return None if origin is None else np.where(tags >= 0, 0, origin)

    def _check_overwritten(self, access: Access, buffer: Buffer, place: _Place) -> None:
        """Report writes of elements that a copy is on its way to."""
        tags = self.flight.tags(buffer, self._elements(access, buffer, place))
        if tags is None or not (tags >= 0).any():
            return

        def message(position: Sequence[int], tag: int) -> str:
            number, thread = self._untag(tag, buffer)
            element = self._element(access, buffer.layout, place, position)
            return (
                f"{self.lane(position)} writes {self._name(access)}{element} while thread {thread} still copies to it "
                f"in {self._report.reference(self.ops[number // 2])}"
            )

        self._report_in_flight(kinds.DATA_RACE, access, tags, place, message)

    def _report_in_flight(
        self, kind: str, access: Access, tags: Array, place: _Place, message: Callable[[Sequence[int], int], str]
    ) -> None:
        frame = place.frame.widened(access.width)
        wrong = tags >= 0 if frame.mask is None else (tags >= 0) & frame.mask
        if not wrong.any():
            return
        position = frame.first(wrong)
        tag = int(np.broadcast_to(tags, frame.shape)[position])
        self._report.add(kind, access.op, frame.count(wrong), lambda: message(position, tag))

    def _element(self, access: Access, layout: Layout, place: _Place, position: Sequence[int]) -> str:
        """The subscripts of the element at a position of the lanes, with the width first where there is one."""
        number = int(np.broadcast_to(place.element, place.frame.shape)[tuple(position[-len(place.frame.shape) :])])
        return layout.element(number + (position[0] if access.width > 1 else 0))

    def _record(self, access: Access, buffer: Buffer, log: AccessLog, place: _Place, *, issues: bool = False) -> None:
        """Log an access, and report its races with earlier ones; one that only `issues` a copy is not logged."""
        shape, mask, times = place.frame.shape, place.frame.mask, 1
        element, thread = widened(place.element, access, place.frame), np.arange(self._threads)
        if not self._is_shared(buffer):
            thread = self._in_grid(thread, place, writes=access.writes)
        else:
            thread = thread if self.phases is None else self.phases.clocks.stamp()
            is_one = log.copies == 1 and is_same_in_ctas(thread)
            if is_one and is_same_in_ctas(element) and (mask is None or is_same_in_ctas(mask)):
                shape, times = (*shape[:-2], 1, shape[-1]), self.ctas
            else:
                log.spread(self.ctas)
                element = element + self._copies(buffer)
        tags = AccessLog.tag(2 * self._numbers[access.op] + access.writes, thread)
        elements, tags = (select(lanes, access, shape, mask) for lanes in (element, tags))
        races = (log.overwrite if issues else log.write if access.writes else log.read)(elements, tags)
        if (races >= 0).any():
            self._report_races(access, buffer, elements, tags, races, times)

    def _count(self, access: Access, buffer: Buffer, place: _Place) -> None:
        counters, frame = self._counters, place.frame
        bytes = access.width * buffer.layout.dtype.itemsize
        total = frame.active * bytes
        rows, times = warps(place.address, frame.mask, frame.shape)
        memory = "shared" if self._is_shared(buffer) else "global"
        is_async = access.lands is not None
        kind = (memory, "write" if access.writes else "read")
        counters.widest[kind] = max(bytes, counters.widest.get(kind, 0))
        if memory == "shared":
            needed, ideal = wavefronts(rows, bytes)
            counters.shared_wavefronts += needed * times
            counters.shared_ideal_wavefronts += ideal * times
            counters.shared_bytes_written += total * access.writes
            counters.shared_bytes_read += total * (not access.writes)
            counters.async_bytes += total * is_async
            counters.async_wavefronts += needed * times * is_async
            counters.async_ideal_wavefronts += ideal * times * is_async
        elif access.writes:
            counters.global_bytes_written += total
            counters.global_sectors_written += sectors(rows, bytes) * times
        else:
            touched = sectors(rows, bytes) * times
            counters.global_bytes_read += total
            counters.global_sectors_read += touched
            counters.async_sectors += touched * is_async

    def _check_alignment(self, access: Access, layout: Layout, place: _Place) -> None:
        bytes = min(access.width * layout.dtype.itemsize, ACCESS_BYTES)
        wrong = place.address % bytes != 0
        if layout.strides[-1:] != (1,):
            wrong = np.ones_like(wrong)
        if place.frame.mask is not None:
            wrong = wrong & place.frame.mask
        if not wrong.any():
            return

        def message() -> str:
            position = place.frame.first(wrong)
            number = int(np.broadcast_to(place.element, place.frame.shape)[position])
            address = int(np.broadcast_to(place.address, place.frame.shape)[position])
            return (
                f"{access.width} elements from {self._name(access)}{layout.element(number)} are not {bytes} aligned "
                f"bytes (offset {address}, stride {layout.strides[-1]}) in {self.lane(position)}; "
                "use a smaller width or pad the rows"
            )

        self._report.add(kinds.MISALIGNED_ACCESS, access.op, place.frame.count(wrong), message)

    def _report_outside(self, access: Access, subscripts: Sequence[Array], frame: Frame, outside: Array) -> None:
        def message() -> str:
            position = frame.first(outside)
            at = ", ".join(str(int(np.broadcast_to(s, frame.shape)[position])) for s in subscripts)
            many = f"{access.width} elements from " if access.width > 1 else ""
            return (
                f"{many}{self._name(access)}[{at}] in {self.lane(position)}, outside of {access.buffer.type}; "
                "guard the access or clamp its subscripts"
            )

        self._report.add(kinds.OUT_OF_BOUNDS, access.op, frame.count(outside), message)

    def _report_races(
        self, access: Access, buffer: Buffer, element: Array, tags: Array, earlier: Array, times: int
    ) -> None:
        races = earlier >= 0

        def message() -> str:
            first = int(np.argmax(races))
            number, thread = self._untag(int(tags[first]), buffer)
            other_number, other = self._untag(int(earlier[first]), buffer)
            copy, element_number = divmod(int(element[first]), max(1, buffer.layout.size))
            shared = self._is_shared(buffer)
            place = f"{self._name(access)}{buffer.layout.element(element_number)}"
            here, there = (
                f"thread {t}" + ("" if shared else f" of CTA {cta}")
                for cta, t in (divmod(tag, self._threads) for tag in (thread, other))
            )
            where = f"in CTA {int(self.ids[copy])}, " if shared else ""
            return (
                f"{where}{here} {_verb(number)} {place}, which {there} {_verb(other_number)} in "
                f"{self._report.reference(self.ops[other_number // 2])}, "
                + self._missing_order(shared, number, other_number)
            )

        self._report.add(kinds.DATA_RACE, access.op, int(np.count_nonzero(races)) * times, message)

    @property
    def _cure_in_flight(self) -> str:
        if self.phases is None:
            return "that thread must wait for the group of the copy first, and a barrier follow"
        return "a wait for the phase at which the copy arrives, or for its group and a barrier, must come first"

    def _missing_order(self, shared: bool, number: int, other_number: int) -> str:
        """What does not order two accesses, by the numbers of their tags."""
        if not shared and self.grid is not None:
            return "with no kernel.fence and kernel.ticket after the first, then a ticket and a fence before the second"
        if not shared:
            return "and nothing orders the threads of a launch"
        if self.phases is None:
            return "with no barrier between"
        if number % 2 and not other_number % 2:
            return "with no phase between: the slot is released early, before its reader arrives, or not waited for"
        return "with no phase between that the first arrives at and the second waits for"

    def _name(self, access: Access) -> str:
        return self._report.names.value(access.buffer)


def _verb(number: int) -> str:
    return "writes" if number % 2 else "reads"
