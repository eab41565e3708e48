"""Fits the constants of the cost model to tables of times, by least squares of the logarithms of the errors.

The method is that of Levenberg and Marquardt, on the logarithms of the constants, which keeps them positive. Half of
the points of each table are fitted; the errors of the other half are given, before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from deplodock.errors import InvalidInputError
from deplodock.schedule.steps import Schedule
from deplodock.tune.model import Constants, model_of
from deplodock.tune.table import Table

ROUNDS = 30
"""Steps of the method, at most."""

KEEP = 0.03
"""The error in the mean that is as bad as a constant that is off by a factor of e: so those stay of which times say
nothing, such as what a launch takes where none is split."""

STEP = 1e-3
"""By how much of itself a constant is moved to find how errors depend on it."""

NAMES = tuple(field.name for field in fields(Constants))


@dataclass(frozen=True)
class Quality:
    """How well a model does on some points of a table."""

    error: float
    """The root mean square of the logarithms of its errors."""
    order: float
    """The share of pairs of points that it puts in the right order."""
    first: float
    """The time of its first choice over the least one."""


@dataclass(frozen=True)
class Fit:
    """Constants that were fitted, with the quality of each table before and after, by its name."""

    constants: Constants
    before: dict[str, Quality]
    after: dict[str, Quality]

    def __str__(self) -> str:
        """The constants and the qualities as text."""
        given = Constants()
        lines = [f"{name:18}{getattr(given, name):12.4g} -> {getattr(self.constants, name):<12.4g}" for name in NAMES]
        for what, old in self.before.items():
            new = self.after[what]
            lines.append(
                f"{what}: error {old.error:.3f} -> {new.error:.3f}, pairs in order {old.order:.2f} -> {new.order:.2f}, "
                f"first choice {old.first:.3f} -> {new.first:.3f} of the best"
            )
        return "\n".join(lines)


def fit(tables: Sequence[Table]) -> Fit:
    """Fit the constants to the times of contractions.

    Of each table every second point is fitted, in the order of the file, and the qualities are those of the others.
    Raises InvalidInputError if no table is of a contraction that the model knows.
    """
    samples = [sample for table in tables if (sample := _Sample.of(table)) is not None]
    if not samples:
        raise InvalidInputError("none of the tables is of a contraction of scalar products, which is what --fit fits")

    def errors(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        constants = _constants(logs)
        return np.concatenate([KEEP * (logs - start), *(sample.errors(constants) for sample in samples)])

    start = np.log([getattr(Constants(), name) for name in NAMES])
    fitted = _constants(_least_squares(errors, start))
    return Fit(fitted, *({s.what: s.quality(each) for s in samples} for each in (Constants(), fitted)))


def _constants(logs: NDArray[np.float64]) -> Constants:
    return Constants(**dict(zip(NAMES, map(float, np.exp(logs)), strict=True)))


@dataclass(frozen=True)
class _Sample:
    """The schedules of a table that the model knows, with their times in ns."""

    what: str
    table: Table
    schedules: tuple[Schedule, ...]
    times: NDArray[np.float64]

    @staticmethod
    def of(table: Table) -> _Sample | None:
        if (model := model_of(table.task)) is None:
            return None
        one_each = {code: point for point, code in table.codes.items() if table.times[point] is not None}
        steps = [(table.space.steps(point), table.times[point]) for point in one_each.values()]
        known = [(schedule, time) for schedule, time in steps if time is not None and model(schedule) < math.inf]
        times = np.array([time * 1000 for _, time in known])
        return _Sample(table.what, table, tuple(schedule for schedule, _ in known), times) if known else None

    def guesses(self, constants: Constants) -> NDArray[np.float64]:
        """The nanoseconds that the model gives all schedules."""
        model = model_of(self.table.task, constants)
        assert model is not None
        return np.array([model(schedule) for schedule in self.schedules])

    def errors(self, constants: Constants) -> NDArray[np.float64]:
        """The logarithms of what every second guess is off, each table with the same weight."""
        off = np.log(self.guesses(constants) / self.times)[::2]
        return off / math.sqrt(len(off))

    def quality(self, constants: Constants) -> Quality:
        """The quality on the points that were not fitted."""
        guesses, times = self.guesses(constants)[1::2], self.times[1::2]
        error = float(np.sqrt(np.mean(np.log(guesses / times) ** 2)))
        signs = np.sign(guesses[:, None] - guesses) * np.sign(times[:, None] - times)
        order = float((signs > 0).sum() / max(1, (signs != 0).sum()))
        return Quality(error, order, float(times[guesses.argmin()] / times.min()))


def _least_squares(
    errors: Callable[[NDArray[np.float64]], NDArray[np.float64]], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The arguments of the least sum of squares, near a start."""
    at, damping = start, 1e-2
    now = errors(at)
    for _ in range(ROUNDS):
        slopes = np.stack([(errors(at + STEP * unit) - now) / STEP for unit in np.eye(len(at))], axis=1)
        normal, gradient = slopes.T @ slopes, slopes.T @ now
        for _ in range(8):
            step = np.linalg.solve(normal + damping * np.eye(len(at)), -gradient)
            then = errors(at + step)
            if then @ then < now @ now:
                break
            damping *= 4
        else:
            return at
        is_done = (now @ now - then @ then) < 1e-5 * (now @ now)
        at, now, damping = at + step, then, damping / 4
        if is_done:
            return at
    return at
