"""What a measurement of a candidate is: its results are right before a time counts, and after it was taken.

Its time is that of rounds in turn with the best one so far, the incumbent: what the GPU's clock does, it does to both,
so the ratio of the two counts. One that is far slower is done after one round, one that is near gets nine. It is
faster, and the new incumbent, if eight of them say so; else it takes as long as the incumbent: of many that are equal,
some seem faster by chance.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Protocol

from deplodock.tune.candidate import Status

ROUNDS, MOST_ROUNDS = 3, 9
_SLOW, _NEAR, _WINS = 1.15, 1.03, 0.99
"""The times, in those of the incumbent, above which one round is enough, above which three are, and below which a
candidate may take its place. Five replays of one kernel differ by 1.3 to 2.1 percent (an H200)."""


_HOPELESS, _LAUNCH_US = 5.0, 20.0
"""In times of the incumbent, and microseconds of a launch besides, what a single run takes that is not timed again."""


class Runs(Protocol):
    """A program on every set of inputs, on a device."""

    def poison(self) -> None:
        """Fill what the runs write with what no result is."""
        ...

    def start(self) -> float:
        """Run it on the first set, twice, and wait; microseconds of the second run. Raises Hung if that is too long."""
        ...

    def replay(self) -> float:
        """Run it again on every set, some times in a row; microseconds of a run."""
        ...

    def wrong(self, *, is_started: bool = False) -> str:
        """What is wrong with the results of the last run, on all sets or where it was started; empty if nothing is."""
        ...


class Hung(Exception):
    """A run does not end; the text says how long it was waited for."""


@dataclass(frozen=True)
class Found:
    """What a measurement found, as `Measurement` has it, and whether the candidate is the new incumbent."""

    status: Status
    us: float | None = None
    detail: str = ""
    wins: bool = False


def measured(runs: Runs, incumbent: Runs | None, incumbent_us: float, floor_us: float) -> Found:
    """Measure a candidate.

    Args:
        runs: the candidate.
        incumbent: the best so far; None: this is the first.
        incumbent_us: its microseconds, on whose scale the candidate's are given.
        floor_us: microseconds below which no right program can be.
    """
    runs.poison()
    once = runs.start()
    if reason := runs.wrong(is_started=True):
        return Found("wrong", detail=reason)
    if incumbent is not None and once > _HOPELESS * incumbent_us + _LAUNCH_US:
        return Found("ok", once, "the time is that of a single run, as it is far from the best")
    ratios = _ratios(runs, incumbent)
    runs.poison()
    runs.replay()
    if reason := runs.wrong():
        return Found("unstable", detail=f"right at first, then {reason}")
    ratio, wins = statistics.median(ratios), incumbent is None or _wins(ratios)
    us = ratio if incumbent is None else incumbent_us * (ratio if wins else max(1.0, ratio))
    if us < floor_us:
        return Found("fault", detail=f"{us:.2f} us are below the floor of {floor_us:.2f} us: the measurement is wrong")
    return Found("ok", us, wins=wins)


def _ratios(runs: Runs, incumbent: Runs | None) -> list[float]:
    """The time of each round, in that of the incumbent; without one, in microseconds."""
    if incumbent is None:
        return [runs.replay() for _ in range(MOST_ROUNDS)]
    ratios: list[float] = []
    while len(ratios) < MOST_ROUNDS and not _is_enough(ratios):
        base = incumbent.replay()
        ratios.append(runs.replay() / base)
    return ratios


def _is_enough(ratios: list[float]) -> bool:
    if not ratios or len(ratios) == 2:
        return False
    return statistics.median(ratios) > (_SLOW if len(ratios) == 1 else _NEAR)


def _wins(ratios: list[float]) -> bool:
    faster = sum(ratio < 1 for ratio in ratios)
    return len(ratios) == MOST_ROUNDS and statistics.median(ratios) < _WINS and faster >= MOST_ROUNDS - 1
