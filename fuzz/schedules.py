"""Random legal schedules: options of the rules for contractions and for other kernels, and the orders that rules allow.

What an option may be, and what is worth a draw, the rule says. Own draws are here only where those values are too large
for small shapes: tiles are small, so that small shapes have ragged tiles, several steps of k, and rings that go round.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.shape.nest import kernels, nests
from deplodock.analysis.shape.roles import contraction
from deplodock.passes.options import Kind, Value
from deplodock.passes.pipeline import RULES
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.passes.tile.rule import Rule
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.schedule.steps import Schedule, steps

NEEDED = (
    "cooperative-reduce",
    "blockify-launch",
    "split-factors",
    "register-tile",
    "double-buffer",
    "pipeline-k-outer",
)
"""The rules that are never left out of those drawn: without split-factors, tiles of tensor cores are refused in
`high`."""

SHARES = {"split-matmul-k": 0.4, "cooperative-reduce": 0.4, "tma-copy": 0.8}
"""The shares of draws in which rules are among those drawn; others always are."""

OF_ROWS = ("cooperative-reduce",)
"""The rules that are drawn for other kernels alone: with a contraction's tile, their threads are too many for a CTA."""

OWN: Mapping[str, Mapping[str, Sequence[Value | None]]] = {
    "split-matmul-k": {"s": (2, 3, 5)},
    "cooperative-reduce": {
        "threads": (1, 2, 3, 8, 16, 24, 32, 64, 96),
        "vector": (1, 1, 2, 3, 4),
        "outer": (1, 1, 1, 2),
        "lanes": ("row", "row", "row", "free"),
    },
    "blockify-launch": {"threads": (1, 3, 8, 16, 32, 64, 100, 256), "occupancy": (None, 2)},
    "chunk-reduce": {"size": (1, 2, 4, 5, 8, 16)},
    "stage-inputs": {"memory": ("auto", "shared", "shared", "register")},
    "permute-register-tile": {
        "m": (None, "blocked", "strided", "strips", "strips"),
        "n": (None, "blocked", "strided", "strips", "strips"),
        "lanes": (None, None, None, "nm", "mn", "n", "nmnnm"),
    },
    "double-buffer": {"depth": (2, 3, 3, 3, 4, 4, 4, 4)},
    "tma-copy": {"bytes": (16,)},
    "async-copy": {"bytes": (4, 4, 4, 4, 4, 4, 4, 16)},
    "split-inner-for-swizzle": {"span": (None, 32, 32, 64)},
    "pipeline-k-outer": {"distance": (1, 1, 2), "barrier": ("cta", "mbarrier", "mbarrier")},
    "mark-unroll": {"limit": (20, 200, 1100)},
}
"""The values from which options are drawn, as often as they stand here; None is an option that is not given."""


TENSOR_SHARE = 0.1
"""The share of draws whose chunks tensor cores take, where the factors are of 16 bits."""


def draw_rules(draw: random.Random, kind: Kind) -> list[Rule[Any]]:
    """The rules with random options for launches of a kind, but for tileify, which has none."""
    tile = _draw_contraction(draw) if kind is Kind.CONTRACTION else {}
    rules: list[Rule[Any]] = []
    for stage in RULES[1:]:
        cls = stage.load()
        assert issubclass(cls, Rule)
        options: dict[str, Value] = {}
        for name, option in cls.options().items():
            tried = OWN.get(stage.name, {}).get(name, (option.default, *option.domain.tried))
            value = draw.choice(tried)
            if value is not None and option.kind in (None, kind):
                options[name] = value
        is_drawn = draw.random() < SHARES.get(stage.name, 1)
        if is_drawn and (kind is Kind.OTHER or stage.name not in OF_ROWS):
            rules.append(cls(**options | tile.get(stage.name, {})))
    return rules


def _draw_contraction(draw: random.Random) -> dict[str, dict[str, Value]]:
    """The options that suit each other in a contraction.

    Vectors divide chunks, a CTA's threads are few, strips divide registers; slabs may be shared, as those on rings are.
    """
    m, n = draw.choice([1, 2, 2, 3, 4, 8]), draw.choice([1, 2, 2, 4, 5])
    rows, columns = draw.choice(
        [(16, 16), (32, 32), (8, 24)] if m * n < 4 else [(64, 32), (32, 64), (24, 40), (32, 16)]
    )
    kv = draw.choice([1, 1, 2, 4])
    chunk: dict[str, Value] = {"bk": kv * draw.choice([1, 2, 3, 4, 8]), "kv": kv}
    if draw.random() < TENSOR_SHARE:
        chunk = {"bk": draw.choice([16, 32, 48]), "kv": 1}
    return {
        "chunk-matmul-k": chunk,
        "blockify-launch": {"m": rows, "n": columns},
        "stage-inputs": {"memory": draw.choice(["auto", "shared"])},
        "register-tile": {"m": m, "n": n},
        "permute-register-tile": {"vec": draw.choice([v for v in (1, 2, 4, 8) if m % v == n % v == 0] or [4])},
    }


def legal_order(draw: random.Random, rules: Sequence[Rule[Any]]) -> list[Rule[Any]]:
    """Rules in a random legal order after tileify; some that are not needed are left out."""
    drawn = [rule for rule in rules if rule.name in NEEDED or draw.random() < 0.93]
    draw.shuffle(drawn)
    ordered: list[Rule[Any]] = []
    while drawn:
        names = {rule.name for rule in drawn}
        free = next(rule for rule in drawn if not names & set(rule.after))
        drawn.remove(free)
        ordered.append(free)
    return [TileifyPass(), *ordered]


def draw_schedules(draw: random.Random) -> dict[Kind, Schedule]:
    """A random schedule for the kernels of each kind."""
    return {kind: _schedule(draw, draw_rules(draw, kind)) for kind in Kind}


def kind_of_kernel(function: func.FuncOp) -> Kind:
    """The kind of a kernel: that of a contraction if it has one."""
    return Kind.OTHER if all(contraction(nest) is None for nest in nests(function)) else Kind.CONTRACTION


def write_schedules(module: ModuleOp, schedules: Mapping[Kind, Schedule]) -> None:
    """Write the schedule of its kind on each kernel of a module at loop level, completed as `choose-schedule` does."""
    for function in kernels(module):
        write_schedule(function, schedules[kind_of_kernel(function)])


def _schedule(draw: random.Random, rules: Sequence[Rule[Any]]) -> Schedule:
    kept = [rule for rule in rules if rule.name in NEEDED or draw.random() < 0.93]
    return steps({"tileify": {}, **{rule.name: rule.given() for rule in kept}})
