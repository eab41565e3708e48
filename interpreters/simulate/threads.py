"""Threads that meet: barriers of a CTA, and shuffles of a warp."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from deplodock.analysis.machine.targets import WARP
from deplodock.dialects.kernel import Team, team_of
from deplodock.dialects.kernel.shuffle import SHUFFLES, Shuffle
from deplodock.dialects.kernel.sync import BarrierOp
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.lanes import Frame, all_lanes
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.memory import Values
from deplodock.interpreters.values import Array, poison


def _shuffle(launch: Lockstep, op: Shuffle, frame: Frame) -> None:
    value, origin = np.broadcast_to(launch.values[op.value], frame.shape), launch.origins.of([op.value])
    threads = frame.shape[-1]
    if launch.check and (frame.mask is not None or threads % WARP):
        check_warps(launch, op, frame, kinds.DIVERGENT_SHUFFLE, "shuffle")
    lane = np.array([op.source(lane) for lane in range(WARP)])
    partner = np.arange(threads) // WARP * WARP + np.resize(lane, threads)
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
    meet(launch, op, frame, team_of(op))


def meet(launch: Lockstep, op: Operation, frame: Frame, team: Team) -> Array:
    """Let the lanes of CTAs, or of a role of them, meet. Returns which CTAs are here."""
    lanes = all_lanes(frame)
    arrived = lanes.sum(axis=-1)
    split = (arrived > 0) & (arrived < team.num_threads)
    if launch.check and split.any():
        _report_split(launch, op, frame, split, team)
    launch.counters.barriers += int(np.count_nonzero(arrived))
    if team.role_name is not None:
        launch.memory.role_barrier(lanes, team)
    else:
        launch.memory.barrier(arrived > 0)
    return arrived > 0


def _report_split(launch: Lockstep, op: Operation, frame: Frame, split: Array, team: Team) -> None:
    def message() -> str:
        cta, first = int(np.argmax(split)), team.first_thread
        here = all_lanes(frame)[cta, first : first + team.num_threads]
        there, away = first + int(np.argmax(here)), first + int(np.argmin(here))
        of = f"the {team.role_name} of " if team.role_name is not None else ""
        return (
            f"only {int(here.sum())} of the {team.num_threads} threads of {of}CTA {int(launch.memory.ids[cta])} "
            f"reach it: thread {there} does, thread {away} does not; move it out of the guard or loop"
        )

    launch.report.add(kinds.DIVERGENT_BARRIER, op, int(np.count_nonzero(split)), message)


HANDLERS: Handlers = {BarrierOp: _barrier, **dict.fromkeys(SHUFFLES, _shuffle)}
"""How they run."""
