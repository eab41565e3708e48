"""CTAs of a cluster: their barrier, and reads of each other's shared memory."""

from __future__ import annotations

from deplodock.dialects.kernel import team_of
from deplodock.dialects.kernel.cluster import ClusterBarrierOp, ClusterMoveOp
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.lanes import Frame, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.roles import Roles
from deplodock.interpreters.simulate.threads import meet


def _barrier(launch: Lockstep, op: ClusterBarrierOp, frame: Frame) -> None:
    roles = launch.unit(Roles)
    roles.wait(op, roles.is_last)
    if not roles.is_last():
        roles.end()
    launch.memory.tell(Check.on_cluster_barrier, op, meet(launch, op, frame, team_of(op)))


def _move(launch: Lockstep, op: ClusterMoveOp, frame: Frame) -> None:
    source, destination = launch.accesses[op]
    (rank,) = evaluate_map(op.rank.data, launch.get(op.rank_indices))
    launch.write(destination, launch.read(source, frame, rank), frame)


HANDLERS: Handlers = {ClusterBarrierOp: _barrier, ClusterMoveOp: _move}
"""How they run."""
