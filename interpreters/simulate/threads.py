"""Threads that meet: barriers of a CTA, and shuffles of a warp."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from deplodock.analysis.machine.targets import WARP
from deplodock.dialects.kernel import ShuffleXorOp
from deplodock.dialects.kernel.sync import BarrierOp
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.memory import Values
from deplodock.interpreters.values import Array, poison


def _shuffle(launch: Lockstep, op: ShuffleXorOp, frame: Frame) -> None:
    value, origin = np.broadcast_to(launch.values[op.value], frame.shape), launch.origins.of([op.value])
    threads = frame.shape[-1]
    if launch.check and (frame.mask is not None or threads % WARP):
        check_warps(launch, op, frame, kinds.DIVERGENT_SHUFFLE, "shuffle")
    partner = np.arange(threads) ^ op.mask.value.data
    exists = partner < threads
    source = np.where(exists, partner, 0)
    origin = None if origin is None else np.broadcast_to(origin, frame.shape)[..., source]
    shuffled = value[..., source]
    shuffled = shuffled if exists.all() else np.where(exists, shuffled, poison(value.dtype))
    launch.set(op.result, Values(shuffled, origin))


def check_warps(launch: Lockstep, op: Operation, frame: Frame, kind: str, what: str) -> None:
    """Report an operation, a finding of that kind, that a warp runs without all of its 32 lanes."""
    active = np.ones(frame.shape, np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, frame.shape)
    missing = -frame.shape[-1] % WARP
    padded = np.concatenate([active, np.zeros((*active.shape[:-1], missing), np.bool_)], axis=-1)
    lanes = padded.reshape(*padded.shape[:-1], -1, WARP).sum(axis=-1)
    broken = (lanes > 0) & (lanes < WARP)
    if not broken.any():
        return

    def message() -> str:
        position = [int(i) for i in np.unravel_index(np.argmax(broken), broken.shape)]
        cta = int(launch.memory.ids[position[-2]])
        return (
            f"only {int(lanes[tuple(position)])} of the 32 lanes of warp {position[-1]} of CTA {cta} take part; "
            f"all lanes of a warp must reach a {what}"
        )

    launch.report.add(kind, op, int(np.count_nonzero(broken)), message)


def _barrier(launch: Lockstep, op: BarrierOp, frame: Frame) -> None:
    meet(launch, op, frame)


def meet(launch: Lockstep, op: Operation, frame: Frame) -> Array:
    """Let the lanes of CTAs meet. Returns which CTAs are here."""
    ctas, threads = frame.shape
    arrived = np.full(ctas, threads)
    if frame.mask is not None:
        arrived = np.broadcast_to(frame.mask, frame.shape).sum(axis=-1)
    split = (arrived > 0) & (arrived < threads)
    if launch.check and split.any():
        _report_split(launch, op, frame, split, arrived)
    launch.counters.barriers += int(np.count_nonzero(arrived))
    launch.memory.barrier(arrived > 0)
    return arrived > 0


def _report_split(launch: Lockstep, op: Operation, frame: Frame, split: Array, arrived: Array) -> None:
    def message() -> str:
        cta = int(np.argmax(split))
        here = np.ones(frame.shape, np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, frame.shape)
        there, away = int(np.argmax(here[cta])), int(np.argmin(here[cta]))
        return (
            f"only {int(arrived[cta])} of the {frame.shape[-1]} threads of CTA {int(launch.memory.ids[cta])} "
            f"reach it: thread {there} does, thread {away} does not; move it out of the guard or loop"
        )

    launch.report.add(kinds.DIVERGENT_BARRIER, op, int(np.count_nonzero(split)), message)


HANDLERS: Handlers = {BarrierOp: _barrier, ShuffleXorOp: _shuffle}
"""How they run."""
