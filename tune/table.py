"""Tables of schedules and their times, recorded on a GPU, on which searches are compared without one.

A table is JSON lines. The first one has the kernel's text at loop level, the base schedule, and the decisions with
their values; each of the others a time and all points of one CUDA text:

    {"what": "linear 512x3584x3584 f32", "card": "NVIDIA H200", "module": "..", "base": "tileify,..",
     "decisions": [["tile", ["blockify-launch.m=64 ..", ..]], ["bk", ["chunk-matmul-k.bk=16", ..]], ..]}
    [300.35, "0.1.2", "0.1.3"]
    [null, "4.0.0"]

Points without a time were refused or failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import new_context
from deplodock.runtime.files import read_whole, write_whole
from deplodock.runtime.records import microseconds, read_json
from deplodock.schedule.steps import Schedule, format_schedule, parse_schedule
from deplodock.tune.space import Decision, Point, Space
from deplodock.tune.task import Task, tasks

_LARGEST = 1 << 26
"""The most bytes of a file."""


@dataclass(frozen=True)
class Table:
    """The times of the points of a space."""

    what: str
    card: str
    module: str
    """The kernel, as `Task.text`."""
    space: Space
    """With the same estimate for all points, until a model gives them others (`estimated`)."""
    codes: Mapping[Point, int]
    """A number for each CUDA text; points that were refused or failed have numbers of their own."""
    times: Mapping[Point, float | None]
    """Microseconds; None for points that were refused or failed."""

    @cached_property
    def task(self) -> Task:
        """The kernel as a task."""
        module = FloatLiteralsParser(new_context(), self.module).parse_module()
        (task,) = tasks(module)
        return task

    @cached_property
    def best(self) -> float:
        """The least time."""
        return min(time for time in self.times.values() if time is not None)

    def estimated(self, estimate: Callable[[Schedule], float]) -> Table:
        """The table with estimates of a model, whose first choice that has a time is where searches start."""
        estimates = {point: estimate(self.space.steps(point)) for point in self.times}
        first = min((estimates[point], point) for point, time in self.times.items() if time is not None)[1]
        points = (first, *(point for point in self.times if point != first))
        return replace(self, space=replace(self.space, points=points, estimate=estimates.__getitem__))


def write_table(path: Path, table: Table) -> None:
    """Write a table. Raises OSError if the file cannot be written."""
    space = table.space
    head = {
        "what": table.what,
        "card": table.card,
        "module": table.module,
        "base": format_schedule(space.base),
        "decisions": [[decision.name, list(decision.values)] for decision in space.decisions],
    }
    lines: dict[int, list[float | str | None]] = {}
    for point, code in table.codes.items():
        lines.setdefault(code, [table.times[point]]).append(_text(point))
    write_whole(path, "".join(json.dumps(line) + "\n" for line in (head, *lines.values())))


def read_table(path: Path) -> Table:
    """Read a table. Raises InvalidInputError with the line that is no part of one, OSError if there is no such file."""
    codes: dict[Point, int] = {}
    times: dict[Point, float | None] = {}
    number = 1
    try:
        first, *lines = read_whole(path, _LARGEST).decode().splitlines()
        head = read_json(first)
        decisions = tuple(Decision(name, tuple(values)) for name, values in head["decisions"])
        for number, line in enumerate(lines, 2):
            time, *points = read_json(line)
            time = None if time is None else microseconds(time)
            for point in map(_point, points):
                codes[point], times[point] = number, time
        space = Space(parse_schedule(head["base"]), decisions, tuple(times), lambda point: 1.0, is_closed=True)
        return Table(head["what"], head["card"], head["module"], space, codes, times)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path}:{number}: no line of a table of times: {error!r}") from error


def _text(point: Point) -> str:
    return ".".join(map(str, point))


def _point(text: str) -> Point:
    return tuple(map(int, text.split(".")))
