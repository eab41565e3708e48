"""Records a table: measures every point of a small space around the heuristic's schedule.

So searches are replayed on it with all neighbours that they may go to.
"""

from __future__ import annotations

from itertools import product
from math import prod

from deplodock.tune.candidate import Candidate, Measure, Measurement
from deplodock.tune.journal import Journal
from deplodock.tune.lowering import Lower
from deplodock.tune.space import Decision, Point, Space
from deplodock.tune.table import Table
from deplodock.tune.task import Task

WEIGHED = 8
"""The most schedules of the heuristics that a table has."""

BATCH = 64
"""Candidates that are measured at once."""


def small_space(space: Space, most: int) -> Space:
    """The product of some decisions of a space, of at most so many points.

    The decisions are the first one, of `WEIGHED` values, and those with the most values, as many as there is room for.
    """
    first, *others = space.decisions
    sizes = {first.name: min(WEIGHED, most, len(first.values))}
    for decision in sorted(others, key=lambda decision: -len(decision.values)):
        if prod(sizes.values()) * len(decision.values) <= most:
            sizes[decision.name] = len(decision.values)
    kept = [decision for decision in space.decisions if decision.name in sizes]
    chosen = [Decision(decision.name, decision.values[: sizes[decision.name]]) for decision in kept]
    points: tuple[Point, ...] = tuple(product(*(range(len(decision.values)) for decision in chosen)))
    return Space(space.base, tuple(chosen), points, lambda point: 1.0, is_closed=True)


def record(
    task: Task, space: Space, measure: Measure, lower: Lower, *, card: str, journal: Journal | None = None
) -> Table:
    """Measure every point of a closed space. What the journal has is not measured again."""
    found: dict[str, Measurement] = {}
    codes: dict[Point, str] = {}
    for start in range(0, len(space.points), BATCH):
        points = space.points[start : start + BATCH]
        new: dict[str, Candidate] = {}
        for point, lowered in zip(points, lower([space.schedule(point) for point in points]), strict=True):
            candidate = lowered.candidate
            codes[point] = code = candidate.code or f"refused {len(codes)}"
            known = journal.find(candidate) if journal is not None and candidate.code else None
            if known is not None:
                found[code] = known
            elif candidate.code and code not in found:
                new[code] = candidate
        for measurement in measure(list(new.values())) if new else ():
            found[measurement.code] = measurement
            if journal is not None:
                journal.append(measurement, task.name)
    numbers = {code: number for number, code in enumerate(dict.fromkeys(codes.values()))}
    times = {point: found[code].us if code in found else None for point, code in codes.items()}
    return Table(task.name, card, task.text, space, {point: numbers[code] for point, code in codes.items()}, times)
