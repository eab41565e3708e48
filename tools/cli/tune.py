"""`deplodock tune`: the fastest schedules of a program's kernels, measured on the GPU, or taken from a journal."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.shape.nest import kernels, launches
from deplodock.errors import Error, InvalidInputError
from deplodock.passes.driver import Level
from deplodock.runtime import device
from deplodock.runtime.cubins import check_compiler
from deplodock.runtime.simulated import repeats
from deplodock.runtime.tuned import TunedEntry, read_tuned, write_tuned
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.steps import format_schedule
from deplodock.tools.cli.program import Session
from deplodock.tools.progress import working
from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.choices import space_of
from deplodock.tune.fit import fit
from deplodock.tune.journal import Journal, read_journal
from deplodock.tune.lowerers import Lowerers
from deplodock.tune.lowering import remembering
from deplodock.tune.measuring import Measurer
from deplodock.tune.record import recorded
from deplodock.tune.search import DEFAULT, strategies
from deplodock.tune.table import Table, read_table, write_table
from deplodock.tune.task import Task, task_of
from deplodock.tune.tuned import check_tuned, entry_of
from deplodock.tune.tuning import Budget, Outcome, tune

USUAL_MEASUREMENTS = 64
"""The measurements of a kernel where nothing else is said."""

_RECORDED = 1000
"""The points of a table where nothing else is said."""

_AT_ONCE = 3
"""The kernels that are tuned at a time."""

_LEAST_SHARE = 0.01
"""The share of a program's time below which a kernel is not tuned."""


@dataclass(frozen=True)
class TuneOptions:
    """How a program is tuned.

    `output` is the file of tuned schedules, in which those of other kernels stay. `budget` is for all kernels together;
    None: 64 measurements for each. `journal` is a folder, whose measurements `resume` takes for known. `replay` is a
    journal from which all times are taken, without a GPU. `gpus` is how many GPUs measure. `record` is the file of a
    table, and `check` says that nothing is measured. Raises InvalidInputError for options that exclude each other.
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

    def __post_init__(self) -> None:
        if self.replay is not None and (self.resume or self.gpus > 1):
            raise InvalidInputError("--replay takes all times from its journal: leave out --resume and --gpus")
        if sum((self.replay is not None, self.check, self.record is not None)) > 1:
            raise InvalidInputError("give one of --replay, --check and --record")


def act(session: Session, programs: Iterable[tuple[str, ModuleOp]], options: TuneOptions) -> bool:
    """Tune programs, check what a file has for them, or record a table, as the options say; whether all is well."""
    if options.check:
        return check_programs(session, programs, options)
    return (tune_programs if options.record is None else record_program)(session, programs, options)


def read_budget(text: str | None) -> Budget | None:
    """The budget of a command line. Raises InvalidInputError for what is none."""
    return None if text is None else Budget.read(text)


def read_strategy(name: str | None) -> str:
    """The strategy of a command line, the default one without a name. Raises InvalidInputError if there is no such."""
    if name is not None and name not in (known := strategies()):
        raise InvalidInputError(f"there is no strategy {name!r}; there are {', '.join(known)}")
    return name or DEFAULT


def require_gpus(count: int) -> None:
    """Raise Error where there are not so many GPUs, or nothing compiles CUDA."""
    if (reason := device.missing()) is not None:
        raise Error(f"{reason}; with --replay JOURNAL all times come from a journal, without a GPU")
    if (there := device.device_count()) < count:
        raise InvalidInputError(f"--gpus asks for {count} GPUs, and the CUDA driver finds {there}")
    check_compiler()


def print_fit(paths: Sequence[Path]) -> None:
    """Fit the constants of the model of contractions to tables, and print them with what they are good for.

    Raises InvalidInputError where a file is no table, or none is of a contraction.
    """
    print(fit([read_table(path) for path in paths]))


@dataclass(frozen=True)
class TunedPart:
    """A kernel of a program: how often a run launches it, what its buffers are, and the heuristics' schedule."""

    task: Task
    count: int
    buffers: str
    heuristic: str

    @property
    def what(self) -> str:
        """A name for people: the function and the types of its buffers."""
        return f"{self.task.name} {self.buffers}"


def parts_of(module: ModuleOp) -> list[TunedPart]:
    """The kernels of a module at loop level, equal ones once."""
    counts = Counter[str]()
    for op in module.walk():
        if isinstance(op, CallOp):
            counts[op.callee.string_value()] += repeats(op)
    found: dict[str, TunedPart] = {}
    for function in kernels(module):
        if launches(function):
            continue
        task, count = task_of(function, module), counts[function.sym_name.data] or 1
        count += found[task.key].count if task.key in found else 0
        found[task.key] = TunedPart(task, count, _buffers(function), format_schedule(choose(function)))
    return list(found.values())


