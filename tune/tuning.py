"""Tunes a kernel: asks a strategy for points, measures what is new of them, and keeps the best schedule.

The heuristic's schedule is measured first, and left only for one that takes less than `WORTH` of its time. Points whose
CUDA text is known have its time; points that rules, limits or nvcc refuse have none, and cost nothing of the budget.
What the journal has is not measured again.

The outcome depends on the seed, the batch and the measurements alone: batches are asked for and told in a fixed order,
whatever comes in first. So a run that was killed and started again on its journal ends as it would have without that.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from deplodock.errors import InvalidInputError
from deplodock.tune.candidate import Candidate, Measure, Measurement
from deplodock.tune.journal import Journal
from deplodock.tune.lowering import Lower, Lowered
from deplodock.tune.search import DEFAULT, strategies
from deplodock.tune.search.strategy import Strategy
from deplodock.tune.space import Point, Space
from deplodock.tune.task import Task

WORTH = 0.99
"""Another schedule replaces the heuristic's if it takes less than this share of its time: what remains of noise after
several rounds side by side is below a hundredth (five replays on an H200 spread by 1.3 to 2.1 percent)."""

MOST_CONFLICTS = 1.25
"""By how much the wavefronts of a schedule may exceed the fewest, beside the heuristic's: of 150 schedules of linears
on an H200 those above were 7 percent slower and more than without."""

MOST_IN_VAIN = 20
"""For each measurement of the budget, the points that may be refused or equal to others before the search ends."""


@dataclass(frozen=True)
class Budget:
    """When tuning ends: after so many measurements, or when so many seconds are past."""

    measurements: int | None = 64
    seconds: float | None = None

    @staticmethod
    def read(text: str) -> Budget:
        """`64`, or `30s`. Raises InvalidInputError for anything else."""
        number = text.removesuffix("s")
        if not number.isdecimal() or not int(number):
            raise InvalidInputError(f"a budget is a number of measurements, as 64, or of seconds, as 30s; got {text!r}")
        return Budget(None, float(number)) if text.endswith("s") else Budget(int(number))


@dataclass(frozen=True)
class Progress:
    """Where tuning stands."""

    task: Task
    measured: int
    """Distinct CUDA texts whose measurement is known."""
    best: Measurement | None
    heuristic: Measurement | None


@dataclass(frozen=True)
class Outcome:
    """What tuning found."""

    task: Task
    heuristic: Measurement
    """The heuristic's schedule, measured."""
    best: Measurement
    """The schedule to take; the heuristic's where no other is clearly faster."""
    measured: int
    """Distinct CUDA texts that were measured, the heuristic's among them."""
    repeated: int
    """Those of them that the journal had."""
    refused: int
    """Points that rules, limits or nvcc refuse, or whose accesses to shared memory conflict."""
    remarks: tuple[str, ...] = ()
    """What failed and what was stale, each with its schedule."""

    @property
    def gain(self) -> float:
        """The heuristic's time over that of the schedule to take."""
        if self.heuristic.us is None or self.best.us is None:
            return 1.0
        return self.heuristic.us / self.best.us


