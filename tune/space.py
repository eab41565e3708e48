"""What there is to try for a kernel: points of some decisions, each with the time that a model gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import TypeAlias

from deplodock.schedule.steps import Schedule, format_schedule
from deplodock.tune.edits import edited

Point: TypeAlias = tuple[int, ...]
"""A schedule as decisions: for each one the place of what is taken among its values."""


WEIGHED = 8
"""The most values of the first decision, which are whole schedules, in a product of decisions."""


@dataclass(frozen=True)
class Decision:
    """One choice."""

    name: str
    values: tuple[str, ...]
    """What may be taken: changes of the schedule (`tune/edits.py`), none of them where the text is empty."""


@dataclass(frozen=True)
class Space:
    """The points that decisions make: some to choose from, and those that single changes of a decision lead to."""

    base: Schedule
    """The schedule that the decisions change."""
    decisions: tuple[Decision, ...]
    """The choices in their order: the changes of a later one come after those of an earlier one."""
    points: tuple[Point, ...]
    """The points to choose from; the first one is measured first."""
    estimate: Callable[[Point], float]
    """The nanoseconds that a model gives a point; only their ratios count."""
    is_closed: bool = False
    """Whether there are no others than `points`, as in a table of times."""
    _near: dict[Point, list[list[Point]]] = field(default_factory=dict[Point, list[list[Point]]], init=False)

    @property
    def start(self) -> Point:
        """The point that is measured first."""
        return self.points[0]

    @cached_property
    def ordered(self) -> tuple[Point, ...]:
        """The points to choose from, those of the least estimates first."""
        return tuple(sorted(self.points, key=lambda point: (self.estimate(point), point)))

    def steps(self, point: Point) -> Schedule:
        """The schedule of a point."""
        return edited(self.base, self.changes(point))

    def schedule(self, point: Point) -> str:
        """The text of the schedule of a point."""
        return format_schedule(self.steps(point))

    def neighbours(self, point: Point) -> list[list[Point]]:
        """For each decision, the points that differ from one in that alone."""
        if (found := self._near.get(point)) is None:
            found = self._near[point] = [
                [
                    other
                    for value in range(len(decision.values))
                    if value != point[at]
                    and (other := (*point[:at], value, *point[at + 1 :]))
                    and (not self.is_closed or other in self._known)
                ]
                for at, decision in enumerate(self.decisions)
            ]
        return found

    def product(self, most: int) -> Space:
        """The product of some decisions, of at most so many points, without any others: for tables of all of its times.

        The decisions are the first one, of up to `WEIGHED` values, and those with the most values, as many as there is
        room for.
        """
        first, *others = self.decisions
        sizes = {first.name: min(WEIGHED, most, len(first.values))}
        for decision in sorted(others, key=lambda decision: -len(decision.values)):
            if prod(sizes.values()) * len(decision.values) <= most:
                sizes[decision.name] = len(decision.values)
        kept = [decision for decision in self.decisions if decision.name in sizes]
        chosen = [Decision(decision.name, decision.values[: sizes[decision.name]]) for decision in kept]
        points = tuple(product(*(range(len(decision.values)) for decision in chosen)))
        return Space(self.base, tuple(chosen), points, lambda point: 1.0, is_closed=True)

    @cached_property
    def _known(self) -> frozenset[Point]:
        return frozenset(self.points)

    def changes(self, point: Point) -> list[str]:
        """What the decisions of a point change of the base."""
        taken = [decision.values[place] for decision, place in zip(self.decisions, point, strict=True)]
        return [change for change in taken if change]
