"""Runs one launch of a kernel: the CTAs, as many at once as memory allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from deplodock.dialects.buffers import Memory, memory_of
from deplodock.dialects.interfaces import Access
from deplodock.dialects.kernel import FuncOp
from deplodock.dialects.loop import ForOp
from deplodock.interpreters.simulate import cluster, machine, mma, moves, sync, threads, tickets, tma, wgmma
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.machine import ELEMENTS_AT_ONCE, Lockstep
from deplodock.interpreters.simulate.memory import AccessLog, Buffer, Layout
from deplodock.interpreters.simulate.nests import varying_index
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.values import Array

_LANES_AT_ONCE = 1 << 18

HANDLERS = {
    op: run
    for part in (machine, moves, threads, mma, wgmma, sync, tma, tickets, cluster)
    for op, run in part.HANDLERS.items()
}
"""How each operation runs; any other is a scalar operation."""


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
    ) -> None:
        """`order` holds the ids of the CTAs that run, in that order, those of a cluster together; by default all.

        `most_steps` are the lane steps that may run, None: any number.
        """
        super().__init__(kernel, arguments, report, counters, check, HANDLERS, most_steps)
        self._order = np.arange(kernel.num_blocks) if order is None else order

    def run(self) -> None:
        """Run the CTAs, as many at once as memory allows. Findings and counts go where the launch was told.

        Raises:
            UnsupportedError: an op or type that the simulator does not know.
        """
        self._check_registers()
        self._log_global_writes()
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
                self.memory.finish()

    def _check_registers(self) -> None:
        if not self.check:
            return
        for op, sides in self.accesses.items():
            for access in sides:
                if access.memory is not Memory.REGISTER:
                    continue
                varying = varying_index(access)
                if varying is not None:
                    self._report_varying(op, access, varying)

    def _report_varying(self, op: Operation, access: Access, varying: SSAValue) -> None:
        names = self.report.names
        self.report.add(
            kinds.DYNAMIC_REGISTER_INDEX,
            op,
            1,
            lambda: (
                f"a subscript of the register array {names.value(access.buffer)} depends on {names.value(varying)}, "
                "which is no constant after unrolling; unroll its loop or use shared memory"
            ),
        )

    def _log_global_writes(self) -> None:
        """Log the accesses to those arguments that the kernel writes."""
        sides = (access for found in self.accesses.values() for access in found)
        written = {self.identity(access.buffer) for access in sides if access.writes and not access.is_atomic}
        for parameter in self.kernel.parameters:
            buffer = self.buffers[parameter]
            if self.check and isinstance(buffer, Buffer) and self.identity(parameter) in written:
                buffer.log = AccessLog(buffer.data.size, self.memory.grid)

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
