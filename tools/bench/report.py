"""What `deplodock bench` writes: one JSON line a row, and a Markdown table of all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from deplodock.dialects.precision import PRECISIONS
from deplodock.errors import InvalidInputError
from deplodock.runtime.files import write_whole
from deplodock.runtime.records import check_texts, json_lines

OWN, EAGER, COMPILED = "deplodock", "PyTorch, graph", "torch.compile, graph"
OWN_LOOP, EAGER_LOOP, COMPILED_LOOP = "deplodock, loop", "PyTorch, loop", "torch.compile, loop"
AUTOTUNED = "torch.compile, max-autotune"
MODES = {"default": COMPILED, "max-autotune-no-cudagraphs": AUTOTUNED}
"""The modes of torch.compile that a row is timed in, with the names of those times."""

_COMPILED = (COMPILED, COMPILED_LOOP, AUTOTUNED)
_PEERS = (EAGER, COMPILED, AUTOTUNED)

UNMEASURED = "not measured: out of time"
"""The error of a row that was not started."""

_WORDS = 40
"""The words of an error that stay in the results."""


@dataclass(frozen=True)
class Result:
    """What came out of a row: `bench` as `deplodock run --bench --json` prints it, or why there is no such thing.

    `conditions` says how it was measured: card, driver, versions, commit and command.
    """

    name: str
    kind: str
    bench: dict[str, Any] | None
    error: str
    conditions: dict[str, str]

    @property
    def precision(self) -> str:
        """The precision of our products of FP32."""
        return "highest" if self.bench is None else self.bench.get("precision", "highest")

    @property
    def passed(self) -> bool:
        """Whether the row is right and measured."""
        return not self.error and self.bench is not None

    def microseconds(self, contestant: str) -> float | None:
        """The time of a contestant; None if it took no part."""
        timings = [] if self.bench is None else self.bench["timings"]
        return next((each["microseconds"] for each in timings if each["name"] == contestant), None)

    def with_compiled(self, earlier: Result | None) -> Result:
        """This result, with the times of torch.compile that only an earlier one has, of the same card and PyTorch."""
        if self.bench is None or earlier is None or earlier.bench is None:
            return self
        if any(self.conditions.get(name) != earlier.conditions.get(name) for name in ("card", "torch")):
            return self
        names = [name for name in _COMPILED if self.microseconds(name) is None]
        kept = [each for each in earlier.bench["timings"] if each["name"] in names]
        return replace(self, bench={**self.bench, "timings": [*self.bench["timings"], *kept]})

    def ratio(self, contestant: str, own_name: str = OWN) -> float | None:
        """How many times as long as ours a contestant takes."""
        own, other = self.microseconds(own_name), self.microseconds(contestant)
        return None if own is None or other is None else other / own


def products_of_pytorch(precision: str) -> str:
    """How PyTorch computes products of FP32 where ours are measured at a precision."""
    return "TF32" if precision == "medium" else "strict"


def read_results(folder: Path) -> dict[str, Result]:
    """The results in a folder by name; none if there is no file. Raises InvalidInputError for what is no result."""
    path = folder / "results.jsonl"
    if not path.is_file():
        return {}
    found: dict[str, Result] = {}
    for number, result in json_lines(path, _read):
        if isinstance(result, ValueError):
            raise InvalidInputError(f"{path}:{number}: error: no result: {result}")
        found[result.name] = result
    return found


def _read(given: Mapping[str, Any]) -> Result:
    """The result of a line. Raises ValueError that says what is wrong with it."""
    wanted = [each.name for each in fields(Result)]
    if {*given} != {*wanted}:
        raise ValueError(f"it must have {', '.join(wanted)}")
    check_texts(given, ("name", "kind", "error"))
    if not isinstance(given["conditions"], dict) or not isinstance(given["bench"], dict | None):
        raise ValueError("bench and conditions must be objects")
    return Result(**given)


def write_results(folder: Path, results: Iterable[Result], page: Callable[[Sequence[Result]], str]) -> None:
    """Write `results.jsonl`, and `results.md`, which is the page."""
    kept = list(results)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(result)) for result in kept]
    write_whole(folder / "results.jsonl", "".join(f"{line}\n" for line in lines))
    write_whole(folder / "results.md", page(kept))


def markdown(results: Sequence[Result]) -> str:
    """All rows as a table, failed ones with their reason, after the geometric means of the ratios."""
    head = [
        "Microseconds of a run, in CUDA graphs; ratios are PyTorch's time by ours, so above 1 we are faster.",
        "Times of max-autotune are measured once for each card and version of PyTorch.",
        "Products of FP32 are of our precision that the table names, PyTorch's strict, or in TF32.",
        "",
        *[line for contestant in _PEERS for line in _means(results, contestant)],
        "",
        f"| row | deplodock | {' | ratio | '.join(_PEERS)} | ratio | share of the floor | products of FP32 |",
        "|---" * (4 + 2 * len(_PEERS)) + "|",
    ]
    return "\n".join([*head, *map(_line, results), "", *measured(results)]) + "\n"


def measured(results: Sequence[Result]) -> list[str]:
    """A line for each of the conditions under which results were measured."""
    conditions = dict.fromkeys(", ".join(result.conditions.values()) for result in results)
    return [f"Measured: {each}" for each in conditions]


def short(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()[:_WORDS])}"


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def _means(results: Sequence[Result], contestant: str) -> list[str]:
    strict, *others = ([result for result in results if result.precision == word] for word in PRECISIONS)
    without = [result for result in strict if not result.kind.startswith("sdpa")]
    groups = {"all rows": strict, "without sdpa": without, **dict(zip(PRECISIONS[1:], others, strict=True))}
    lines: list[str] = []
    for name, group in groups.items():
        ratios = [ratio for result in group if (ratio := result.ratio(contestant)) is not None]
        if ratios:
            lines.append(
                f"- {contestant}, {name}: geometric mean {mean(ratios):.3f}, "
                f"least {min(ratios):.3f}, {len(ratios)} rows"
            )
    return lines


def _line(result: Result) -> str:
    if result.bench is None or result.error:
        return f"| {result.name} | **{result.error.replace('|', '/')}** {'| ' * (2 + 2 * len(_PEERS))}|"
    own = result.microseconds(OWN)
    cells = [number(own, 1)]
    for contestant in _PEERS:
        cells += [number(result.microseconds(contestant), 1), number(result.ratio(contestant), 3)]
    share = None if own is None else result.bench["floor"] / own
    products = f"{result.precision}, PyTorch's {products_of_pytorch(result.precision)}"
    return f"| {result.name} | {' | '.join([*cells, number(share, 3), products])} |"


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
