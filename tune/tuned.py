"""From what tuning found to a line of a file (`runtime/tuned.py`), and what has become of such lines since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import InvalidInputError
from deplodock.runtime.tuned import AnyEntry, FusionEntry, Tuned, TunedEntry
from deplodock.tune.fusion import Fusions, digest, fusions_of, grouped
from deplodock.tune.lowering import Lower
from deplodock.tune.parts import TunedPart, TunedProgram
from deplodock.tune.runs import Call, direct
from deplodock.tune.task import Task
from deplodock.tune.tuning import Outcome

_OTHER_TEXT = "it gives another CUDA text than was measured"
_OTHER_KERNELS = "it gives other kernels than were measured"


def entry_of(outcome: Outcome, card: str, what: str) -> TunedEntry:
    """What was found for a task, with its name for readers. Raises InvalidInputError if no schedule has a time."""
    best = outcome.best
    if best.us is None:
        raise InvalidInputError(f"no schedule of {outcome.task.name} gave a right result in time")
    return TunedEntry(
        best.kernel, what, card, best.schedule, best.code, best.us, outcome.heuristic.us, outcome.measured
    )


State: TypeAlias = Literal["fresh", "stale", "refused", "unknown"]
"""It gives the CUDA text or the kernels that were measured; it gives others; the passes do not take it any more; or no
kernel or program has the key."""


@dataclass(frozen=True)
class TunedFinding:
    """What becomes of an entry today."""

    entry: AnyEntry
    state: State
    detail: str = ""

    def __str__(self) -> str:
        """One line that names the entry."""
        why = f": {self.detail}" if self.detail else ""
        return f"{self.state}: {self.entry.what} ({self.entry.key}), {self.entry.choice}{why}"


def check_tuned(
    tuned: Tuned, programs: Sequence[TunedProgram], lower_of: Callable[[Task], Lower], run: Call = direct
) -> list[TunedFinding]:
    """What becomes of each entry of a file: the programs are fused anew by it, and their kernels lowered.

    Args:
        tuned: the file.
        programs: programs, whose kernels are those that the cost model gives them.
        lower_of: lowers schedules of a task.
        run: what else takes long runs by this.
    """
    tasks = {part.task.key: part.task for program in programs for part in program.parts}
    fused: dict[str, TunedFinding] = {}
    for text in [program.text for program in programs if program.text and tuned.fusions]:
        with suppress(InvalidInputError):
            fusions = run(fusions_of, text)
            if (entry := tuned.fusions.get(fusions.key)) is not None:
                fused[entry.key], parts = run(_fused_finding, fusions, entry)
                tasks |= {part.task.key: part.task for part in parts}
    unknown = "there is no such program"
    findings = [fused.get(entry.key) or TunedFinding(entry, "unknown", unknown) for entry in tuned.fusions.values()]
    return findings + [_finding(entry, tasks.get(entry.kernel), lower_of) for entry in tuned.entries.values()]


def _fused_finding(fusions: Fusions, entry: FusionEntry) -> tuple[TunedFinding, list[TunedPart]]:
    """What becomes of the entry of a program, and the kernels that it gives."""
    try:
        parts = grouped(fusions, entry.decisions, {})
    except DiagnosticException as error:
        return TunedFinding(entry, "refused", " ".join(str(error).split())), []
    is_fresh = digest(parts) == entry.kernels
    return TunedFinding(entry, "fresh") if is_fresh else TunedFinding(entry, "stale", _OTHER_KERNELS), parts


def _finding(entry: TunedEntry, task: Task | None, lower_of: Callable[[Task], Lower]) -> TunedFinding:
    """What becomes of the entry of a kernel."""
    if task is None:
        return TunedFinding(entry, "unknown", "the program has no such kernel")
    (lowered,) = lower_of(task)([entry.schedule])
    if not (code := lowered.candidate.code):
        return TunedFinding(entry, "refused", lowered.refusal)
    return TunedFinding(entry, "fresh") if code == entry.code else TunedFinding(entry, "stale", _OTHER_TEXT)
