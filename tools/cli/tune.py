"""`deplodock tune`: the fastest schedules of a program's kernels, measured on the GPU, or taken from a journal."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import Error, InvalidInputError
from deplodock.runtime import device
from deplodock.runtime.cubins import check_compiler
from deplodock.runtime.tuned import AnyEntry, read_tuned, write_tuned
from deplodock.tools.bench.report import short
from deplodock.tools.cli.parts import Programs
from deplodock.tools.cli.program import Session
from deplodock.tools.cli.tuner import Begun, TuneOptions, Tuner, tuner
from deplodock.tools.progress import working
from deplodock.tools.start import terminable
from deplodock.tune.fit import fit
from deplodock.tune.lowerers import Lowerers
from deplodock.tune.parts import TunedProgram
from deplodock.tune.search import DEFAULT, strategies
from deplodock.tune.table import read_table, write_table
from deplodock.tune.tuned import check_tuned, entry_of
from deplodock.tune.tuning import Budget

_RECORDED = 1000
"""The points of a table where nothing else is said."""


def act(session: Session, programs: Programs, options: TuneOptions) -> bool:
    """Tune programs, check what a file has for them, or record a table, as the options say; whether all is well."""
    with closing(programs), terminable():
        if options.check:
            return check_programs(programs, options)
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


def tune_programs(session: Session, programs: Programs, options: TuneOptions) -> bool:
    """Tune the kernels of programs, print a line for each, and write their schedules; whether all have a time.

    What goes wrong with one of several programs is its line. The schedules of kernels that are done are also written
    where the command is interrupted.

    Raises what `tuning.tune` raises, and what reading the program raises if there is one alone.
    """
    known = read_tuned(options.output).all if options.output.exists() else dict[str, AnyEntry]()
    gains: list[float | None] = []
    start = time.monotonic()
    with tuner(options) as own:
        started: deque[_Started] = deque()

        def finish() -> None:
            gains.append(started[0].finish(known, own.card))
            started.popleft()
            write_tuned(options.output, known.values())

        try:
            for name, read in programs:
                started.append(_Started(name, _begin(own, read)))
                if len(started) > own.at_once:
                    finish()
            with working("tuning"):
                while started:
                    finish()
        except BaseException:
            for each in started:
                each.keep(known, own.card)
            write_tuned(options.output, known.values())
            session.note(f"ended early, {own.measured} measured; wrote {options.output}; --resume goes on from there")
            raise
    found = [gain for gain in gains if gain is not None]
    if len(gains) > 1 and found:
        mean, least = statistics.geometric_mean(found), min(found)
        print(f"{len(found)} programs: {mean:.3f}x as fast as by the heuristics in the geomean, at least {least:.3f}x")
    seconds = time.monotonic() - start
    session.note(f"{own.measured} measured in {seconds:.0f} s{own.rate(seconds)}; wrote {options.output}")
    return len(found) == len(gains)


def _begin(own: Tuner, read: Callable[[], TunedProgram]) -> Future[Begun]:
    """Read a program, and start to tune its kernels. Whatever goes wrong with it, the future has."""
    try:
        return own.begin(read())
    except Exception as error:
        failed = Future[Begun]()
        failed.set_exception(error)
        return failed


@dataclass(frozen=True)
class _Started:
    """A program by its name, empty if it is one alone, and its kernels that are being tuned."""

    name: str
    begun: Future[Begun]

    def finish(self, known: dict[str, AnyEntry], card: str) -> float | None:
        """Wait for its kernels, print a line for each, and add them to those that are known.

        Returns how much faster all are together than by the heuristics, None if one could not be measured. Raises what
        went wrong with a program alone.
        """
        try:
            own = self.begun.result()
        except Exception as error:
            if not self.name:
                raise
            print(f"{self.name}: {error if isinstance(error, Error) else short(error)}", flush=True)
            return None
        if self.name:
            print(f"{self.name}:")
        for line in own.lines:
            print(line, flush=True)
        self._keep_fusion(own, known, card)
        after = dict(own.spent)
        for part, future in own.tuned:
            try:
                outcome, report = future.result()
            except Exception as error:
                if not (self.name or isinstance(error, DiagnosticException)):
                    raise
                print(f"@{part.task.name} is not tuned: {short(error)}", flush=True)
                del after[part.task.key]
                continue
            print("\n  ".join([report, *outcome.remarks]), flush=True)
            after[part.task.key] /= outcome.gain
            known[part.task.key] = entry_of(outcome, card, part.what)
        before, now = sum(own.spent[key] for key in after), sum(after.values())
        before *= 1.0 if own.fusion is None else own.fusion.gain
        if len(after) > 1:
            print(f"all kernels: {now:.1f} us, heuristics {before:.1f} us ({before / now:.2f}x)", flush=True)
        return before / now if after and len(after) == own.parts else None

    def keep(self, known: dict[str, AnyEntry], card: str) -> None:
        """Add those of its kernels that are done, and wait for none."""
        if not _is_well(self.begun):
            return
        own = self.begun.result()
        self._keep_fusion(own, known, card)
        for part, future in own.tuned:
            if _is_well(future):
                known[part.task.key] = entry_of(future.result()[0], card, part.what)

    def _keep_fusion(self, own: Begun, known: dict[str, AnyEntry], card: str) -> None:
        """Add what was found of fusion, if that was tuned."""
        if own.fusion is not None:
            known[own.fusion.fusions.key] = own.fusion.entry(card, self.name or own.fusion.fusions.name)


def _is_well(future: Future[Any]) -> bool:
    """Whether something is done, and did not fail."""
    return future.done() and not future.cancelled() and future.exception() is None


def check_programs(programs: Programs, options: TuneOptions) -> bool:
    """Print what has become of the lines of a file, for programs; whether none is stale or refused."""
    tuned = read_tuned(options.output)
    lowerers = Lowerers()
    try:
        findings = check_tuned(tuned, [read() for _, read in programs], lowerers.lower, lowerers.run)
    finally:
        lowerers.close()
    for finding in findings:
        print(f"{tuned.origin(finding.entry.key)}: {finding}")
    return all(finding.state in ("fresh", "unknown") for finding in findings)


def record_program(session: Session, programs: Programs, options: TuneOptions) -> bool:
    """Measure so many schedules of a program's one kernel as the budget says, and write their table.

    They are a product of decisions, so that searches which are played on the table find all neighbours. Raises
    InvalidInputError if the program has several kernels, or the budget is of seconds.
    """
    assert options.record is not None
    budget = options.budget or Budget(_RECORDED)
    for _, read in programs:
        parts = read().parts
        if len(parts) != 1 or budget.measurements is None:
            raise InvalidInputError(
                f"--record is for a program of one kernel, this one has {len(parts)}, and a budget of measurements"
            )
        with tuner(options) as own:
            for table in own.recorded(parts[0], budget.measurements):
                write_table(options.record, table)
        session.note(f"wrote {options.record}")
    return True
