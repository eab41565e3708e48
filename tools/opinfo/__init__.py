"""PyTorch's own operator database (OpInfo) through `deplodock.compile` in the simulator, compared with eager.

    python -m deplodock.tools.opinfo                     all operations; exit code 1 if an outcome is not as expected
    python -m deplodock.tools.opinfo add 'linalg.*'      those of these names
    python -m deplodock.tools.opinfo --part              a fixed part, about half a minute of work, spread over all
    python -m deplodock.tools.opinfo --update            writes the outcomes as what is expected

An operation is an entry of `op_db` with its variant, such as `div.floor_rounding`. Its first samples of each element
type are right, refused by name, or left out: torch.export cannot capture them, PyTorch itself raises, or they draw
random numbers or return memory that nobody wrote, so that there is no one result. Whatever the file of expected
outcomes says, none may be wrong, raise what is no error of deplodock's, or take more than 30 s. The file says
with which PyTorch it was made; with another version nothing more is demanded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from deplodock.runtime.falls import raise_in_this_process
from deplodock.tools.opinfo import file as opinfo_file
from deplodock.tools.opinfo.samples import FAILURES, SampleKind, SampleOutcome
from deplodock.tools.opinfo.workers import SAMPLES, TYPES, Choice, database, run
from deplodock.tools.quiet import quiet

FILE = Path(__file__).parents[2] / "test" / "tools" / "opinfo" / "opinfo.txt"
_ALL_TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def main(arguments: Sequence[str], path: Path = FILE) -> int:
    """Run operations and compare with the file, or update it; returns the exit code."""
    options = _parser().parse_args(arguments)
    choice = Choice(options.types, options.samples, options.part)
    version = torch.__version__.partition("+")[0]
    made_with, expected = opinfo_file.read(path.read_text(encoding="utf-8")) if path.exists() else ("", {})
    try:
        entries = database()
    except ImportError as error:
        return _refuse(f"PyTorch's test utilities need a package: {error}; install the dev extra")
    chosen = {name: entry for name, entry in entries.items() if _matches(name, options.names or ["*"])}
    if unknown := [wanted for wanted in options.names if not any(_matches(name, [wanted]) for name in entries)]:
        return _refuse(f"PyTorch's database has no operation {', '.join(unknown)}")
    if options.update and choice != Choice():
        return _refuse("--update writes the outcomes of all samples: leave --types, --samples and --part out")
    if options.update and options.names and made_with != version:
        return _refuse(f"the file was made with PyTorch {made_with or '(none)'}: update all of it for {version}")
    raise_in_this_process()
    report = _Findings(expected if made_with == version and not options.update else None)
    with quiet():
        for name, types in run(chosen, choice, options.jobs):
            report.add(name, types)
    if options.update:
        updated = {**expected, **report.outcomes} if options.names else report.outcomes
        path.write_text(opinfo_file.written(version, updated), encoding="utf-8")
    elif made_with != version:
        print(f"{path.name} was made with PyTorch {made_with or '(none)'}, this is {version}: only failures count")
    report.print(options.reasons)
    return report.exit_code


class _Findings:
    """What was found, and where it differs from what is expected, if anything is."""

    def __init__(self, expected: opinfo_file.Outcomes | None) -> None:
        self.outcomes: dict[str, dict[str, list[SampleOutcome]]] = {}
        self.exit_code = 0
        self._expected = expected
        self._counts: Counter[SampleKind] = Counter()
        self._reasons: Counter[str] = Counter()

    def add(self, name: str, types: Mapping[str, Mapping[int, SampleOutcome]]) -> None:
        """Take in the outcomes of an operation, by element type and number of the sample; print what is not right."""
        self.outcomes[name] = {kind: list(found.values()) for kind, found in types.items()}
        for kind, found in types.items():
            self._counts.update(outcome.kind for outcome in found.values())
            self._reasons.update(outcome.reason for outcome in found.values() if outcome.kind is SampleKind.REFUSED)
            for number, outcome in found.items():
                if text := self._difference(name, kind, number, outcome):
                    print(f"{name} {kind} sample {number}: {text}", flush=True)
                    self.exit_code = 1

    def _difference(self, name: str, kind: str, number: int, outcome: SampleOutcome) -> str:
        if outcome.kind in FAILURES:
            return f"{outcome.kind.value}: {outcome.reason}"
        if self._expected is None or kind not in TYPES or number >= SAMPLES:
            return ""
        expected = self._expected.get(name, {}).get(kind, [])
        wanted = expected[number] if number < len(expected) else None
        if wanted == opinfo_file.kept(outcome):
            return ""
        return f"{_shown(outcome)}, expected {'nothing' if wanted is None else _shown(wanted)}"

    def print(self, with_reasons: bool) -> None:
        """Print the counts, and the reasons for refusals by how many samples they refuse."""
        if with_reasons:
            for reason, count in self._reasons.most_common():
                print(f"{count:6} {reason}")
        print(", ".join(f"{self._counts[kind]} {kind.value}" for kind in SampleKind))
        captured = self._counts.total() - self._counts[SampleKind.LEFT_OUT]
        if captured:
            share = self._counts[SampleKind.RIGHT] / captured
            print(f"{share:.1%} of the {captured} samples that torch.export captures are right")


def _shown(outcome: SampleOutcome) -> str:
    return outcome.kind.value + (f" ({outcome.reason})" if outcome.reason else "")


def _matches(name: str, wanted: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in wanted)


def _refuse(message: str) -> int:
    print(f"opinfo: {message}", file=sys.stderr)
    return 2


def _types(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(_ALL_TYPES):
        raise argparse.ArgumentTypeError(f"no type {', '.join(sorted(unknown))}; there are {', '.join(_ALL_TYPES)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deplodock.tools.opinfo", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="operations, or patterns of them such as 'linalg.*'; by default all")
    parser.add_argument("--types", type=_types, default=TYPES, help=f"element types, by default {','.join(TYPES)}")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="how many samples of each type, at most")
    parser.add_argument("--part", action="store_true", help="run a fixed part, spread over all operations and types")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes; by default one a core")
    parser.add_argument("--update", action="store_true", help="write the file of expected outcomes")
    parser.add_argument("--reasons", action="store_true", help="print why samples are refused, and how many")
    return parser
