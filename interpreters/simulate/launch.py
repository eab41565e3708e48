"""Runs one launch of a kernel: the CTAs, as many at once as memory allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import MemRefType

from deplodock.dialects.buffers import Memory, memory_of
from deplodock.dialects.kernel import FuncOp
from deplodock.dialects.loop import ForOp
from deplodock.interpreters.simulate import cluster, machine, mma, moves, roles, sync, threads, tickets, tma, wgmma
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.checks.alignment import Alignment
from deplodock.interpreters.simulate.checks.bounds import Bounds
from deplodock.interpreters.simulate.checks.cluster import Clusters
from deplodock.interpreters.simulate.checks.costs import Costs
from deplodock.interpreters.simulate.checks.landed import Landed
from deplodock.interpreters.simulate.checks.proxy import Proxies
from deplodock.interpreters.simulate.checks.races import Races
from deplodock.interpreters.simulate.checks.reads import ReadsInFlight
from deplodock.interpreters.simulate.checks.registers import RegisterIndices
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.machine import ELEMENTS_AT_ONCE, Handlers, Lockstep
from deplodock.interpreters.simulate.memory import Buffer, Layout
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.values import Array

_LANES_AT_ONCE = 1 << 18

_PARTS = (machine, moves, threads, mma, wgmma, roles, sync, tma, tickets, cluster)

HANDLERS: Handlers = {op: handler for part in _PARTS for op, handler in part.HANDLERS.items()}
"""How each operation runs; any other is a scalar operation."""

COUNTS = (Costs,)
"""What counts."""

CHECKS = (RegisterIndices, Bounds, Alignment, Landed, Races, ReadsInFlight, Clusters, Proxies)
"""What looks for mistakes, in the order in which they are told what happens."""


class Launch(Lockstep):
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
        *,
        counts: bool = True,
    ) -> None:
        """`order` holds the ids of the CTAs that run, in that order, those of a cluster together; by default all.

        `most_steps` are the lane steps that may run, None: any number; `counts` is whether accesses are counted.
        """
        checks = (*(COUNTS if counts else ()), *(CHECKS if check else ()))
        super().__init__(kernel, arguments, report, counters, check, HANDLERS, checks, most_steps)
        self._order = np.arange(kernel.num_blocks) if order is None else order
        self.is_sample = len(self._order) < kernel.num_blocks

    def run(self) -> None:
        """Run the CTAs, as many at once as memory allows. Findings and counts go where the launch was told.

        Raises:
            UnsupportedError: an op or type that the simulator does not know.
        """
        self.memory.tell(Check.on_launch, self._written())
        self.run_ctas()
        self.end()

    def run_ctas(self) -> None:
        """Run the CTAs, and nothing before or after."""
        at_once = self._ctas_at_once()
        with np.errstate(all="ignore"):
            for first in range(0, len(self._order), at_once):
                ids = self._order[first : first + at_once]
                self.memory.start(ids)
                self.values[self.kernel.block_id] = ids.reshape(-1, 1)
                self.values[self.kernel.thread_id] = np.arange(self.kernel.num_threads).reshape(1, -1)
                self.block(self.kernel.body.block, Frame((len(ids), self.kernel.num_threads)))
                self.memory.tell(Check.on_finish)

    def _written(self) -> list[Buffer]:
        """The buffers in global memory that the kernel writes; those of counters have checks of their own."""
        sides = (access for found in self.accesses.values() for access in found)
        written = {self.identity(access.buffer) for access in sides if access.writes and not access.is_atomic}
        found = {self.identity(parameter): self.buffers[parameter] for parameter in self.kernel.parameters}
        return [buffer for key, buffer in found.items() if key in written and isinstance(buffer, Buffer)]

    def _ctas_at_once(self) -> int:
        threads = self.kernel.num_threads
        points, registers, shared = 1, 0, 0
        for op in self.kernel.body.walk():
            if isinstance(op, ForOp) and (nest := self.nests.of(op)) is not None:
                points = max(points, nest.points)
            made = [result for result in op.results if isinstance(result.type, MemRefType)]
            registers += sum(Layout.of(buffer).size for buffer in made if memory_of(buffer) is Memory.REGISTER)
            shared += sum(Layout.of(buffer).size for buffer in made if memory_of(buffer) is Memory.SHARED)
        by_lanes = _LANES_AT_ONCE // (threads * points)
        by_memory = ELEMENTS_AT_ONCE // (threads * (points + registers) + shared)
        cluster = self.kernel.cluster_size
        return max(cluster, min(len(self._order), by_lanes, by_memory) // cluster * cluster)