def _buffers(function: FuncOp) -> str:
    types = [type for type in function.function_type.inputs if isinstance(type, MemRefType)]
    return ", ".join("x".join(map(str, (*type.get_shape(), type.element_type))) for type in types)


def tune_programs(session: Session, programs: Iterable[tuple[str, ModuleOp]], options: TuneOptions) -> bool:
    """Tune the kernels of programs, print a line for each, and write their schedules; whether all have a time.

    Args:
        session: the command at work.
        programs: modules above tile level, which are lowered, each with its name, empty where there is one alone.
        options: how they are tuned.

    Raises what `tuning.tune` raises.
    """
    known = dict(read_tuned(options.output).entries) if options.output.exists() else {}
    gains: list[float | None] = []
    start = time.monotonic()
    # Several kernels at a time, so that no core waits for the last measurement of one. Processes end before threads.
    with ThreadPoolExecutor(_AT_ONCE, "deplodock-tune") as threads, _tuner(options) as tuner:
        started: deque[_Started] = deque()

        def finish() -> None:
            gains.append(started.popleft().finish(known, tuner.card))
            write_tuned(options.output, known.values())

        for name, module in programs:
            session.lower(module, Level.LOOP)
            started.append(_started(name, tuner, threads, parts_of(module), options))
            if len(started) > _AT_ONCE:
                finish()
        with working("tuning"):
            while started:
                finish()
    found = [gain for gain in gains if gain is not None]
    if len(gains) > 1 and found:
        mean, least = statistics.geometric_mean(found), min(found)
        print(f"{len(found)} programs: {mean:.3f}x as fast as by the heuristics in the geomean, at least {least:.3f}x")
    session.note(f"{tuner.measured} measured in {time.monotonic() - start:.0f} s; wrote {options.output}")
    return len(found) == len(gains)


@dataclass(frozen=True)
class _Started:
    """A program whose kernels are being tuned: those that have a time, in microseconds of all their launches."""

    name: str
    count: int
    spent: Mapping[str, float]
    tuned: Sequence[tuple[TunedPart, Future[tuple[Outcome, str]]]]

    def finish(self, known: dict[str, TunedEntry], card: str) -> float | None:
        """Wait for its kernels, print a line for each, and add them to those that are known.

        Returns how much faster all are together than by the heuristics, None if one could not be measured.
        """
        after = dict(self.spent)
        if self.name:
            print(f"{self.name}:")
        for part, future in self.tuned:
            try:
                outcome, report = future.result()
            except DiagnosticException as error:
                print(f"@{part.task.name} is not tuned: {' '.join(str(error).split())}", flush=True)
                del after[part.task.key]
                continue
            print("\n  ".join([report, *outcome.remarks]), flush=True)
            after[part.task.key] /= outcome.gain
            known[part.task.key] = entry_of(outcome, card, part.what)
        before, now = sum(self.spent[key] for key in after), sum(after.values())
        if len(after) > 1:
            print(f"all kernels: {now:.1f} us, heuristics {before:.1f} us ({before / now:.2f}x)", flush=True)
        return before / now if len(after) == self.count else None


def _started(
    name: str, tuner: _Tuner, threads: ThreadPoolExecutor, parts: Sequence[TunedPart], options: TuneOptions
) -> _Started:
    """Measure the heuristics' schedules of a program, and start to tune its kernels, each by its share of the time.

    Raises InvalidInputError if there are no kernels.
    """
    if not parts:
        raise InvalidInputError(f"{name or 'the program'}: error: there is no kernel to tune, above tile level")
    times = tuner.heuristics(parts)
    timed = [part for part in parts if part.task.key in times]
    spent = [part.count * times[part.task.key] for part in timed]
    tuned = [
        (part, threads.submit(tuner.tuned, part, budget))
        for part, budget in zip(timed, budgets(options.budget, spent), strict=True)
        if budget is not None
    ]
    return _Started(name, len(parts), {part.task.key: own for part, own in zip(timed, spent, strict=True)}, tuned)


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


def check_programs(session: Session, programs: Iterable[tuple[str, ModuleOp]], options: TuneOptions) -> bool:
    """Print what has become of the lines of a file, for the kernels of programs; whether none is stale or refused."""
    tuned, known = read_tuned(options.output), dict[str, Task]()
    for _, module in programs:
        session.lower(module, Level.LOOP)
        known |= {part.task.key: part.task for part in parts_of(module)}
    lowerers = Lowerers()
    try:
        findings = check_tuned(tuned, [*known.values()], lowerers.lower)
    finally:
        lowerers.close()
    for finding in findings:
        print(f"{tuned.origin(finding.entry.kernel)}: {finding}")
    return all(finding.state in ("fresh", "unknown") for finding in findings)


