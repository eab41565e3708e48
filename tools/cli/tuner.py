"""Tunes the kernels of programs, several at a time: first the heuristics' schedules, then each by its share of time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import Error, InvalidInputError
from deplodock.runtime import device
from deplodock.tools.bench.report import short
from deplodock.tools.progress import working
from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.choices import space_of
from deplodock.tune.fusion import FusionOutcome, fusions_of, grouped, tune_fusion
from deplodock.tune.journal import Journal, read_journal
from deplodock.tune.lowerers import Lowerers
from deplodock.tune.lowering import remembering
from deplodock.tune.measuring import Measurer
from deplodock.tune.parts import TunedPart, TunedProgram
from deplodock.tune.record import recorded
from deplodock.tune.search import DEFAULT
from deplodock.tune.table import Table
from deplodock.tune.tuning import Budget, Outcome, tune

USUAL_MEASUREMENTS = 64
"""The measurements of a kernel where nothing else is said."""

LEAST_AT_ONCE = 4
"""The kernels that are tuned at a time, at least: one for every two cores, so that none waits for one measurement."""

FUSION_SHARE = 0.25
"""The share of a program's budget that is for kernels of other decisions of fusion than the cost model's."""

_LEAST_SHARE = 0.01
"""The share of a program's time below which a kernel is not tuned."""


@dataclass(frozen=True)
class TuneOptions:
    """How a program is tuned.

    `output` is the file of tuned schedules, in which those of other kernels stay. `budget` is for all kernels together;
    None: 64 measurements for each. `journal` is a folder, whose measurements `resume` takes for known. `replay` is a
    journal from which all times are taken, without a GPU. `gpus` is how many GPUs measure. `record` is the file of a
    table, `check` says that nothing is measured, and `fuse` that decisions of fusion are searched, too. Raises
    InvalidInputError for options that exclude each other.
    """

    output: Path
    journal: Path
    budget: Budget | None = None
    strategy: str = DEFAULT
    seed: int = 0
    resume: bool = False
    replay: Path | None = None
    gpus: int = 1
    record: Path | None = None
    check: bool = False
    fuse: bool = False

    def __post_init__(self) -> None:
        if self.replay is not None and (self.resume or self.gpus > 1):
            raise InvalidInputError("--replay takes all times from its journal: leave out --resume and --gpus")
        if sum((self.replay is not None, self.check, self.record is not None)) > 1:
            raise InvalidInputError("give one of --replay, --check and --record")
        if self.fuse and (self.check or self.record is not None):
            raise InvalidInputError("--fuse searches: leave out --check and --record")


@dataclass(frozen=True)
class Begun:
    """A program whose kernels are being tuned.

    `parts` is how many kernels it has, `spent` the microseconds of all launches of those whose heuristics' schedule has
    a time, `tuned` what comes of those that are worth it, with a line, and `lines` are about fusion and those without a
    time. `fusion` is what was found of it, where it is tuned.
    """

    parts: int
    spent: Mapping[str, float]
    lines: Sequence[str]
    tuned: Sequence[tuple[TunedPart, Future[tuple[Outcome, str]]]]
    fusion: FusionOutcome | None = None


