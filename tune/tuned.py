"""What tuning found, as text: a line a kernel, in the order of their keys. `--tuned` reads it.

    {"kernel": "5f2c9a..", "what": "k_linear", "card": "NVIDIA H200", "schedule": "tileify,..", "code": "9ac1..",
     "us": 298.2, "heuristic_us": 301.7, "measured": 64, "version": "0.4.0"}

The key says what is computed and for which target, so a line is for every kernel that is equal but for its names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, TypeAlias

from deplodock.errors import InvalidInputError
from deplodock.tune.lowering import Lower
from deplodock.tune.task import Task
from deplodock.tune.tuning import Outcome
from deplodock.version import __version__


@dataclass(frozen=True)
class TunedEntry:
    """The schedule that was found for a kernel on a card."""

    kernel: str
    what: str
    card: str
    schedule: str
    code: str
    us: float
    heuristic_us: float | None
    """The time of the heuristic's schedule; None where that fails."""
    measured: int
    version: str = __version__

    @staticmethod
    def of(outcome: Outcome, card: str) -> TunedEntry:
        """What was found for a task. Raises InvalidInputError if no schedule has a time."""
        best = outcome.best
        if best.us is None:
            raise InvalidInputError(f"no schedule of {outcome.task.name} gave a right result in time")
        own = outcome.heuristic.us
        return TunedEntry(
            best.kernel, outcome.task.name, card, best.schedule, best.code, best.us, own, outcome.measured
        )


@dataclass(frozen=True)
class Tuned:
    """The entries of a file."""

    entries: tuple[TunedEntry, ...] = ()

    def schedule_of(self, kernel: str, card: str | None = None) -> str | None:
        """The schedule of a kernel: that of a card, where several have one; None if there is none."""
        found = [entry for entry in self.entries if entry.kernel == kernel]
        return next((entry.schedule for entry in (*(e for e in found if e.card == card), *found)), None)


State: TypeAlias = Literal["fresh", "stale", "refused", "unknown"]
"""The schedule gives the CUDA text that was measured; it gives another one; the rules do not take it any more; or no
kernel of the program has the key."""


@dataclass(frozen=True)
class Finding:
    """What becomes of an entry today."""

    entry: TunedEntry
    state: State
    detail: str = ""

    def __str__(self) -> str:
        """One line that names the entry."""
        why = f": {self.detail}" if self.detail else ""
        return f"{self.state}: {self.entry.what} ({self.entry.kernel}), {self.entry.schedule}{why}"


def write_tuned(path: Path, entries: Iterable[TunedEntry]) -> None:
    """Write entries in the order of their keys and cards. Raises OSError if the file cannot be written."""
    ordered = sorted(entries, key=lambda entry: (entry.kernel, entry.card))
    path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in ordered))


def read_tuned(path: Path) -> Tuned:
    """Read entries. Raises InvalidInputError with the line that is none, or if the file cannot be read."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read as a file of tuned schedules: {error}") from error
    return Tuned(tuple(_read(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()))


def check_tuned(tuned: Tuned, tasks: Sequence[Task], lower_of: Callable[[Task], Lower]) -> list[Finding]:
    """What becomes of each entry: it is lowered anew for the task that has its key."""
    known = {task.key: task for task in tasks}
    findings: list[Finding] = []
    for entry in tuned.entries:
        if (task := known.get(entry.kernel)) is None:
            findings.append(Finding(entry, "unknown", "the program has no such kernel"))
            continue
        (lowered,) = lower_of(task)([entry.schedule])
        code = lowered.candidate.code
        state: State = "refused" if not code else "fresh" if code == entry.code else "stale"
        detail = {"refused": lowered.refusal, "stale": "it gives another CUDA text than was measured"}.get(state, "")
        findings.append(Finding(entry, state, detail))
    return findings


def _read(line: str, place: str) -> TunedEntry:
    try:
        values = json.loads(line)
        wanted = {field.name for field in fields(TunedEntry)}
        if not isinstance(values, dict) or not wanted - {"version"} <= set(values):
            raise ValueError(f"it must have {', '.join(sorted(wanted))}")
        entry = TunedEntry(**{name: values[name] for name in wanted if name in values})
        if not all(isinstance(text, str) for text in (entry.kernel, entry.schedule, entry.card, entry.code)):
            raise ValueError("kernel, schedule, card and code must be text")
    except ValueError as error:
        raise InvalidInputError(f"{place}: no tuned schedule: {error}") from error
    return entry
