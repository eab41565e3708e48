"""Runs cases one after the other, and sums up what they exercised."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from deplodock.dialects.precision import PRECISIONS
from deplodock.dialects.torch.aten import SCHEMAS
from deplodock.fuzz.case import Case, Failure, NotDrawn, check
from deplodock.fuzz.drawing import DTYPES
from deplodock.fuzz.engines import draw_for_engine
from deplodock.fuzz.expressions import draw_expression
from deplodock.fuzz.program import Expression
from deplodock.fuzz.schedules import draw_schedules
from deplodock.fuzz.ways import Calling

LEAST_SHARE = 0.05
"""The share of the cases that must reach each of what `shares` lists."""

PRODUCTS = 0.25
"""The share of the cases that are products or attention for tensor cores."""

WAYS = {Calling.SAVED: 0.14, Calling.COMPILED: 0.16, Calling.TRAINED: 0.2}
"""The shares of the other cases that are called in a way, too."""

COARSER = 0.5
"""The share of the cases whose products of FP32, where they have any, are of less than the highest precision."""

COUNTED = 200
"""From how many cases on shares are demanded: fewer say nothing about them."""

REACHES = {
    "CUDA text": "cuda",
    "staged": "stage-inputs",
    "pipelined": "pipeline-k-outer",
    "split k": "split-matmul-k",
    "windows": "flatten-contraction",
    "tensor cores": "tensor-tile",
    "tensor cores of bytes": "bytes",
    "roles": "roles",
    "scanned": "scans",
    "high or medium": "precision",
    "exact on integers": "exact",
    "sliced factors": "sliced factors",
    "k above 512": "long k",
    "saved and loaded": Calling.SAVED.value,
    "torch.compile": Calling.COMPILED.value,
    "gradients": Calling.TRAINED.value,
    "writes in place": "writes",
    "views": "views",
    "shared memory": "shared memory",
    "run on the host": "host",
}
"""What a case may reach, and the stage that says so, or what the kernels hold."""


@dataclass
class Summary:
    """What a run of the fuzzer did."""

    first: int
    host_every: int = 0
    seconds: float = 0.0
    cases: int = 0
    compiled: int = 0
    run_on_gpu: int = 0
    not_drawn: Counter[str] = field(default_factory=Counter[str])
    reached: Counter[str] = field(default_factory=Counter[str])
    dtypes: Counter[str] = field(default_factory=Counter[str])
    overloads: Counter[str] = field(default_factory=Counter[str])
    families: Counter[str] = field(default_factory=Counter[str])
    failures: list[FoundFailure] = field(default_factory=list["FoundFailure"])
    alike: list[int] = field(default_factory=list[int])
    """The cases that failed like one before."""

    def shares(self) -> dict[str, float]:
        """The share of the cases that reached each thing and had each element type."""
        cases = max(self.cases, 1)
        wanted = {name: stage for name, stage in REACHES.items() if stage != "host" or 0 < self.host_every <= 10}
        reached = {name: self.reached[stage] / cases for name, stage in wanted.items()}
        types = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
        return reached | {name: self.dtypes[name] / cases for name in types}

    def missing(self) -> list[str]:
        """What too few of the cases reached, if there were enough of them."""
        if self.cases < COUNTED:
            return []
        return [name for name, share in self.shares().items() if share < LEAST_SHARE]

    def lines(self) -> list[str]:
        """The summary as text."""
        drawn = self.cases + sum(self.not_drawn.values())
        never = sorted(name for name in SCHEMAS if not self.overloads[name])
        return [
            f"{self.cases} programs of {drawn} from seed {self.first} in {self.seconds:.0f} s, "
            f"{self.compiled} compiled by nvcc, {self.reached['host']} run on the host, "
            f"{self.run_on_gpu} run on a GPU, {len(self.failures)} failures",
            ", ".join(f"{name} {share:.0%}" for name, share in self.shares().items()),
            "families: " + ", ".join(f"{name} {n / max(self.cases, 1):.0%}" for name, n in self.families.most_common()),
            *([f"failed like those above: {', '.join(map(str, self.alike))}"] if self.alike else []),
            *(f"left out: {count} because {reason}" for reason, count in self.not_drawn.most_common()),
            f"{len(SCHEMAS) - len(never)} of {len(SCHEMAS)} operations; never: {', '.join(never) or 'none'}",
        ]


@dataclass(frozen=True)
class FoundFailure:
    """A failure, with the number of its case and the program as it was drawn."""

    number: int
    expression: Expression
    case: Case
    failure: Failure


def draw_case(number: int, *, compile_every: int, host_every: int = 0) -> tuple[Expression, Case]:
    """The case of a number: the same on every machine. Of n cases, nvcc takes the first and the host the last."""
    draw = random.Random(number)
    is_product = draw.random() < PRODUCTS
    way = None if is_product else draw.choices([None, *WAYS], [1 - sum(WAYS.values()), *WAYS.values()])[0]
    expression, kind, engine = draw_for_engine(draw) if is_product else (draw_expression(draw, way), None, None)
    fusion = draw.randrange(2**16) if draw.random() < 0.3 else None
    schedules = draw_schedules(draw) if is_product or draw.random() < 0.7 else None
    if kind is not None and engine is not None and schedules is not None:
        schedules = {**schedules, kind: engine}
    compiles = compile_every > 0 and number % compile_every == 0
    runs_on_host = host_every > 0 and (number + 1) % host_every == 0
    precision = draw.choice(PRECISIONS[1:]) if draw.random() < COARSER else PRECISIONS[0]
    return expression, Case(expression.text(), number, fusion, schedules, compiles, runs_on_host, precision, way)


def fuzz(
    first: int,
    *,
    count: int | None,
    seconds: float | None,
    compile_every: int,
    host_every: int,
    most_failures: int,
    report: Callable[[FoundFailure], None],
    begin: Callable[[int], object] = lambda number: None,
) -> Summary:
    """Check the cases from number `first` on, until `count`, `seconds` or failures of that many kinds are reached.

    Each kind of failure is reported once, as it is found; `begin` is told the number of each case before it is checked.
    """
    start = time.perf_counter()
    summary = Summary(first, host_every)
    known: set[object] = set()
    number = first
    while (count is None or number < first + count) and (seconds is None or time.perf_counter() - start < seconds):
        begin(number)
        expression, case = draw_case(number, compile_every=compile_every, host_every=host_every)
        try:
            facts = check(case)
            summary.reached.update(facts.reached)
            summary.dtypes.update(facts.dtypes)
            summary.overloads.update(facts.overloads)
            summary.families.update(expression.families())
            summary.compiled += "nvcc" in facts.reached
            summary.run_on_gpu += "gpu" in facts.reached
            summary.cases += 1
        except NotDrawn as reason:
            summary.not_drawn[str(reason)] += 1
        except Failure as failure:
            summary.cases += 1
            found = FoundFailure(number, expression, case, failure)
            summary.failures.append(found)
            if failure.key in known:
                summary.alike.append(number)
            else:
                known.add(failure.key)
                report(found)
        number += 1
        if len(known) >= most_failures:
            break
    summary.seconds = time.perf_counter() - start
    return summary
