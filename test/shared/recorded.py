"""Tables recorded on an H200, and what lowers and measures by them, without a GPU."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.lowering import Lowered
from deplodock.tune.table import Table

TABLES = Path(__file__).parent.parent.parent / "bench" / "tuned" / "tables"


class Played:
    """Lowers and measures by a table."""

    def __init__(self, table: Table) -> None:
        self.table, self.task = table, table.task
        self.measured: list[str] = []
        self._points = {table.space.schedule(point): point for point in table.times}

    def lower(self, schedules: Sequence[str]) -> Iterator[Lowered]:
        for schedule in schedules:
            code = hashlib.sha256(str(self.table.codes[self._points[schedule]]).encode()).hexdigest()[:16]
            yield Lowered(Candidate(self.task.key, schedule, code), "")

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Last ones first, as results may come in any order."""
        for one in reversed(candidates):
            time = self.table.times[self._points[one.schedule]]
            self.measured.append(one.code)
            status = "refused" if time is None else "ok"
            yield Measurement(one.kernel, one.schedule, one.code, status, time)
