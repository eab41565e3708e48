"""Records a table of a kernel's schedules on a GPU: all points of a closed space are measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from deplodock.tune.candidate import Measure, Measurement
from deplodock.tune.journal import Journal
from deplodock.tune.lowering import Lower, Lowered
from deplodock.tune.space import Point, Space
from deplodock.tune.table import Table
from deplodock.tune.task import Task

_BATCH = 32
"""The points that are lowered together; two batches of them are measured at a time."""

_Times: TypeAlias = dict[str, float | None]
"""Microseconds by CUDA text."""


def recorded(
    task: Task, space: Space, measure: Measure, lower: Lower, journal: Journal, *, what: str, card: str
) -> Iterator[Table]:
    """Measure the points of a space, the start first. Yields the table of those that are done, again and again.

    Args:
        task: the kernel.
        space: its schedules.
        measure: measures candidates.
        lower: lowers schedules of the task.
        journal: where measurements are written.
        what: a name for the table.
        card: the name of the GPU.
    """
    lowered: dict[Point, Lowered] = {}
    times: _Times = {}
    under_way: deque[Iterator[Measurement]] = deque()

    def collect() -> Table:
        for measurement in under_way.popleft():
            times[measurement.code] = measurement.us
            journal.append(measurement, task.name)
        return _table(task, space, lowered, times, what, card)

    first, *others = dict.fromkeys((space.start, *space.ordered))
    for batch in ([first], *(others[at : at + _BATCH] for at in range(0, len(others), _BATCH))):
        new = dict(zip(batch, lower([space.schedule(point) for point in batch]), strict=True))
        known = {each.candidate.code for each in lowered.values()}
        lowered |= new
        distinct = {each.candidate.code: each.candidate for each in reversed(new.values()) if each.candidate.code}
        under_way.append(iter(measure([own for code, own in distinct.items() if code not in known])))
        if len(under_way) > 1 or batch == [first]:
            yield collect()
    while under_way:
        yield collect()


def _table(task: Task, space: Space, lowered: dict[Point, Lowered], times: _Times, what: str, card: str) -> Table:
    """The table of the points that are refused, or whose CUDA text was measured."""
    numbers: dict[str, int] = {}
    codes: dict[Point, int] = {}
    found: dict[Point, float | None] = {}
    for number, (point, own) in enumerate(lowered.items(), 2):
        code = own.candidate.code
        if not code or code in times:
            codes[point] = numbers.setdefault(code, number) if code else number
            found[point] = times.get(code)
    return Table(what, card, task.text, space, codes, found)
