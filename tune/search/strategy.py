"""What a strategy of search is."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from typing import Protocol, TypeAlias

from deplodock.tune.space import Point, Space


class Strategy(Protocol):
    """Proposes points of a space, given the times of those that it has proposed."""

    def ask(self, n: int) -> list[Point]:
        """Up to n points that were not asked for before; none while it waits for times, or where none are left."""
        ...

    def tell(self, point: Point, us: float | None) -> None:
        """The microseconds of a point that was asked for; None if it has none, as it is refused or fails."""
        ...


Times: TypeAlias = dict[Point, float]
"""The microseconds of points; infinite for those that have none."""

Moves: TypeAlias = Generator[Sequence[Point], None, None]
"""Groups of points: the times of one are known before the next is made. Points of known times may be among them."""


class GroupedStrategy(ABC):
    """A strategy that goes on when it knows the times of a group of points."""

    def __init__(self, space: Space, seed: int, budget: int) -> None:
        self.space, self.budget = space, budget
        self.draw = random.Random(seed)
        self.times: Times = {}
        self._asked: set[Point] = set()
        self._group: deque[Point] = deque()
        self._moves = self.moves()

    @abstractmethod
    def moves(self) -> Moves:
        """The groups of points, in turn; `times` has those of all groups before."""

    def ask(self, n: int) -> list[Point]:
        """See `Strategy`."""
        while not self._group and len(self.times) == len(self._asked) and not self._is_done():
            if (group := next(self._moves, None)) is None:
                break
            self._group += [point for point in dict.fromkeys(group) if point not in self._asked]
        taken = [self._group.popleft() for _ in range(min(n, len(self._group)))]
        self._asked.update(taken)
        return taken

    def tell(self, point: Point, us: float | None) -> None:
        """See `Strategy`."""
        self.times[point] = float("inf") if us is None else us

    def _is_done(self) -> bool:
        return self.space.is_closed and len(self._asked) == len(self.space.points)
