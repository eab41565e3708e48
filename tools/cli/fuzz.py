"""What `deplodock fuzz` prints: each failure shrunk, as a command and as IR, and a summary."""

from __future__ import annotations

import shlex
import sys

from deplodock.fuzz.case import Case, Checker, Failure, NotDrawn
from deplodock.fuzz.run import FoundFailure, fuzz
from deplodock.fuzz.shrink import Shrinker
from deplodock.fuzz.ways import script
from deplodock.passes.options import Kind
from deplodock.schedule.steps import format_schedule
from deplodock.tools.progress import working


def run(
    first: int, count: int | None, seconds: float | None, compile_every: int, host_every: int, most_failures: int
) -> bool:
    """Fuzz, print what is found, and say whether all is well."""
    last = "" if count is None else f" of {count}"
    with working("checking") as say:
        summary = fuzz(
            first,
            count=count,
            seconds=seconds,
            compile_every=compile_every,
            host_every=host_every,
            most_failures=most_failures,
            report=report,
            begin=lambda number: say(f"checking case {number - first + 1}{last}"),
        )
    print("\n".join(summary.lines()))
    missing = summary.missing()
    if missing:
        print(f"FAILED: fewer than one in twenty of {', '.join(missing)}")
    print("FAILED" if summary.failures or missing else "passed")
    return not summary.failures and not missing


def report(found: FoundFailure) -> None:
    """Shrink a failure and print it."""
    shrinker = Shrinker(found.case, found.expression, found.failure)
    case = shrinker.run()
    checker = Checker(case, every_pass=True)
    failure = shrinker.failure
    try:
        checker.run()
    except NotDrawn:
        pass
    except Failure as earliest:
        failure = earliest
    print(f"case {found.number}: {failure}".rstrip())
    print("  again: " + _command(case, checker.kinds))
    if case.way is None and (case.fusion is not None or len(checker.kinds) > 1):
        print("  with the module below in --from FILE, which has the decisions of fusion and the schedules")
    if checker.before:
        print(f"  the last module that was right:\n{checker.before}")
    sys.stdout.flush()


def _command(case: Case, kinds: set[Kind]) -> str:
    """The command line that shows a failure again, with the schedule where one serves all kernels.

    Of a program that is called in a way, it is Python that calls it so.
    """
    if case.way is not None:
        return shlex.join(["python", "-c", script(case.text, case.seed, case.way, case.precision)])
    words = ["deplodock", "run", "--device", "sim", "-c", case.text, "--seed", str(case.seed)]
    if case.schedules is not None and len(kinds) == 1:
        words += ["--schedule", format_schedule(case.schedules[next(iter(kinds))])]
    if case.precision != "highest":
        words += ["--precision", case.precision]
    return shlex.join(words)