class Tuner:
    """Tunes the kernels of programs, several at a time."""

    def __init__(self, lowerers: Lowerers, measurer: Measurer | None, card: str, options: TuneOptions) -> None:
        """Start the threads that wait for programs and kernels; complaints about the journal are printed."""
        self._lowerers, self._measurer, self.card, self._options = lowerers, measurer, card, options
        self.at_once = max(LEAST_AT_ONCE, len(os.sched_getaffinity(0)) // 2)
        self._programs = ThreadPoolExecutor(self.at_once, "deplodock-program")
        self._kernels = ThreadPoolExecutor(self.at_once, "deplodock-kernel")
        folder = options.journal if options.replay is None else options.replay
        self._journal = Journal(folder, card, is_read=options.resume or options.replay is not None)
        for complaint in self._journal.complaints:
            print(complaint)

    @property
    def measured(self) -> int:
        """The candidates that were measured so far."""
        return self._journal.measured

    def rate(self, seconds: float) -> str:
        """How many candidates were measured in a second, and how busy for these seconds who measures and compiles was.

        Empty for a replay.
        """
        if self._measurer is None:
            return ""
        gpus, cores = (each.seconds / seconds for each in (self._measurer, self._lowerers))
        return f" ({self.measured / seconds:.1f}/s; GPUs {gpus:.0%}, cores {cores:.0%} busy)"

    def begin(self, program: TunedProgram) -> Future[Begun]:
        """Measure the heuristics' schedules of a program, and start to tune its kernels, each by its share of the time.

        Fusion is tuned before, where the options say so. It has begun when all but the kernels is done.
        """
        return self._programs.submit(self._begun, program)

    def recorded(self, part: TunedPart, most: int) -> Iterator[Table]:
        """Tables of at most so many points of a kernel's space, a product of decisions, each with more of them."""
        assert self._measurer is not None
        start, lower = time.monotonic(), remembering(self._lowerers.lower(part.task))
        self._measurer.add(part.task)
        space = space_of(part.task, self._lowerers.digests(part.task), self._lowerers.run).product(most)
        table = None
        with working(f"recording @{part.task.name}") as show:
            for table in recorded(
                part.task, space, self._measurer.measure, lower, self._journal, what=part.what, card=self.card
            ):
                show(f"recording @{part.task.name}: {len(table.times)} of {len(space.points)} points")
                yield table
        if table is not None:
            count, seconds = len(set(table.codes.values())), time.monotonic() - start
            rate = f"{count / seconds:5.1f}/s  {seconds:5.1f} s"
            print(f"{part.what}: {count} measured, best {table.best:.2f} us  {rate}")

    def close(self) -> None:
        """Wait for the threads; what they wait for is called off before."""
        self._programs.shutdown(cancel_futures=True)
        self._kernels.shutdown(cancel_futures=True)

    def _begun(self, program: TunedProgram) -> Begun:
        parts, total, lines, fusion = program.parts, self._options.budget, list[str](), None
        times = self._times(parts)
        if self._options.fuse:
            own, rest = shares(total, len(parts))
            try:
                fusion, line = self._fused(program, own)
            except DiagnosticException as error:
                lines.append(f"fusion is not tuned: {_why(error)}")
            else:
                lines.append(line)
                parts, total = fusion.parts, rest(fusion.spent)
                times = self._times(parts)
        timed = [(part, us) for part in parts if not isinstance(us := times[part.task.key], str)]
        for part in parts:
            if isinstance(why := times[part.task.key], str):
                lines.append(f"@{part.task.name} is not tuned, as the heuristics' schedule has no time: {why}")
        spent = [part.count * us for part, us in timed]
        tuned = [
            (part, self._kernels.submit(self._tuned, part, budget))
            for (part, _), budget in zip(timed, budgets(total, spent), strict=True)
            if budget is not None
        ]
        known = {part.task.key: own for (part, _), own in zip(timed, spent, strict=True)}
        return Begun(len(parts), known, lines, tuned, fusion)

    def _fused(self, program: TunedProgram, budget: Budget) -> tuple[FusionOutcome, str]:
        """Tune which operations of a program share kernels. Returns what comes of it, and a line about that.

        Raises DiagnosticException where that cannot be tuned.
        """
        if not program.text:
            raise InvalidInputError("the program has its kernels already")
        start, cores = time.monotonic(), self._lowerers
        fusions = cores.run(fusions_of, program.text)
        seen = {part.task.key: part for part in program.parts}

        def group(texts: Sequence[str]) -> Iterator[Sequence[TunedPart] | str]:
            known = {key: part.heuristic for key, part in seen.items()}
            for future in [cores.called(grouped, fusions, text, known) for text in texts]:
                try:
                    found = future.result()
                except DiagnosticException as error:
                    yield _why(error)
                else:
                    seen.update((part.task.key, part) for part in found)
                    yield found

        outcome = tune_fusion(fusions, program.parts, group, self._times, budget, self._options.seed)
        kept = {part.task.key for part in outcome.parts}
        for part in seen.values():
            if part.task.key not in kept:
                cores.forget(part.task)
        return outcome, _fusion_report(outcome, None if self._measurer is None else time.monotonic() - start)

    def _times(self, parts: Sequence[TunedPart]) -> dict[str, float | str]:
        """The microseconds of the heuristics' schedules of kernels, by key, or why there is no time.

        All are measured at once.
        """
        lowered = [(part, self._lowerers.lower(part.task)([part.heuristic])) for part in parts]
        candidates = {part.task.key: (part.task.name, each.candidate) for part, found in lowered for each in found}
        known = {key: self._journal.find(candidate) for key, (_, candidate) in candidates.items()}
        found = [each for each in known.values() if each is not None]
        if self._measurer is not None:
            for part in parts:
                self._measurer.add(part.task)
            for each in found:
                self._measurer.anchor(each)
            found += self._measured([own for key, own in candidates.items() if known[key] is None])
        times: dict[str, float | str] = dict.fromkeys(candidates, "the journal has no measurement of it")
        return times | {own.kernel: f"{own.status}: {own.detail}" if own.us is None else own.us for own in found}

    def _measured(self, candidates: Sequence[tuple[str, Candidate]]) -> list[Measurement]:
        """Measure candidates, given with the names of their kernels."""
        assert self._measurer is not None
        names = {own.kernel: name for name, own in candidates}
        found: list[Measurement] = []
        for each in self._measurer.measure([own for _, own in candidates]):
            self._journal.append(each, names[each.kernel])
            found.append(each)
        return found

    def _tuned(self, part: TunedPart, budget: Budget) -> tuple[Outcome, str]:
        """Tune a kernel. Returns what comes of it, and a line about that."""
        start, options, task = time.monotonic(), self._options, part.task
        lower = remembering(self._lowerers.lower(task))
        outcome = tune(
            task,
            space_of(task, self._lowerers.digests(task), self._lowerers.run),
            None if self._measurer is None else self._measurer.measure,
            lower,
            strategy=options.strategy,
            budget=budget,
            journal=self._journal,
            seed=options.seed,
        )
        self._lowerers.forget(task)
        seconds = time.monotonic() - start
        return outcome, _report(outcome, None if self._measurer is None else seconds)


@contextmanager
def tuner(options: TuneOptions) -> Iterator[Tuner]:
    """What tunes kernels, with the processes that it needs, while it lasts. They end before the threads do."""
    cores, gpus, own = Lowerers(0 if options.replay else options.gpus), None, None
    cores.start()
    try:
        if options.replay is not None:
            own = Tuner(cores, None, card_of(options.replay), options)
        else:
            gpus = Measurer(cores, gpus=range(options.gpus))
            own = Tuner(cores, gpus, device.device_name(), options)
        yield own
    finally:
        if gpus is not None:
            gpus.close()
        cores.close()
        if own is not None:
            own.close()


def budgets(total: Budget | None, spent: Sequence[float]) -> list[Budget | None]:
    """The budget of each kernel: the share that its launches have of all time; None for less than 1 percent.

    Args:
        total: the budget of all, None: 64 measurements for each.
        spent: the microseconds of the launches of each kernel.
    """
    counted = [each if each >= _LEAST_SHARE * sum(spent) else 0.0 for each in spent]
    most = Budget(USUAL_MEASUREMENTS * len(spent)) if total is None else total

    def part(share: float) -> Budget:
        if most.measurements is None:
            return Budget(None, share * (most.seconds or 0.0))
        return Budget(max(2, round(share * most.measurements)))

    return [part(each / sum(counted)) if each else None for each in counted]


def shares(total: Budget | None, kernels: int) -> tuple[Budget, Callable[[int], Budget | None]]:
    """The budget of fusion, and what is left for kernels after so many measurements.

    Args:
        total: the budget of all, None: that of so many kernels, of which each still has its own.
        kernels: how many kernels the cost model makes.
    """
    if total is None:
        return Budget(max(1, round(FUSION_SHARE * USUAL_MEASUREMENTS * kernels))), lambda _: None
    if (most := total.measurements) is None:
        seconds = FUSION_SHARE * (total.seconds or 0.0)
        return Budget(None, seconds), lambda _: Budget(None, (total.seconds or 0.0) - seconds)
    return Budget(max(1, round(FUSION_SHARE * most))), lambda spent: Budget(max(1, most - spent))


def card_of(journal: Path) -> str:
    """The card of a journal. Raises InvalidInputError where it has none, or several."""
    cards = {entry.card for entry in read_journal(journal).entries}
    if len(cards) != 1:
        what = f"measurements of several cards: {', '.join(sorted(cards))}" if cards else "no measurements"
        raise InvalidInputError(f"{journal}: error: a replay needs a journal of one card, and this one has {what}")
    return cards.pop()


def _report(outcome: Outcome, seconds: float | None) -> str:
    """The line of a kernel; without seconds, that of a replay."""
    rate = "" if seconds is None else f"  {(outcome.measured - outcome.repeated) / seconds:5.1f}/s  {seconds:5.1f} s"
    return (
        f"{outcome.task.name:32} {outcome.measured:5} measured  {outcome.best.us:10.2f} us  "
        f"heuristic {outcome.heuristic.us:10.2f} us ({outcome.gain:.2f}x){rate}"
    )


def _why(error: DiagnosticException) -> str:
    """What went wrong, in one line."""
    return " ".join(str(error).split()) if isinstance(error, Error) else short(error)


def _fusion_report(outcome: FusionOutcome, seconds: float | None) -> str:
    """The line of fusion, and what was decided; without seconds, that of a replay."""
    rate = "" if seconds is None else f"  {outcome.spent / seconds:5.1f}/s  {seconds:5.1f} s"
    line = (
        f"{'fusion':32} {outcome.measured:5} points    {outcome.us:10.2f} us  "
        f"heuristic {outcome.heuristic_us:10.2f} us ({outcome.gain:.2f}x){rate}"
    )
    taken = [f"takes {outcome.decisions}"] if outcome.decisions else []
    return "\n  ".join([line, *taken, *outcome.remarks])
