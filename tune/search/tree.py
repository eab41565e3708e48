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


class _Node:
    """The points that share their first decisions."""

    def __init__(self) -> None:
        self.children: dict[int, _Node] = {}
        self.low = math.inf
        """The least estimate of its points."""
        self.left = 0
        """Points that were not asked for."""
        self.visits = 0
        self.best = math.inf
        """The least time of its points."""


class TreeStrategy:
    """The tree, then single changes of the best points."""

    def __init__(self, space: Space, seed: int, budget: int) -> None:
        self._space, self._in_tree = space, max(2, int(budget * TREE_SHARE))
        self._draw = random.Random(seed)
        self._root = _Node()
        self._asked: set[Point] = set()
        self._times: dict[Point, float] = {}
        for point in space.ordered:
            for node in self._path(point):
                node.left += 1
                node.low = min(node.low, space.estimates[point])

    def ask(self, n: int) -> list[Point]:
        """See `Strategy`."""
        found: list[Point] = []
        while len(found) < n and self._root.left:
            point = self._next()
            self._asked.add(point)
            for node in self._path(point):
                node.left -= 1
                node.visits += 1
            found.append(point)
        return found

    def tell(self, point: Point, us: float | None) -> None:
        """See `Strategy`."""
        time = math.inf if us is None else us
        self._times[point] = time
        for node in self._path(point):
            node.best = min(node.best, time)

    def _next(self) -> Point:
        if not self._asked:
            return self._space.start
        if self._spent() >= self._in_tree and (point := self._change()) is not None:
            return point
        node, point = self._root, ()
        while node.children:
            value = self._child(node)
            node, point = node.children[value], (*point, value)
        return point

    def _spent(self) -> int:
        """The times that are known or awaited; points of equal times are likely to be one CUDA text."""
        times = {time for time in self._times.values() if time < math.inf}
        return len(times) + len(self._asked) - len(self._times)

    def _child(self, node: _Node) -> int:
        """The value of the next decision, of those that lead to points that were not asked for."""
        open = {value: child for value, child in node.children.items() if child.left}
        low = min(child.low for child in open.values())
        weights = {value: math.exp(-SHARPNESS * (child.low / low - 1)) for value, child in open.items()}
        total, visits = sum(weights.values()), 1 + sum(child.visits for child in open.values())

        def score(value: int) -> float:
            child = open[value]
            known = child.best < math.inf
            worth = self._root.best / child.best if known else 0.0 if child.visits else DOUBT * low / child.low
            return worth + EXPLORATION * weights[value] / total * math.sqrt(visits) / (1 + child.visits)

        return max(open, key=score)

    def _change(self) -> Point | None:
        """The single change of one of the best points that the model, give or take a tenth, likes most."""
        ranked = sorted((time, point) for point, time in self._times.items() if time < math.inf)
        for _, point in ranked[:BEST]:
            near = [other for other in self._space.neighbours(point) if other not in self._asked]
            if near:
                return min(near, key=lambda other: self._space.estimates[other] * self._draw.uniform(0.9, 1.1))
        return None

    def _path(self, point: Point) -> list[_Node]:
        """The nodes from the root to the leaf of a point."""
        path = [self._root]
        for value in point:
            path.append(path[-1].children.setdefault(value, _Node()))
        return path
