"""Accesses of the shared memory of other CTAs of a cluster, which only `kernel.cluster_barrier` orders.

Each shared buffer has a log whose agents are CTAs: writes of its own CTA and reads of others since the last such
barrier.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.memory import AccessLog, Buffer
from deplodock.interpreters.simulate.report import Report
from deplodock.interpreters.values import Array


class Clusters:
    """The clusters of the CTAs that run together, whose ids are `ids`; each is `size` neighbours of them."""

    def __init__(self, ids: Array, size: int, ops: list[Operation], report: Report) -> None:
        self._ids = ids
        self._size = size
        self._ops = ops
        self._numbers = {op: number for number, op in enumerate(ops)}
        self._report = report
        self._logs: list[tuple[Buffer, AccessLog]] = []
        self._unfinished: Operation | None = None

    def peers(self, rank: Array) -> Array:
        """The places among the CTAs that run together of those with a rank in the clusters of the lanes."""
        places = np.arange(len(self._ids)).reshape(-1, 1)
        return places - places % self._size + np.clip(rank, 0, self._size - 1)

    def check_rank(self, op: Operation, rank: Array) -> None:
        """Report a rank that is none of the cluster's."""
        if (rank < 0).any() or (rank >= self._size).any():
            wrong = int(np.extract((rank < 0) | (rank >= self._size), rank)[0])
            self._report.add(
                kinds.OUT_OF_BOUNDS, op, 1, lambda: f"a cluster has {self._size} CTAs, and none of rank {wrong}"
            )

    def access(self, op: Operation, buffer: Buffer, element: Array, cta: Array, *, writes: bool) -> None:
        """Record accesses of CTAs, all arrays flat, and report those that no barrier of the cluster orders."""
        log = self._log(buffer)
        tag = AccessLog.tag(2 * self._numbers[op] + writes, cta)
        races = log.write(element, tag) if writes else log.read(element, tag)
        if not writes:
            self._unfinished = op
        if (found := races >= 0).any():
            first = int(np.argmax(found))
            self._report_race(op, buffer, int(element[first]), int(cta[first]), int(races[first]), int(found.sum()))

    def barrier(self, op: Operation, arrived: Array) -> None:
        """All threads of the clusters of some CTAs meet."""
        here = arrived.reshape(-1, self._size)
        split = here.any(axis=1) & ~here.all(axis=1)
        if split.any():
            cluster = int(np.argmax(split))
            first, count = int(self._ids[cluster * self._size]), int(here[cluster].sum())
            self._report.add(
                kinds.DIVERGENT_BARRIER,
                op,
                int(split.sum()),
                lambda: f"only {count} of the {self._size} CTAs of the cluster from CTA {first} on reach it",
            )
        for _, log in self._logs:
            log.clear(arrived)
        self._unfinished = None

    def finish(self) -> None:
        """The CTAs end."""
        if (op := self._unfinished) is not None:
            self._report.add(
                kinds.MISSING_CLUSTER_BARRIER,
                op,
                1,
                lambda: "the CTA whose memory it reads may have ended; a kernel.cluster_barrier must follow",
            )

    def _log(self, buffer: Buffer) -> AccessLog:
        for known, log in self._logs:
            if known is buffer:
                return log
        log = AccessLog(buffer.data.size // len(self._ids))
        log.spread(len(self._ids))
        self._logs.append((buffer, log))
        return log

    def _report_race(self, op: Operation, buffer: Buffer, element: int, cta: int, earlier: int, count: int) -> None:
        def message() -> str:
            owner, number = divmod(element, buffer.data.size // len(self._ids))
            other_number, other = AccessLog.untag(earlier)
            verb, other_verb = ("writes", "reads") if other_number % 2 == 0 else ("reads", "writes")
            return (
                f"CTA {int(self._ids[cta])} {verb} element {buffer.layout.element(number)} of CTA "
                f"{int(self._ids[owner])}, which CTA {int(self._ids[other])} {other_verb} in "
                f"{self._report.reference(self._ops[other_number // 2])}, with no kernel.cluster_barrier between"
            )

        self._report.add(kinds.MISSING_CLUSTER_BARRIER, op, count, message)
