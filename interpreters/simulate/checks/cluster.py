"""Accesses of the shared memory of other CTAs of a cluster, which only `kernel.cluster_barrier` orders.

Each shared buffer has a log whose agents are CTAs: writes of its own CTA and reads of others since the last such
barrier.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, MemoryUnit, Touch
from deplodock.interpreters.simulate.elements import select
from deplodock.interpreters.simulate.memory import AccessLog, Buffer
from deplodock.interpreters.values import Array


class Clusters(Check):
    """The clusters of the CTAs that run together; each is `size` neighbours of them."""

    def __init__(self, memory: MemoryUnit) -> None:
        super().__init__(memory)
        self._size = memory.kernel.cluster_size
        self._logs: list[tuple[Buffer, AccessLog]] = []
        self._unfinished: Operation | None = None

    def on_start(self) -> None:
        """Nobody has accessed anything."""
        self._logs, self._unfinished = [], None

    def on_read(self, touch: Touch, elements: Array) -> None:
        """Record reads of the memory of other CTAs, and report a rank that is none of the cluster's."""
        if (rank := touch.rank) is None:
            return
        if (rank < 0).any() or (rank >= self._size).any():
            wrong = int(np.extract((rank < 0) | (rank >= self._size), rank)[0])
            self.report.add(
                kinds.OUT_OF_BOUNDS,
                touch.access.op,
                1,
                lambda: f"a cluster has {self._size} CTAs, and none of rank {wrong}",
            )
        self._record(touch, elements)
        self._unfinished = touch.access.op

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Record writes of shared memory, which others of the cluster may read."""
        if self._size > 1 and self.memory.is_shared(touch.buffer):
            self._record(touch, elements)

    def on_cluster_barrier(self, op: Operation, ctas: Array) -> None:
        """All threads of the clusters of some CTAs meet."""
        here = ctas.reshape(-1, self._size)
        split = here.any(axis=1) & ~here.all(axis=1)
        if split.any():
            cluster = int(np.argmax(split))
            first, count = int(self.memory.ids[cluster * self._size]), int(here[cluster].sum())
            self.report.add(
                kinds.DIVERGENT_BARRIER,
                op,
                int(split.sum()),
                lambda: f"only {count} of the {self._size} CTAs of the cluster from CTA {first} on reach it",
            )
        for _, log in self._logs:
            log.clear(ctas)
        self._unfinished = None

    def on_finish(self) -> None:
        """The CTAs end, and with them their memory."""
        if (op := self._unfinished) is not None:
            self.report.add(
                kinds.MISSING_CLUSTER_BARRIER,
                op,
                1,
                lambda: "the CTA whose memory it reads may have ended; a kernel.cluster_barrier must follow",
            )

    def _record(self, touch: Touch, elements: Array) -> None:
        """Record accesses of CTAs, and report those that no barrier of the cluster orders."""
        access, buffer, memory = touch.access, touch.buffer, self.memory
        assert isinstance(buffer, Buffer)
        log, lanes = self._log(buffer), (elements, np.arange(memory.ctas).reshape(-1, 1))
        element, cta = (select(array, access, touch.frame.shape, touch.frame.mask) for array in lanes)
        tag = AccessLog.tag(2 * memory.numbers[access.op] + access.writes, cta)
        races = log.write(element, tag) if access.writes else log.read(element, tag)
        if (found := races >= 0).any():
            first = int(np.argmax(found))
            where = int(element[first]), int(cta[first])
            self._report_race(access.op, buffer, where, int(races[first]), int(found.sum()))

    def _log(self, buffer: Buffer) -> AccessLog:
        for known, log in self._logs:
            if known is buffer:
                return log
        log = AccessLog(buffer.data.size // self.memory.ctas)
        log.spread(self.memory.ctas)
        self._logs.append((buffer, log))
        return log

    def _report_race(self, op: Operation, buffer: Buffer, where: tuple[int, int], earlier: int, count: int) -> None:
        element, cta = where

        def message() -> str:
            owner, number = divmod(element, buffer.data.size // self.memory.ctas)
            other_number, other = AccessLog.untag(earlier)
            verb, other_verb = ("writes", "reads") if other_number % 2 == 0 else ("reads", "writes")
            return (
                f"CTA {int(self.memory.ids[cta])} {verb} element {buffer.layout.element(number)} of CTA "
                f"{int(self.memory.ids[owner])}, which CTA {int(self.memory.ids[other])} {other_verb} in "
                f"{self.report.reference(self.memory.ops[other_number // 2])}, with no kernel.cluster_barrier between"
            )

        self.report.add(kinds.MISSING_CLUSTER_BARRIER, op, count, message)
