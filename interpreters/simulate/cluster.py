"""CTAs of a cluster: their barrier, and reads of each other's shared memory."""

from __future__ import annotations

from deplodock.dialects.kernel.cluster import ClusterBarrierOp, ClusterLoadOp
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.lanes import Frame, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.threads import meet


def _barrier(launch: Lockstep, op: ClusterBarrierOp, frame: Frame) -> None:
    launch.memory.tell(Check.on_cluster_barrier, op, meet(launch, op, frame, launch.kernel))


def _load(launch: Lockstep, op: ClusterLoadOp, frame: Frame) -> None:
    (rank,) = evaluate_map(op.rank.data, launch.get(op.rank_indices))
    launch.set(op.result, launch.read(launch.accesses[op][0], frame, rank))


HANDLERS: Handlers = {ClusterBarrierOp: _barrier, ClusterLoadOp: _load}
"""How they run."""
