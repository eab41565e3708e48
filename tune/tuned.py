"""From what tuning found to a line of a file (`runtime/tuned.py`), and what has become of such lines since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from deplodock.errors import InvalidInputError
from deplodock.runtime.tuned import Tuned, TunedEntry
from deplodock.tune.lowering import Lower
from deplodock.tune.task import Task
from deplodock.tune.tuning import Outcome


def entry_of(outcome: Outcome, card: str, what: str) -> TunedEntry:
    """What was found for a task, with its name for readers. Raises InvalidInputError if no schedule has a time."""
    best = outcome.best
    if best.us is None:
        raise InvalidInputError(f"no schedule of {outcome.task.name} gave a right result in time")
    return TunedEntry(
        best.kernel, what, card, best.schedule, best.code, best.us, outcome.heuristic.us, outcome.measured
    )


State: TypeAlias = Literal["fresh", "stale", "refused", "unknown"]
"""The schedule gives the CUDA text that was measured; it gives another one; the rules do not take it any more; or no
kernel of the program has the key."""


@dataclass(frozen=True)
class TunedFinding:
    """What becomes of an entry today."""

    entry: TunedEntry
    state: State
    detail: str = ""

    def __str__(self) -> str:
        """One line that names the entry."""
        why = f": {self.detail}" if self.detail else ""
        return f"{self.state}: {self.entry.what} ({self.entry.kernel}), {self.entry.schedule}{why}"


def check_tuned(tuned: Tuned, tasks: Sequence[Task], lower_of: Callable[[Task], Lower]) -> list[TunedFinding]:
    """What becomes of each entry: it is lowered anew for the task that has its key."""
    known = {task.key: task for task in tasks}
    findings: list[TunedFinding] = []
    for entry in tuned.entries.values():
        if (task := known.get(entry.kernel)) is None:
            findings.append(TunedFinding(entry, "unknown", "the program has no such kernel"))
            continue
        (lowered,) = lower_of(task)([entry.schedule])
        code = lowered.candidate.code
        state: State = "refused" if not code else "fresh" if code == entry.code else "stale"
        detail = {"refused": lowered.refusal, "stale": "it gives another CUDA text than was measured"}.get(state, "")
        findings.append(TunedFinding(entry, state, detail))
    return findings