def tune(
    task: Task,
    space: Space,
    measure: Measure | None,
    lower: Lower,
    *,
    strategy: str = DEFAULT,
    budget: Budget | None = None,
    journal: Journal | None = None,
    seed: int = 0,
    batch: int = 8,
    observe: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Search a space for the fastest schedule of a task.

    Args:
        task: the kernel.
        space: its schedules; that of `space.start` is the heuristic's.
        measure: measures candidates; None to take all times from the journal, where what it lacks ends the search.
        lower: lowers schedules of the task.
        strategy: a name of `strategies()`.
        budget: when to stop; by default after 64 measurements.
        journal: what was measured before, and where measurements are written.
        seed: what the strategy's draws start from.
        batch: how many points are asked for at once. Two batches are under way at a time.
        observe: called after each measurement.

    Raises InvalidInputError if there is no strategy of that name, or the heuristic's schedule is refused or not in the
    journal of a replay.
    """
    known = strategies()
    if strategy not in known:
        raise InvalidInputError(f"there is no strategy {strategy!r}; there are {', '.join(known)}")
    budget = budget or Budget()
    most = budget.measurements or math.inf
    planned = budget.measurements or Budget().measurements or 0
    run = _Run(task, space, known[strategy](space, seed, planned), lower, measure, journal, observe)
    run.measure_first()
    deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
    under_way: deque[_Batch] = deque()
    while True:
        is_over = deadline is not None and time.monotonic() >= deadline
        size = 0 if is_over or run.is_ended else int(min(batch, most - run.planned))
        asked = run.ask(size) if size > 0 else None
        if asked is not None:
            under_way.append(asked)
        if under_way and (asked is None or len(under_way) > 1):
            run.collect(under_way.popleft())
        elif asked is None:
            return run.outcome()


@dataclass
class _Batch:
    """CUDA texts that are measured together, in the order in which they were asked for."""

    codes: list[str] = field(default_factory=list[str])
    found: dict[str, Measurement] = field(default_factory=dict[str, Measurement])
    """What the journal has of them."""
    awaited: Iterable[Measurement] = ()
    """What is being measured."""


@dataclass
class _Run:
    """The state of a search."""

    task: Task
    space: Space
    strategy: Strategy
    lower: Lower
    measure: Measure | None
    journal: Journal | None
    observe: Callable[[Progress], None] | None
    planned: int = 0
    """CUDA texts that were measured or are under way; those that nvcc refuses do not count."""
    is_ended: bool = False
    """Whether the journal of a replay has no more."""
    conflicts: float = 1.0
    """Those of the heuristic's schedule."""
    heuristic: Measurement | None = None
    known: dict[str, Measurement] = field(default_factory=dict[str, Measurement])
    """Measurements by CUDA text, in the order in which they were asked for."""
    waiting: dict[str, list[Point]] = field(default_factory=dict[str, list[Point]])
    """The points of each CUDA text that is under way."""
    refused: int = 0
    equal: int = 0
    """Points whose CUDA text was known."""
    repeated: int = 0
    remarks: list[str] = field(default_factory=list[str])

    def measure_first(self) -> None:
        """Measure the heuristic's schedule."""
        (first,) = self.strategy.ask(1)
        (lowered,) = self.lower([self.space.schedule(first)])
        self.conflicts = lowered.conflicts
        batch = self._start([(first, lowered)])
        if not batch.codes:
            why = lowered.refusal or "the journal has no measurement of it"
            raise InvalidInputError(f"the heuristic's schedule of {self.task.name} has no time: {why}")
        self.collect(batch)
        self.heuristic = self.known[lowered.candidate.code]

    def ask(self, size: int) -> _Batch | None:
        """A batch of at most so many CUDA texts, which are being measured; None where there is none to be had now."""
        batch = _Batch()
        while len(batch.codes) < size and self.refused + self.equal < MOST_IN_VAIN * (self.planned + size):
            if not (points := self.strategy.ask(size - len(batch.codes))):
                break
            lowered = self.lower([self.space.schedule(point) for point in points])
            more = self._start(list(zip(points, lowered, strict=True)))
            batch = _Batch(batch.codes + more.codes, batch.found | more.found, chain(batch.awaited, more.awaited))
        return batch if batch.codes else None

    def collect(self, batch: _Batch) -> None:
        """Wait for a batch, and tell the strategy its times in the order in which they were asked for."""
        for measurement in batch.awaited:
            if self.journal is not None:
                self.journal.append(measurement, self.task.name)
            batch.found[measurement.code] = measurement
        for code in batch.codes:
            measurement = self.known[code] = batch.found[code]
            if measurement.status == "refused":
                self.planned -= 1
                self.refused += 1
            elif measurement.us is None:
                self.remarks.append(f"{measurement.status}: {measurement.schedule}: {measurement.detail}")
            for point in self.waiting.pop(code):
                self.strategy.tell(point, measurement.us)
            if self.observe is not None:
                self.observe(Progress(self.task, self._measured(), self._best(), self.heuristic))

    def outcome(self) -> Outcome:
        """What was found."""
        heuristic, best = self.heuristic, self._best()
        assert heuristic is not None
        is_faster = best is not None and (_time(best) < WORTH * _time(heuristic))
        chosen = best if is_faster and best is not None else heuristic
        return Outcome(self.task, heuristic, chosen, self._measured(), self.repeated, self.refused, tuple(self.remarks))

    def _start(self, points: Sequence[tuple[Point, Lowered]]) -> _Batch:
        """Tell the strategy what is known of points, and start to measure the rest."""
        batch, new = _Batch(), list[Candidate]()
        for point, lowered in points:
            candidate = lowered.candidate
            code = candidate.code
            if not code or lowered.conflicts > MOST_CONFLICTS * self.conflicts:
                self.refused += 1
                self.strategy.tell(point, None)
            elif code in self.known:
                self.equal += 1
                self.strategy.tell(point, self.known[code].us)
            elif code in self.waiting:
                self.equal += 1
                self.waiting[code].append(point)
            elif (found := self._recorded(candidate)) is not None or self.measure is not None:
                self.planned += 1
                self.waiting[code] = [point]
                batch.codes.append(code)
                if found is None:
                    new.append(candidate)
                else:
                    self.repeated += 1
                    batch.found[code] = found
            else:
                self.is_ended = True
        if new and self.measure is not None:
            batch.awaited = self.measure(new)
        return batch

    def _recorded(self, candidate: Candidate) -> Measurement | None:
        """What the journal has of a candidate."""
        if self.journal is None:
            return None
        found = self.journal.find(candidate)
        if found is None and self.journal.is_stale(candidate):
            self.remarks.append(f"stale: {candidate.schedule}: it gave another CUDA text when it was measured")
        return found

    def _measured(self) -> int:
        return sum(found.status != "refused" for found in self.known.values())

    def _best(self) -> Measurement | None:
        """The least time; of equal ones, the first."""
        return min((found for found in self.known.values() if found.us is not None), key=_time, default=None)


def _time(found: Measurement) -> float:
    return math.inf if found.us is None else found.us
