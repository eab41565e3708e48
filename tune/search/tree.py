"""Monte Carlo tree search of a single player over decisions in their order, then single changes of the best points.

A node is the points that share their first decisions. What it is worth is the least time over its own least time, so
that the best one is worth 1; a node that was never visited is worth what the model says. Children are taken by PUCT:

    worth + EXPLORATION * prior * sqrt(visits of the siblings) / (1 + own visits)

with the softmax of the model's least times below each of them as prior. Points that are asked for and not told count as
visits without a time ("virtual loss"), so that those asked for together differ. Nothing is rolled out: below a node
that was never visited, the model's first choice is taken. See Silver et al., "Mastering the game of Go without human
knowledge", 2017, and Schadd et al., "Single-Player Monte-Carlo Tree Search", 2008.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from deplodock.tune.space import Point, Space

EXPLORATION = 0.5
"""The weight of the prior beside the worth."""

SHARPNESS = 4.0
"""By how much the prior prefers the model's first choice: a tenth longer is exp(-0.4) as likely."""

DOUBT = 0.9
"""What a node that was never visited is worth, where the model gives it the least time."""

TREE_SHARE = 0.5
"""The share of the budget that the tree gets; the rest goes to changes of the best points."""

BEST = 3
"""The points whose single changes are measured."""

JITTER = 0.1
"""By how much the model's times of those changes are moved at random, so that seeds differ where it has no opinion."""


class TreeStrategy:
    """The tree, then single changes of the best points."""

    def __init__(self, space: Space, seed: int, budget: int) -> None:
        self._space, self._in_tree = space, max(2, int(budget * TREE_SHARE))
        self._draw = random.Random(seed)
        self._root = _Node(space.ordered, 0, space.estimate)
        self._asked: set[Point] = set()
        self._times: dict[Point, float] = {}

    def ask(self, n: int) -> list[Point]:
        """See `Strategy`."""
        found: list[Point] = []
        while len(found) < n and (point := self._next()) is not None:
            self._asked.add(point)
            for node in self._root.path(point):
                node.left -= 1
                node.visits += 1
            found.append(point)
        return found

    def tell(self, point: Point, us: float | None) -> None:
        """See `Strategy`."""
        time = math.inf if us is None else us
        self._times[point] = time
        for node in self._root.path(point):
            node.best = min(node.best, time)

    def _next(self) -> Point | None:
        if not self._asked:
            return self._space.start
        if (self._spent() >= self._in_tree or not self._root.left) and (point := self._change()) is not None:
            return point
        return self._root.descend(self._root.best) if self._root.left else None

    def _spent(self) -> int:
        """The times that are known or awaited; points of equal times are likely to be one CUDA text."""
        times = {time for time in self._times.values() if time < math.inf}
        return len(times) + len(self._asked) - len(self._times)

    def _change(self) -> Point | None:
        """The single change of one of the best points that the model, give or take `JITTER`, likes most."""
        ranked = sorted((time, point) for point, time in self._times.items() if time < math.inf)
        for _, point in ranked[:BEST]:
            near = [other for group in self._space.neighbours(point) for other in group if other not in self._asked]
            if near:
                spread = 1 - JITTER, 1 + JITTER
                return min(near, key=lambda other: self._space.estimate(other) * self._draw.uniform(*spread))
        return None


class _Node:
    """Points that share their first decisions, those of the least estimates first. Its children are made when needed.

    Decisions that all of its points share are passed over.
    """

    def __init__(self, points: Sequence[Point], place: int, estimate: Callable[[Point], float]) -> None:
        self.points, self.estimate = points, estimate
        self.low = estimate(points[0])
        self.left = len(points)
        """Points that were not asked for."""
        self.visits = 0
        self.best = math.inf
        """The least time of its points."""
        self._place = place
        self._children: dict[int, _Node] | None = None

    def children(self) -> dict[int, _Node]:
        """The nodes of the next decision in which its points differ, by what they take; none of a single point."""
        if self._children is None:
            groups: dict[int, list[Point]] = {}
            while len(self.points) > 1 and len(groups) < 2:
                groups = {}
                for point in self.points:
                    groups.setdefault(point[self._place], []).append(point)
                self._place += 1
            self._children = {value: _Node(group, self._place, self.estimate) for value, group in groups.items()}
        return self._children

    def path(self, point: Point) -> list[_Node]:
        """The nodes from this one to the leaf of a point; none if it is not one of its points."""
        if not (children := self.children()):
            return [self] if self.points[0] == point else []
        child = children.get(point[self._place - 1])
        below = child.path(point) if child is not None else []
        return [self, *below] if below else []

    def descend(self, best: float) -> Point:
        """The point, of those that were not asked for, that PUCT leads to."""
        node = self
        while node.children():
            node = node._favourite(best)
        return node.points[0]

    def _favourite(self, best: float) -> _Node:
        """The child to visit next, where `best` is the least time that is known."""
        open = [child for child in self.children().values() if child.left]
        low = min(child.low for child in open)
        weights = [math.exp(-SHARPNESS * (child.low / low - 1)) for child in open]
        total, visits = sum(weights), 1 + sum(child.visits for child in open)

        def score(place: int) -> float:
            child = open[place]
            worth = best / child.best if child.best < math.inf else 0.0 if child.visits else DOUBT * low / child.low
            return worth + EXPLORATION * weights[place] / total * math.sqrt(visits) / (1 + child.visits)

        return open[max(range(len(open)), key=score)]
