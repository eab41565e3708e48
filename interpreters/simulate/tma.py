"""Copies and stores of boxes: what a tensor map brings to shared memory, or takes from there, and the checks of the
thread that issues it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.operations import label
from deplodock.dialects.buffers import box_alignment
from deplodock.dialects.interfaces import Access, row
from deplodock.dialects.kernel import team_of
from deplodock.dialects.kernel.sync import FenceProxyAsyncOp
from deplodock.dialects.kernel.tma import TmaCommitOp, TmaLoadOp, TmaStoreOp, TmaWaitOp
from deplodock.dialects.loop import memref_of
from deplodock.interpreters.scalars import round_tf32
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, Touch
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep, Unit
from deplodock.interpreters.simulate.memory import Buffer, Layout, Values
from deplodock.interpreters.simulate.sync import SyncUnit
from deplodock.interpreters.values import Array

_Box: TypeAlias = TmaLoadOp | TmaStoreOp
"""What moves a box."""


@dataclass
class _Store:
    """A store in flight: the box that it reads, and the lanes, [CTAs, threads], that did not wait yet, with groups."""

    touch: Touch
    elements: Array
    lanes: Array
    group: Array


def units_of_boxes(
    access: Access, layout: Layout, first: Sequence[Array], frame: Frame
) -> tuple[Access, list[Array], Frame]:
    """An access of boxes of global memory, from subscripts on, as one of neighbours: where, and those inside of it.

    The neighbours are in a first dimension of the subscripts and of the frame, in the order of the box.
    """
    box = access.extents
    width = math.gcd(box[-1], layout.shape[-1], *np.unique(first[-1]).tolist())
    counts = (*box[:-1], box[-1] // width)
    offsets = np.indices(counts).reshape(len(counts), -1, *(1,) * max(2, *(np.ndim(at) for at in first)))
    offsets[-1] *= width
    subscripts = [np.asarray(at) + offset for at, offset in zip(first, offsets, strict=True)]
    inside = np.asarray(True)
    for at, most in zip(subscripts, layout.shape, strict=True):
        inside = inside & (at >= 0) & (at < most)
    units = replace(frame, shape=(math.prod(counts), *frame.shape)).where(inside)
    return replace(access, extents=row(len(box), width)), subscripts, units


class TmaUnit(Unit):
    """The tensor memory accelerator, for the CTAs that run together."""

    def __init__(self, launch: Lockstep) -> None:
        self._launch = launch
        self._memory = launch.memory
        self._sync = launch.unit(SyncUnit)
        self._report = launch.report
        self._check = launch.check
        self._ids: Array | None = None
        self._stores: list[_Store] = []
        self._groups = np.zeros((0, 0), np.int64)

    def load(
        self,
        op: TmaLoadOp,
        source: Buffer,
        destination: Buffer,
        places: tuple[Sequence[Array], Sequence[Array], Array],
        frame: Frame,
    ) -> None:
        """Start the copies that lanes issue; `places` are the subscripts of box and destination, and the slot."""
        first, subscripts, slot = places
        start, inside = self._placed(op, op.destination, destination, subscripts, frame)
        if not inside.active:
            return
        box = op.tensor_map.extents
        access = Access(op, op.destination, True, AffineMap.identity(0), (), (math.prod(box),))
        copies = self._memory.box(access, destination, start, self._box(op, source, first, box), inside)
        self._sync.signal(op, op.barrier, inside, slot, copies, op.tensor_map.bytes)

    def store(
        self,
        op: TmaStoreOp,
        source: Buffer,
        destination: Buffer,
        places: tuple[Sequence[Array], Sequence[Array]],
        frame: Frame,
    ) -> None:
        """Start the stores that lanes issue, each in its open group; `places` are the subscripts of both boxes."""
        self._renew(frame)
        subscripts, first = places
        start, inside = self._placed(op, op.source, source, subscripts, frame)
        if not inside.active:
            return
        access = Access(op, op.source, False, AffineMap.identity(0), (), (math.prod(op.tensor_map.extents),))
        touch, elements, values = self._memory.box_read(access, source, start, inside)
        lanes = all_lanes(inside)
        self._stores.append(_Store(touch, elements, lanes, self._groups.copy()))
        self._memory.tell(Check.on_reading, touch, elements)
        self._write(op, destination, first, values, inside)

    def commit(self, frame: Frame) -> None:
        """Close the open groups of lanes."""
        self._renew(frame)
        self._groups = self._groups + all_lanes(frame)

    def wait(self, frame: Frame, pending: int) -> None:
        """Let the boxes of lanes have been read, but for those of their `pending` last groups."""
        self._renew(frame)
        for store in self._stores:
            done = store.lanes & all_lanes(frame) & (store.group < self._groups - pending)
            touch = store.touch._replace(frame=Frame(store.touch.frame.shape).where(done))
            if done.any():
                self._memory.tell(Check.on_reading_end, touch, store.elements)
                self._memory.tell(Check.on_read, touch, store.elements)
            store.lanes = store.lanes & ~done
        self._stores = [store for store in self._stores if store.lanes.any()]

    def _renew(self, frame: Frame) -> None:
        """Start anew with other CTAs."""
        if self._ids is not self._memory.ids:
            self._ids, self._stores = self._memory.ids, []
            self._groups = np.zeros(frame.shape, np.int64)

    def _placed(
        self, op: _Box, shared: SSAValue, buffer: Buffer, subscripts: Sequence[Array], frame: Frame
    ) -> tuple[Array, Frame]:
        """Where boxes of lanes start in shared memory, and the lanes whose boxes are inside."""
        layout, name = buffer.layout, self._report.names.value
        start = np.asarray(sum((s * n for s, n in zip(subscripts, layout.rows, strict=True)), np.asarray(0)))
        elements, unit = math.prod(op.tensor_map.extents), box_alignment(memref_of(shared))
        at = "to" if isinstance(op, TmaLoadOp) else "from"
        self._report_where(
            kinds.REPEATED_ISSUE,
            op,
            np.asarray(all_lanes(frame).sum(axis=-1, keepdims=True) > 1),
            frame,
            lambda lane: (
                f"several threads issue the copy, {lane} is one; guard it with `{label(team_of(op).thread_id)} < 1`"
            ),
        )
        self._report_where(
            kinds.MISALIGNED_SLOT,
            op,
            np.asarray((start * layout.dtype.itemsize) % unit != 0),
            frame,
            lambda lane: (
                f"{lane} copies a box {at} {name(shared)}, {at} no multiple of {unit} bytes; "
                "make the slots of the buffer as large"
            ),
        )
        outside = (start < 0) | (start + elements > layout.size)
        self._report_where(
            kinds.OUT_OF_BOUNDS,
            op,
            np.asarray(outside),
            frame,
            lambda lane: f"{lane} copies a box {at} {name(shared)} that ends outside of {shared.type}",
        )
        return np.where(outside, 0, start), frame.where(np.asarray(~outside))

    def _write(self, op: TmaStoreOp, buffer: Buffer, first: Sequence[Array], values: Values, frame: Frame) -> None:
        """Write the elements of boxes that start at subscripts, those inside of the buffer: neighbours at once."""
        *_, access = self._launch.accesses[op]
        written, subscripts, units = units_of_boxes(access, buffer.layout, first, frame)
        width, box = written.width, access.extents
        counts = (*box[:-1], box[-1] // width)
        data, origin = (None if each is None else self._units(each, counts, width) for each in values)
        assert data is not None
        self._launch.origins.count(op, origin, units.widened(width))
        self._memory.write(written, buffer, subscripts, Values(data), units)

    @staticmethod
    def _units(elements: Array, counts: Sequence[int], width: int) -> Array:
        """Elements of boxes, in a first dimension, as neighbours and how often there are so many."""
        shape = math.prod(counts), width, *elements.shape[1:]
        return np.moveaxis(elements.reshape(shape), 1, 0) if width > 1 else elements.reshape(shape[0], *shape[2:])

    def _report_where(self, kind: str, op: _Box, wrong: Array, frame: Frame, message: Callable[[str], str]) -> None:
        if not self._check or not (wrong := wrong & all_lanes(frame)).any():
            return
        self._report.add(kind, op, frame.count(wrong), lambda: message(self._memory.lane(frame.first(wrong))))

    def _box(self, op: TmaLoadOp, source: Buffer, first: Sequence[Array], box: Sequence[int]) -> Values:
        """The elements of boxes that start at subscripts, in a first dimension; zeros outside of the buffer."""
        offsets = np.indices(box).reshape(len(box), -1)
        position, inside = np.asarray(0), np.asarray(True)
        for start, offset, extent, step in zip(first, offsets, source.layout.shape, source.layout.rows, strict=True):
            at = np.asarray(start) + offset.reshape(-1, *(1,) * max(2, np.ndim(start)))
            inside = inside & (at >= 0) & (at < extent)
            position = position + np.clip(at, 0, extent - 1) * step
        origin = self._memory.origin(op, source, position)
        origin = None if origin is None else np.where(inside, origin, 0)
        elements = np.where(inside, source.read(position), np.zeros((), source.layout.dtype))
        return Values(round_tf32(elements) if op.tensor_map.is_tf32 else elements, origin)


def _fence(launch: Lockstep, op: FenceProxyAsyncOp, frame: Frame) -> None:
    launch.memory.tell(Check.on_fence_proxy, all_lanes(frame))
    if launch.memory.phases is not None:
        launch.memory.phases.fence(all_lanes(frame))


def _load(launch: Lockstep, op: TmaLoadOp, frame: Frame) -> None:
    source, destination = launch.buffers[op.map], launch.buffers[op.destination]
    assert isinstance(source, Buffer)
    assert isinstance(destination, Buffer)
    first = evaluate_map(op.source_map.data, launch.get(op.source_indices))
    subscripts = evaluate_map(op.destination_map.data, launch.get(op.destination_indices))
    (slot,) = evaluate_map(op.slot.data, launch.get(op.slot_indices))
    launch.unit(TmaUnit).load(op, source, destination, (first, subscripts, slot), frame)


def _store(launch: Lockstep, op: TmaStoreOp, frame: Frame) -> None:
    source, destination = launch.buffers[op.source], launch.buffers[op.map]
    assert isinstance(source, Buffer)
    assert isinstance(destination, Buffer)
    subscripts = evaluate_map(op.source_map.data, launch.get(op.source_indices))
    first = evaluate_map(op.destination_map.data, launch.get(op.destination_indices))
    launch.unit(TmaUnit).store(op, source, destination, (subscripts, first), frame)


def _commit(launch: Lockstep, op: TmaCommitOp, frame: Frame) -> None:
    launch.unit(TmaUnit).commit(frame)


def _wait(launch: Lockstep, op: TmaWaitOp, frame: Frame) -> None:
    launch.unit(TmaUnit).wait(frame, op.pending.value.data)


HANDLERS: Handlers = {
    **{FenceProxyAsyncOp: _fence, TmaLoadOp: _load},
    **{TmaStoreOp: _store, TmaCommitOp: _commit, TmaWaitOp: _wait},
}
"""How they run."""
