"""Compares strategies on recorded tables: how far from the best they are after so many measurements. Needs no GPU.

    python -m deplodock.tune.comparison bench/tuned/tables/*.jsonl

Measured times have noise of one percent, as those of a GPU have. Points of one CUDA text are measured once. Searches
start at the first choice of the model of the table's kernel, or at its first point where there is no model.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from deplodock.tune.model import Constants, model_of
from deplodock.tune.search import strategies
from deplodock.tune.table import Table, read_table

BUDGETS = (8, 16, 32, 64)
"""Measurements after which searches are compared."""

SEEDS = 40

NOISE = 0.01
"""The standard deviation of a measurement."""


def modelled(table: Table, constants: Constants | None = None) -> Table:
    """The table with the estimates of the model of its kernel, if there is one."""
    model = model_of(table.task, constants)
    return table if model is None else table.estimated(model)


def play(table: Table, strategy: str, budget: int, seed: int) -> float:
    """The time of what a strategy chooses after so many measurements, over the least time of the table."""
    noise = random.Random(seed)
    search = strategies()[strategy](table.space, seed, budget)
    measured: dict[int, float] = {}
    best, chosen = math.inf, math.inf
    while len(measured) < budget and (asked := search.ask(1)):
        (point,) = asked
        time = table.times[point]
        code = table.codes[point]
        if time is not None and code not in measured:
            measured[code] = time * (1 + noise.gauss(0, NOISE))
            best, chosen = min((best, chosen), (measured[code], time))
        search.tell(point, measured.get(code))
    return chosen / table.best


def ratios(table: Table, strategy: str, budget: int, seeds: int = SEEDS) -> list[float]:
    """What `play` gives for some seeds, in order of size."""
    return sorted(play(table, strategy, budget, seed) for seed in range(seeds))


def share(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of some sorted ones do not exceed."""
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)]


def comparison(table: Table) -> str:
    """A table in Markdown: for each strategy the median and the 90th percentile at each budget."""
    lines = [f"| {table.what} | " + " | ".join(map(str, BUDGETS)) + " |", "|---" * (1 + len(BUDGETS)) + "|"]
    for name in strategies():
        found = [ratios(table, name, budget) for budget in BUDGETS]
        cells = [f"{statistics.median(values):.3f} / {share(values, 90):.3f}" for values in found]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n\n".join(comparison(modelled(read_table(Path(path)))) for path in sys.argv[1:]))