def record_program(session: Session, programs: Iterable[tuple[str, ModuleOp]], options: TuneOptions) -> bool:
    """Measure so many schedules of a program's one kernel as the budget says, and write their table.

    They are a product of decisions, so that searches which are played on the table find all neighbours. Raises
    InvalidInputError if the program has several kernels, or the budget is of seconds.
    """
    assert options.record is not None
    budget = options.budget or Budget(_RECORDED)
    for _, module in programs:
        session.lower(module, Level.LOOP)
        parts = parts_of(module)
        if len(parts) != 1 or budget.measurements is None:
            raise InvalidInputError(
                f"--record is for a program of one kernel, this one has {len(parts)}, and a budget of measurements"
            )
        with _tuner(options) as tuner:
            for table in tuner.recorded(parts[0], budget.measurements):
                write_table(options.record, table)
        session.note(f"wrote {options.record}")
    return True


class _Tuner:
    """Tunes the kernels of a program, one after the other."""

    def __init__(self, lowerers: Lowerers, measurer: Measurer | None, card: str, options: TuneOptions) -> None:
        self._lowerers, self._measurer, self.card, self._options = lowerers, measurer, card, options
        folder = options.journal if options.replay is None else options.replay
        self.measured = 0
        self._journal = Journal(folder, card, is_read=options.resume or options.replay is not None)
        for complaint in self._journal.complaints:
            print(complaint)

    def heuristics(self, parts: Sequence[TunedPart]) -> dict[str, float]:
        """The microseconds of the heuristics' schedules of kernels, by key. All are measured at once.

        A kernel that has no time is left out, with a line that says why.
        """
        with working("measuring the heuristics' schedules"):
            lowered = [(part, self._lowerers.lower(part.task)([part.heuristic])) for part in parts]
            candidates = {part.task.name: each.candidate for part, found in lowered for each in found}
            known = {name: self._journal.find(candidate) for name, candidate in candidates.items()}
            found = [each for each in known.values() if each is not None]
            if self._measurer is not None:
                for part in parts:
                    self._measurer.add(part.task)
                for each in found:
                    self._measurer.anchor(each)
                found += self._measured({name: own for name, own in candidates.items() if known[name] is None})
        times = {each.kernel: each for each in found}
        for part in parts:
            if (own := times.get(part.task.key)) is None or own.us is None:
                why = "the journal has no measurement of it" if own is None else f"{own.status}: {own.detail}"
                print(f"@{part.task.name} is not tuned, as the heuristics' schedule has no time: {why}")
        return {key: own.us for key, own in times.items() if own.us is not None}

    def _measured(self, candidates: Mapping[str, Candidate]) -> list[Measurement]:
        """Measure candidates, given with the names of their kernels."""
        assert self._measurer is not None
        names = {own.kernel: name for name, own in candidates.items()}
        found: list[Measurement] = []
        for each in self._measurer.measure([*candidates.values()]):
            self._journal.append(each, names[each.kernel])
            self.measured += 1
            found.append(each)
        return found

    def tuned(self, part: TunedPart, budget: Budget) -> tuple[Outcome, str]:
        """Tune a kernel. Returns what comes of it, and a line about that."""
        start, options, task = time.monotonic(), self._options, part.task
        lower = remembering(self._lowerers.lower(task))
        outcome = tune(
            task,
            space_of(task, lower),
            None if self._measurer is None else self._measurer.measure,
            lower,
            strategy=options.strategy,
            budget=budget,
            journal=self._journal,
            seed=options.seed,
        )
        seconds = time.monotonic() - start
        self.measured += outcome.measured - outcome.repeated
        return outcome, _report(outcome, None if self._measurer is None else seconds)

    def recorded(self, part: TunedPart, most: int) -> Iterator[Table]:
        """Tables of at most so many points of a kernel's space, a product of decisions, each with more of them."""
        assert self._measurer is not None
        start, lower = time.monotonic(), remembering(self._lowerers.lower(part.task))
        self._measurer.add(part.task)
        space, table = space_of(part.task, lower).product(most), None
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


@contextmanager
def _tuner(options: TuneOptions) -> Iterator[_Tuner]:
    """What tunes kernels, with the processes that it needs, while it lasts."""
    lowerers, measurer = Lowerers(0 if options.replay else options.gpus), None
    try:
        if options.replay is not None:
            yield _Tuner(lowerers, None, card_of(options.replay), options)
            return
        measurer = Measurer(lowerers, gpus=range(options.gpus))
        yield _Tuner(lowerers, measurer, device.device_name(), options)
    finally:
        if measurer is not None:
            measurer.close()
        lowerers.close()


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
