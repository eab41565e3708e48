"""Loads, stores, buffers on chip, moves, and groups of asynchronous moves."""

from __future__ import annotations

import numpy as np

from deplodock.dialects.buffers import Memory, memory_of
from deplodock.dialects.kernel import AllocOp
from deplodock.dialects.kernel.move import MoveOp
from deplodock.dialects.kernel.sync import CommitGroupOp, WaitGroupOp
from deplodock.dialects.loop import LoadOp, StoreOp
from deplodock.interpreters.affine import holds
from deplodock.interpreters.simulate.checks.unwritten import joined
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.memory import Layout, Registers, Values


def _load(launch: Lockstep, op: LoadOp, frame: Frame) -> None:
    launch.set(op.result, launch.read(launch.accesses[op][0], frame))


def _store(launch: Lockstep, op: StoreOp, frame: Frame) -> None:
    launch.write(launch.accesses[op][0], Values(launch.values[op.value], launch.origins.of([op.value])), frame)


def _alloc(launch: Lockstep, op: AllocOp, frame: Frame) -> None:
    layout = Layout.of(op.result)
    if memory_of(op.result) is Memory.REGISTER:
        launch.buffers[op.result] = Registers(layout, (frame.shape[-2], frame.shape[-1]))
    else:
        launch.buffers[op.result] = launch.memory.shared(op, layout)


def _move(launch: Lockstep, op: MoveOp, frame: Frame) -> None:
    source, destination = launch.accesses[op]
    write = launch.write if not op.is_async else launch.copy
    if op.where is None:
        write(destination, launch.read(source, frame), frame)
        return
    condition = holds(op.where.data, launch.get(op.where_indices))
    inside = frame.where(condition)
    zero = np.zeros((), launch.buffers[op.source].layout.dtype)
    value, origin = launch.read(source, inside) if inside.active else Values(zero)
    origin = None if origin is None else np.where(condition, origin, 0)
    origin = joined(origin, launch.origins.of(op.where_indices))
    write(destination, Values(np.where(condition, value, zero), origin), frame)


def _commit(launch: Lockstep, op: CommitGroupOp, frame: Frame) -> None:
    launch.memory.commit(frame)


def _wait(launch: Lockstep, op: WaitGroupOp, frame: Frame) -> None:
    launch.memory.wait(frame, op.pending.value.data)


HANDLERS: Handlers = {
    **{LoadOp: _load, StoreOp: _store, AllocOp: _alloc},
    **{MoveOp: _move, CommitGroupOp: _commit, WaitGroupOp: _wait},
}
"""How they run."""
