"""Copies of boxes: what a tensor map brings to shared memory, and the checks of the thread that issues it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir.affine import AffineMap

from deplodock.analysis.operations import label
from deplodock.dialects.interfaces import Access
from deplodock.dialects.kernel import team_of
from deplodock.dialects.kernel.sync import FenceProxyAsyncOp
from deplodock.dialects.kernel.tma import TmaLoadOp, box_alignment
from deplodock.dialects.loop import memref_of
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep, Unit
from deplodock.interpreters.simulate.memory import Buffer, Values
from deplodock.interpreters.simulate.sync import SyncUnit
from deplodock.interpreters.values import Array


class TmaUnit(Unit):
    """The tensor memory accelerator, for the CTAs that run together."""

    def __init__(self, launch: Lockstep) -> None:
        self._memory = launch.memory
        self._sync = launch.unit(SyncUnit)
        self._report = launch.report
        self._check = launch.check

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
        layout, box = destination.layout, op.tensor_map.extents
        start = np.asarray(sum((s * n for s, n in zip(subscripts, layout.rows, strict=True)), np.asarray(0)))
        elements, unit = math.prod(box), box_alignment(memref_of(op.destination))
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
                f"{lane} copies a box to {self._name(op)}, to no multiple of {unit} bytes; "
                "make the slots of the buffer as large"
            ),
        )
        outside = (start < 0) | (start + elements > layout.size)
        self._report_where(
            kinds.OUT_OF_BOUNDS,
            op,
            np.asarray(outside),
            frame,
            lambda lane: f"{lane} copies a box to {self._name(op)} that ends outside of {op.destination.type}",
        )
        inside = frame.where(np.asarray(~outside))
        if not inside.active:
            return
        start = np.where(outside, 0, start)
        access = Access(op, op.destination, True, AffineMap.identity(0), (), (elements,))
        copies = self._memory.box(access, destination, start, self._box(op, source, first, box), inside)
        self._sync.signal(op, op.barrier, inside, slot, copies, op.tensor_map.bytes)

    def _report_where(
        self, kind: str, op: TmaLoadOp, wrong: Array, frame: Frame, message: Callable[[str], str]
    ) -> None:
        if not self._check or not (wrong := wrong & all_lanes(frame)).any():
            return
        self._report.add(kind, op, frame.count(wrong), lambda: message(self._memory.lane(frame.first(wrong))))

    def _box(self, op: TmaLoadOp, source: Buffer, first: Sequence[Array], box: Sequence[int]) -> Values:
        """The elements of boxes that start at subscripts, in a first dimension; zeros outside of the buffer."""
        offsets = np.indices(box).reshape(len(box), -1)
        position, inside = np.asarray(0), np.asarray(True)
        for start, offset, extent, row in zip(first, offsets, source.layout.shape, source.layout.rows, strict=True):
            at = np.asarray(start) + offset.reshape(-1, *(1,) * max(2, np.ndim(start)))
            inside = inside & (at >= 0) & (at < extent)
            position = position + np.clip(at, 0, extent - 1) * row
        origin = self._memory.origin(op, source, position)
        origin = None if origin is None else np.where(inside, origin, 0)
        return Values(np.where(inside, source.read(position), np.zeros((), source.layout.dtype)), origin)

    def _name(self, op: TmaLoadOp) -> str:
        return self._report.names.value(op.destination)


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


HANDLERS: Handlers = {FenceProxyAsyncOp: _fence, TmaLoadOp: _load}
"""How they run."""
