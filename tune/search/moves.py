"""Strategies of moves from points to others: random, beam, coordinate, annealing, and a greedy one."""

from __future__ import annotations

import math

from deplodock.tune.search.strategy import GroupedStrategy, Moves
from deplodock.tune.space import Point

BEAM = 4
"""Points whose neighbours are measured next."""

HEAT = 0.15
"""The loss of time at which annealing first moves with a probability of 1/e."""

COOLING, LEAST_HEAT = 0.97, 0.01
"""By how much that loss shrinks in each step, and to what."""

TOGETHER = 8
"""Single changes whose times are awaited together, before the better ones are taken."""

IDLE = 300
"""Steps of annealing among known points after which it starts elsewhere."""


class RandomStrategy(GroupedStrategy):
    """All points in random order."""

    def moves(self) -> Moves:
        points = list(self.space.ordered)
        self.draw.shuffle(points)
        yield [self.space.start]
        yield points


class BeamStrategy(GroupedStrategy):
    """The neighbours of the best few of the group before; where all are known, it starts elsewhere."""

    def moves(self) -> Moves:
        front = [self.space.start]
        yield front
        while True:
            known = set(self.times)
            near = sorted(
                {other for point in front for group in self.space.neighbours(point) for other in group} - known
            )
            if not near:
                near = [self.draw.choice(self.space.ordered)]
            self.draw.shuffle(near)
            yield near
            front = sorted(near, key=lambda point: (self.times[point], point))[:BEAM]


class CoordinateStrategy(GroupedStrategy):
    """The values of one decision after the other; where none is better, it starts elsewhere."""

    def moves(self) -> Moves:
        point = self.space.start
        yield [point]
        while True:
            before = point
            places = list(range(len(self.space.decisions)))
            self.draw.shuffle(places)
            for place in places:
                near = self.space.neighbours(point)[place]
                yield near
                point = min((point, *near), key=self.times.__getitem__)
            if point == before:
                point = self.draw.choice(self.space.ordered)
                yield [point]


class AnnealStrategy(GroupedStrategy):
    """Simulated annealing: random neighbours, worse ones less and less often."""

    def moves(self) -> Moves:
        point, heat, idle = self.space.start, HEAT, 0
        yield [point]
        while True:
            near = [other for group in self.space.neighbours(point) for other in group]
            if not near or idle > IDLE:
                point, idle = self.draw.choice(self.space.ordered), 0
                yield [point]
                continue
            other = self.draw.choice(near)
            idle = idle + 1 if other in self.times else 0
            yield [other]
            now, then = self.times[point], self.times[other]
            if then < now or (then < math.inf and self.draw.random() < math.exp(-(then / now - 1) / heat)):
                point = other
            heat = max(LEAST_HEAT, heat * COOLING)


class GreedyStrategy(GroupedStrategy):
    """Single changes of the best point, those first that the model likes; each that is better is taken.

    Changes of a group are tried alone, then those that are better one by one with all that were taken before. It is for
    points whose times are sums over parts of a program, where most changes do not meet. It ends where no change is
    better, or left.
    """

    def moves(self) -> Moves:
        best = self.space.start
        yield [best]
        changes = [
            (place, value)
            for place, decision in enumerate(self.space.decisions)
            for value in range(1, len(decision.values))
        ]
        changes.sort(key=lambda change: (self.space.estimate(_changed(best, *change)), change))
        while True:
            before, hopeless = best, set[tuple[int, int]]()
            for group in (changes[at : at + TOGETHER] for at in range(0, len(changes), TOGETHER)):
                base, alone = best, {change: _changed(best, *change) for change in group}
                yield [*alone.values()]
                times = {change: self.times[point] for change, point in alone.items()}
                hopeless.update(change for change in group if times[change] == math.inf)
                for change in sorted(group, key=lambda change: (times[change], change)):
                    if times[change] < self.times[base]:
                        yield [point := _changed(best, *change)]
                        best = min((best, point), key=self.times.__getitem__)
            changes = [change for change in changes if change not in hopeless]
            if best == before:
                return


def _changed(point: Point, place: int, value: int) -> Point:
    """A point with another value of one decision."""
    return (*point[:place], value, *point[place + 1 :])
