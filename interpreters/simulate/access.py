"""Loads, stores and copies of lanes; what checks are told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Operation

from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.dialects.kernel import FuncOp, MbarrierType, Team
from deplodock.interpreters.affine import outside_as_false
from deplodock.interpreters.simulate.elements import dot, is_same_in_ctas, select, select_values, widened
from deplodock.interpreters.simulate.flight import Copies, Flight
from deplodock.interpreters.simulate.grid import Grid
from deplodock.interpreters.simulate.lanes import Frame, all_lanes
from deplodock.interpreters.simulate.memory import AccessLog, Buffer, Layout, Registers, Values, origin_at
from deplodock.interpreters.simulate.phases import Phases
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.values import Array, poison


class Touch(NamedTuple):
    """Where lanes access a buffer: number and byte address of the first element, and the lanes that do, in bounds."""

    access: Access
    buffer: Buffer | Registers
    element: Array
    address: Array
    frame: Frame
    inside: Array | None
    """Where the subscripts are in bounds; None: everywhere."""
    rank: Array | None = None
    """The CTAs of the cluster whose shared memory it is, if it is not that of the lanes' own."""

    def subscripts(self, position: Sequence[int]) -> str:
        """The subscripts of the element at a position of the lanes, with the width first where there is one."""
        shape = self.frame.shape
        number = int(np.broadcast_to(self.element, shape)[tuple(position[-len(shape) :])])
        return self.buffer.layout.element(number + (position[0] if self.access.width > 1 else 0))


