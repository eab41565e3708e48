"""What `deplodock bench` writes: one JSON line a row, and a Markdown table of all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OWN, EAGER, COMPILED = "deplodock", "PyTorch, graph", "torch.compile, graph"


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
    def passed(self) -> bool:
        """Whether the row is right and measured."""
        return not self.error and self.bench is not None

    def microseconds(self, contestant: str) -> float | None:
        """The time of a contestant; None if it took no part."""
        timings = [] if self.bench is None else self.bench["timings"]
        return next((each["microseconds"] for each in timings if each["name"] == contestant), None)

    def ratio(self, contestant: str) -> float | None:
        """How many times as long as ours a contestant takes."""
        own, other = self.microseconds(OWN), self.microseconds(contestant)
        return None if own is None or other is None else other / own


def read_results(folder: Path) -> dict[str, Result]:
    """The results in a folder by name; none if there is no file."""
    path = folder / "results.jsonl"
    if not path.is_file():
        return {}
    results = [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {result.name: result for result in results}


def write_results(folder: Path, results: Iterable[Result]) -> None:
    """Write `results.jsonl` and `results.md`."""
    kept = list(results)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(result)) for result in kept]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "results.md").write_text(markdown(kept), encoding="utf-8")


def markdown(results: Sequence[Result]) -> str:
    """All rows as a table, failed ones with their reason, after the geometric means of the ratios."""
    head = [
        "Microseconds of a run, in CUDA graphs; ratios are PyTorch's time by ours, so above 1 we are faster.",
        "",
        *[line for contestant in (EAGER, COMPILED) for line in _means(results, contestant)],
        "",
        f"| row | deplodock | {EAGER} | ratio | {COMPILED} | ratio | share of the floor |",
        "|---|---|---|---|---|---|---|",
    ]
    conditions = list(dict.fromkeys(", ".join(result.conditions.values()) for result in results))
    return "\n".join([*head, *map(_line, results), "", *(f"Measured: {each}" for each in conditions)]) + "\n"


def _means(results: Sequence[Result], contestant: str) -> list[str]:
    groups = {"all rows": results, "without sdpa": [result for result in results if result.kind != "sdpa"]}
    lines: list[str] = []
    for name, group in groups.items():
        ratios = [ratio for result in group if (ratio := result.ratio(contestant)) is not None]
        if ratios:
            mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
            lines.append(
                f"- {contestant}, {name}: geometric mean {mean:.3f}, least {min(ratios):.3f}, {len(ratios)} rows"
            )
    return lines


def _line(result: Result) -> str:
    if result.bench is None or result.error:
        return f"| {result.name} | **{result.error.replace('|', '/')}** | | | | | |"
    own = result.microseconds(OWN)
    cells = [_number(own, 1)]
    for contestant in (EAGER, COMPILED):
        cells += [_number(result.microseconds(contestant), 1), _number(result.ratio(contestant), 3)]
    share = None if own is None else result.bench["floor"] / own
    return f"| {result.name} | {' | '.join([*cells, _number(share, 3)])} |"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
