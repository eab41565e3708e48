"""Strategies without a model of what they have not measured: random, beam, coordinate and annealing."""

from __future__ import annotations

import math

from deplodock.tune.search.strategy import GroupedStrategy, Moves

BEAM = 4
"""Points whose neighbours are measured next."""

HEAT = 0.15
"""The loss of time at which annealing first moves with a probability of 1/e."""

COOLING, LEAST_HEAT = 0.97, 0.01
"""By how much that loss shrinks in each step, and to what."""

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