class Check:
    """What looks for one kind of mistake in a launch, or counts: it is told what happens, and acts where it wants.

    `elements` are the numbers of all elements of an access, in the memory of all CTAs that run together.
    """

    def __init__(self, memory: MemoryUnit) -> None:
        self.memory = memory
        self.report = memory.report

    def on_launch(self, buffers: Iterable[Buffer]) -> None:
        """A launch starts that writes these buffers in global memory."""

    def on_start(self) -> None:
        """Other CTAs start to run; they have no shared memory yet."""

    def on_allocate(self, op: Operation, buffer: Buffer) -> None:
        """The CTAs have shared memory from an operation for the first time."""

    def on_outside(self, access: Access, subscripts: Sequence[Array], frame: Frame, outside: Array) -> None:
        """Some lanes access what lies outside of a buffer; nothing more happens there."""

    def on_touch(self, touch: Touch) -> None:
        """Lanes access elements in bounds, in whatever way."""

    def on_read(self, touch: Touch, elements: Array) -> Array | None:
        """Lanes read elements. Returns where the values are known to be wrong, not to be reported again."""

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Lanes write elements."""

    def on_issue(self, touch: Touch, elements: Array) -> None:
        """Lanes start to copy to elements."""

    def on_land(self, copies: Copies, is_same_in_ctas: bool) -> None:
        """Copies land: of all CTAs alike, or not."""

    def on_box(self, access: Access, buffer: Buffer, start: Array, elements: int, frame: Frame) -> None:
        """Lanes start to copy a box of so many elements to shared memory or from it, by the asynchronous proxy."""

    def on_reading(self, touch: Touch, elements: Array) -> None:
        """Lanes start to read elements beside the program, for a product or the store of a box."""

    def on_reading_end(self, touch: Touch, elements: Array) -> None:
        """They have read them: they waited for that."""

    def on_barrier(self, ctas: Array) -> None:
        """All threads of some CTAs meet."""

    def on_cluster_barrier(self, op: Operation, ctas: Array) -> None:
        """All threads of the clusters of some CTAs meet."""

    def on_fence_proxy(self, lanes: Array) -> None:
        """Lanes, of shape [CTAs, threads], fence what they wrote from the asynchronous proxy."""

    def on_arrive(self, lanes: Array) -> None:
        """Lanes let others go on."""

    def on_finish(self) -> None:
        """The CTAs that run together end."""


class MemoryUnit:
    """The accesses of the CTAs of one launch that run together, whose ids are `ids`."""

    def __init__(
        self, kernel: FuncOp, report: Report, counters: Counters, check: bool, checks: Sequence[type[Check]]
    ) -> None:
        self.kernel = kernel
        self.threads = kernel.num_threads
        self.report = report
        self.counters = counters
        self.ops = list(kernel.body.walk())
        self.numbers = {op: number for number, op in enumerate(self.ops)}
        """The numbers of operations, of which tags are made."""
        self.flight = Flight(0, 0)
        self.phases: Phases | None = None
        has_tickets = any(access.is_atomic for op in self.ops for access in accesses_of(op))
        self.grid = Grid(kernel.num_blocks, kernel.num_threads) if check and has_tickets else None
        """What the CTAs of a launch with tickets know of each other."""
        self.ids = np.zeros(0, np.int64)
        self.ctas = 0
        self._check = check
        self._shared: dict[Operation, Buffer] = {}
        self._in_registers: dict[int, tuple[Sequence[Array], Touch]] = {}
        makes_barriers = any(isinstance(result.type, MbarrierType) for op in self.ops for result in op.results)
        self._has_phases = makes_barriers or bool(kernel.roles)
        self._checks = [kind(self) for kind in checks]
        self._told: dict[Callable[..., Any], list[Callable[..., Any]]] = {}

    def tell(self, what: Callable[..., Any], *facts: object) -> None:
        """Tell the checks that want to know, `tell(Check.on_arrive, lanes)`."""
        for hear in self._who_hears(what):
            hear(*facts)

    def _who_hears(self, what: Callable[..., Any]) -> list[Callable[..., Any]]:
        found = self._told.get(what)
        if found is None:
            name = what.__name__
            wants = [check for check in self._checks if getattr(type(check), name) is not what]
            found = self._told[what] = [getattr(check, name) for check in wants]
        return found

    def start(self, ids: Array) -> None:
        """Go to other CTAs; they have no shared memory yet, and nothing is in flight."""
        self.ids, self.ctas = ids, len(ids)
        self._shared = {}
        self.flight = Flight(self.ctas, self.threads)
        self.phases = Phases(self.ctas, self.threads) if self._has_phases else None
        self.tell(Check.on_start)

    def shared(self, op: Operation, layout: Layout) -> Buffer:
        """The shared memory that an allocation gives, the same each time it runs; what was in it is lost."""
        buffer = self._shared.get(op)
        if buffer is None:
            buffer = self._shared[op] = Buffer.unwritten(layout, self.ctas)
            self.tell(Check.on_allocate, op, buffer)
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
        touch = self._touch(access, buffer, subscripts, frame, rank)
        return self.take(touch, self._elements(touch))

    def place(self, access: Access, buffer: Buffer, subscripts: Sequence[Array], frame: Frame) -> tuple[Touch, Array]:
        """Where lanes access a buffer, and the numbers of all elements of it."""
        touch = self._touch(access, buffer, subscripts, frame)
        return touch, self._elements(touch)

    def take(self, touch: Touch, element: Array) -> Values:
        """The values of the elements where lanes read a buffer."""
        buffer = touch.buffer
        value = buffer.read(element)
        origin = self.origin(touch.access.op, buffer, element)
        if isinstance(buffer, Buffer):
            for hear in self._who_hears(Check.on_read):
                wrong = hear(touch, element)
                origin = origin if wrong is None or origin is None else np.where(wrong, 0, origin)
        if origin is not None and touch.frame.mask is not None:
            origin = np.where(touch.frame.mask, origin, 0)
        return Values(value if touch.inside is None else np.where(touch.inside, value, poison(value.dtype)), origin)

    def origin(self, op: Operation, buffer: Buffer | Registers, element: Array) -> Array | None:
        """The origins of elements that an op reads, unless nothing is checked; None if they all hold a value."""
        origin = buffer.origin(element) if self._check else None
        return None if origin is None else np.where(origin < 0, origin_at(self.numbers[op], element), origin)

    def write(
        self, access: Access, buffer: Buffer | Registers, subscripts: Sequence[Array], value: Values, frame: Frame
    ) -> None:
        """Write the values of lanes; with a width, their first dimension is that of the elements."""
        touch = self._touch(access, buffer, subscripts, frame)
        element, frame = self._elements(touch), touch.frame
        if isinstance(buffer, Registers):
            buffer.write(element, value, frame.mask)
            return
        lanes = select(element, access, frame.shape, frame.mask)
        buffer.write(lanes, select_values(value, access, frame.shape, frame.mask))
        self.tell(Check.on_write, touch, element)

    def touched(self, access: Access, buffer: Buffer, subscripts: Sequence[Array], frame: Frame) -> tuple[Array, Array]:
        """The elements of global memory that active lanes access in bounds, and the ids of the lanes' CTAs."""
        touch = self._touch(access, buffer, subscripts, frame)
        element, shape, mask = self._elements(touch), touch.frame.shape, touch.frame.mask
        ids = np.broadcast_to(self.ids.reshape(-1, 1), shape)
        return select(element, access, shape, mask), select(ids, access, shape, mask)

    def copy(self, access: Access, buffer: Buffer, subscripts: Sequence[Array], value: Values, frame: Frame) -> None:
        """Start to copy the values of lanes to shared memory; they arrive when the lanes wait for them."""
        self.flight.issue(self._started(self._touch(access, buffer, subscripts, frame), buffer, value))

    def box(self, access: Access, buffer: Buffer, start: Array, value: Values, frame: Frame) -> Copies:
        """Start to copy as many elements as the access is wide, from element `start` of each lane on."""
        self.tell(Check.on_box, access, buffer, start, access.width, frame)
        touch = Touch(access, buffer, start, start * buffer.layout.dtype.itemsize, frame, None)
        return replace(self._started(touch, buffer, value), is_box=True)

    def box_read(self, access: Access, buffer: Buffer, start: Array, frame: Frame) -> tuple[Touch, Array, Values]:
        """Read as many elements as the access is wide, from element `start` of each lane on: where, and what."""
        self.tell(Check.on_box, access, buffer, start, access.width, frame)
        touch = Touch(access, buffer, start, start * buffer.layout.dtype.itemsize, frame, None)
        elements = self._elements(touch)
        return touch, elements, self.take(touch, elements)

    def _started(self, touch: Touch, buffer: Buffer, value: Values) -> Copies:
        """The copies of lanes, which nothing before must conflict with."""
        access, shape, mask, element = touch.access, touch.frame.shape, touch.frame.mask, self._elements(touch)
        self.tell(Check.on_issue, touch, element)
        cta, thread = np.arange(self.ctas).reshape(-1, 1), np.arange(self.threads)
        stamp = thread if self.phases is None else self.phases.clocks.stamp(copies=True)
        tag = AccessLog.tag(2 * self.numbers[access.op] + 1, stamp)
        element, tag, cta, thread = (select(array, access, shape, mask) for array in (element, tag, cta, thread))
        same = is_same_in_ctas(touch.element) and (mask is None or is_same_in_ctas(mask))
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
            copies.buffer.write(copies.element, copies.value)
            self.tell(Check.on_land, copies, copies.is_same_in_ctas and is_same_in_ctas)

    def barrier(self, ctas: Array) -> None:
        """Order the accesses to the shared memory of some CTAs before and after."""
        self.tell(Check.on_barrier, ctas)
        if self.phases is not None:
            self.phases.synchronise()

    def role_barrier(self, lanes: Array, role: Team) -> None:
        """Order what the threads of a role, of shape [CTAs, threads], did before and do after."""
        self.tell(Check.on_arrive, lanes)
        assert self.phases is not None
        self.phases.meet(lanes, role)

    def lane(self, position: Sequence[int]) -> str:
        """A lane, as a message names it."""
        return f"thread {position[-1]} of CTA {int(self.ids[position[-2]])}"

    def name(self, access: Access) -> str:
        """The buffer of an access, as a message names it."""
        return self.report.names.value(access.buffer)

    def is_shared(self, buffer: Buffer | Registers) -> bool:
        """Whether a buffer is shared memory of the CTAs that run together."""
        return any(buffer is shared for shared in self._shared.values())

    def copies_of(self, buffer: Buffer) -> Array:
        """Where the copies of shared memory of the CTAs start."""
        return np.arange(self.ctas).reshape(-1, 1) * (buffer.data.size // self.ctas)

    def untag(self, tag: int, buffer: Buffer) -> tuple[int, int]:
        """The op's number and the thread of a tag."""
        number, thread = AccessLog.untag(tag)
        if self.phases is not None and self.is_shared(buffer):
            thread = self.phases.clocks.thread(thread)
        elif self.grid is not None and not self.is_shared(buffer):
            thread = self.grid.thread(thread)
        return number, thread

    def _touch(
        self,
        access: Access,
        buffer: Buffer | Registers,
        subscripts: Sequence[Array],
        frame: Frame,
        rank: Array | None = None,
    ) -> Touch:
        if not isinstance(buffer, Registers):
            return self._placed(access, buffer, subscripts, frame, rank)
        # Subscripts of registers are mostly those of the last time: nothing is outside or misaligned then, either.
        known = self._in_registers.get(id(access))
        if known is not None and known[0] is subscripts:
            return known[1]._replace(buffer=buffer, frame=frame)
        touch = self._placed(access, buffer, subscripts, frame, rank)
        if touch.inside is None and access.width == 1:
            self._in_registers[id(access)] = subscripts, touch
        return touch

    def _placed(
        self,
        access: Access,
        buffer: Buffer | Registers,
        subscripts: Sequence[Array],
        frame: Frame,
        rank: Array | None,
    ) -> Touch:
        layout = buffer.layout
        address = layout.address(subscripts)
        subscripts = subscripts or [np.asarray(0)]
        shape, rows = layout.shape or (1,), layout.rows or (1,)
        starts = list(shape)
        starts[access.along] -= access.width - 1
        inside = outside_as_false(subscripts, starts)
        if inside is not None:
            outside = ~inside if frame.mask is None else frame.mask & ~inside
            if outside.any():
                self.tell(Check.on_outside, access, subscripts, frame, outside)
            frame = frame.where(inside)
        element = dot(subscripts, rows)
        element = element if inside is None else np.where(inside, element, 0)
        touch = Touch(access, buffer, element, address, frame, inside, rank)
        self.tell(Check.on_touch, touch)
        return touch

    def _elements(self, touch: Touch) -> Array:
        """The numbers of all elements accessed, in the copy of the lane's CTA, or of that rank in its cluster."""
        element, buffer = widened(touch.element, touch.access, touch.frame), touch.buffer
        if not isinstance(buffer, Buffer) or not self.is_shared(buffer):
            return element
        if touch.rank is None:
            return element + self.copies_of(buffer)
        size, places = self.kernel.cluster_size, np.arange(self.ctas).reshape(-1, 1)
        peers = places - places % size + np.clip(touch.rank, 0, size - 1)
        return element + peers * (buffer.data.size // self.ctas)
