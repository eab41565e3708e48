"""How near right kernels come to the error bar, by type and kind of kernel.

    python test/shared/bars.py fuzz 1000000 500 10
    python test/shared/bars.py kinds

The first checks 500 fuzzed programs from a number on, every tenth on the host, too; the second simulates the kinds of
`test/gpu/kinds.toml`. For each type it prints how many outputs were compared, the largest share of the bar of the norm
and of that of an element that one took, and where; and each program that failed.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from deplodock.fuzz import case as cases
from deplodock.fuzz.run import draw_case
from deplodock.interpreters.values import is_float
from deplodock.runtime.compare import Verdict, compare

KINDS = Path(__file__).parents[1] / "gpu" / "kinds.toml"


@dataclass
class Shares:
    """The largest shares of the bars by type: of the norm, of an element, each with the program that took it."""

    outputs: Counter[str] = field(default_factory=Counter[str])
    largest: dict[str, tuple[float, float, str]] = field(default_factory=dict[str, tuple[float, float, str]])
    elements: dict[str, tuple[float, float, str]] = field(default_factory=dict[str, tuple[float, float, str]])

    def note(self, kind: str, where: str, verdict: Verdict) -> None:
        """Count a verdict."""
        self.outputs[kind] += 1
        if not verdict.passed or not verdict.bar:
            return
        norm = (verdict.error / verdict.bar, verdict.error, where)
        element = (verdict.worst / verdict.worst_bar if verdict.worst_bar else 0.0, verdict.worst, where)
        self.largest[kind] = max(norm, self.largest.get(kind, (0.0, 0.0, "")))
        self.elements[kind] = max(element, self.elements.get(kind, (0.0, 0.0, "")))

    def lines(self) -> list[str]:
        """A line for each type."""
        return [
            f"{kind:18} {count:6} outputs; norm: {self.largest[kind][0]:.2f} of the bar, "
            f"{self.largest[kind][1]:.1e} ({self.largest[kind][2]}); element: {self.elements[kind][0]:.2f}, "
            f"{self.elements[kind][1]:.1e} ({self.elements[kind][2]})"
            for kind, count in sorted(self.outputs.items())
            if kind in self.largest
        ]


def check(number: int, case: cases.Case, shares: Shares) -> str:
    """Check a case and note its verdicts; what failed, empty if nothing did."""
    checker = cases.Checker(case)

    def noting(got: Any, *args: Any, **kwargs: Any) -> Verdict:
        verdict = compare(got, *args, **kwargs)
        if is_float(got.dtype):
            products = f" {case.precision}" if "precision" in checker.facts.reached else ""
            shares.note(f"{got.dtype}{products}", f"{number} {vars(checker)['_done']}", verdict)
        return verdict

    with patch.object(cases, "compare", noting), torch.random.fork_rng(devices=[]):
        try:
            checker.run()
        except cases.NotDrawn:
            shares.outputs["not drawn"] += 1
        except cases.Failure as failure:
            return f"{number} FAILED {failure.kind.value} {failure.where}: {str(failure)[-600:]}\n  {case.text}"
    shares.outputs["exact"] += "exact" in checker.facts.reached
    shares.outputs["host"] += "host" in checker.facts.reached
    return ""


def fuzzed(first: int, count: int, host_every: int, shares: Shares) -> None:
    """Check programs of the fuzzer."""
    for number in range(first, first + count):
        _, case = draw_case(number, compile_every=0, host_every=host_every)
        if failure := check(number, case, shares):
            print(failure, flush=True)
        if (number + 1 - first) % 100 == 0:
            print(f"-- {number + 1 - first} cases", *shares.lines(), dict(shares.outputs), sep="\n", flush=True)


def kinds(shares: Shares) -> None:
    """Check the kinds of kernels, with their first schedule."""
    for name, held in tomllib.loads(KINDS.read_text(encoding="utf-8")).items():
        programs = held if name == "programs" else {name: held["text"]}
        for number, (kind, text) in enumerate(programs.items()):
            if failure := check(number, cases.Case(text, number), shares):
                print(kind, failure, flush=True)


def main() -> None:
    """Measure what the command line says."""
    shares = Shares()
    if sys.argv[1] == "kinds":
        kinds(shares)
    else:
        first, count, host_every = map(int, sys.argv[2:5])
        fuzzed(first, count, host_every, shares)
    print(*shares.lines(), dict(shares.outputs), sep="\n")


if __name__ == "__main__":
    main()
