"""What there is to try for a kernel: points of some decisions, each with the time that a model gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from deplodock.schedule.steps import Schedule, format_schedule
from deplodock.tune.edits import edited

Point: TypeAlias = tuple[int, ...]
"""A schedule as decisions: for each one the place of what is taken among its values."""


@dataclass(frozen=True)
class Decision:
    """One choice."""

    name: str
    values: tuple[str, ...]
    """What may be taken: changes of the schedule (`tune/edits.py`), none of them where the text is empty."""


@dataclass(frozen=True)
class Space:
    """A finite set of points. It need not be the product of the decisions."""

    base: Schedule
    """The schedule that the decisions change."""
    decisions: tuple[Decision, ...]
    """The choices in their order: the changes of a later one come after those of an earlier one."""
    estimates: Mapping[Point, float]
    """Every point with the nanoseconds that a model gives it; only their ratios count."""
    start: Point
    """The point that is measured first."""
    _near: dict[Point, dict[int, list[Point]]] = field(default_factory=dict[Point, dict[int, list[Point]]], init=False)

    def changes(self, point: Point) -> list[str]:
        """What the decisions of a point change of the base."""
        taken = [decision.values[place] for decision, place in zip(self.decisions, point, strict=True)]
        return [change for change in taken if change]

    def schedule(self, point: Point) -> str:
        """The text of the schedule of a point."""
        return format_schedule(self.steps(point))

    def steps(self, point: Point) -> Schedule:
        """The schedule of a point."""
        return edited(self.base, self.changes(point))

    @cached_property
    def ordered(self) -> tuple[Point, ...]:
        """All points, those of the least estimates first."""
        return tuple(sorted(self.estimates, key=lambda point: (self.estimates[point], point)))

    def neighbours(self, point: Point, place: int | None = None) -> list[Point]:
        """The points that differ from one in a single decision, or in the one at a place."""
        if (found := self._near.get(point)) is None:
            found = self._near[point] = {
                at: [
                    other
                    for value in range(len(decision.values))
                    if value != point[at] and (other := (*point[:at], value, *point[at + 1 :])) in self.estimates
                ]
                for at, decision in enumerate(self.decisions)
            }
        return [near for at, others in found.items() if place in (None, at) for near in others]
