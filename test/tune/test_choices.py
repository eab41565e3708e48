"""The space of a kernel: the heuristic's schedule first, the values of the rules around it."""

import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod

import pytest
from row_sums import ROWS, module

from deplodock.analysis.shape.nest import kernels
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.tile.rule import read_schedule
from deplodock.passes.tile.split_factors import SplitFactorsPass
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.choose.sizes import CHAIN
from deplodock.schedule.steps import format_schedule
from deplodock.tune.choices import space_of
from deplodock.tune.space import Space
from deplodock.tune.table import Table
from deplodock.tune.task import Task, module_of, tasks

LINEAR = "torch.nn.functional.linear(torch.randn(200, 768, dtype=D), torch.randn(1500, 768, dtype=D))"
HEADS = "torch.randn(1, 9, 256, 64, dtype=D)"
ATTENTION = f"torch.nn.functional.scaled_dot_product_attention({HEADS}, {HEADS}, {HEADS})"
KINDS = {
    "linear": f"import torch\nD = torch.float32\n{LINEAR}",
    "tensor cores": f"import torch\nD = torch.bfloat16\n{LINEAR}",
    "attention": f"import torch\nD = torch.bfloat16\n{ATTENTION}",
    "columns": "torch.randn(300, 2000).amax(0)",
    "points": "torch.nn.functional.gelu(torch.randn(999, 1000))",
}


@cache
def task_of_kind(kind: str) -> Task:
    found = read_expression(KINDS[kind]).module
    lower(found, new_context(), Level.LOOP, target="h200", stream="always")
    return max(tasks(found), key=lambda task: len(task.text))


def unlowered(schedules: Sequence[str]) -> Sequence[str]:
    """As if each schedule gave something of its own at tile level."""
    return schedules


@cache
def space_of_kind(kind: str) -> Space:
    return space_of(task_of_kind(kind), unlowered)


@pytest.mark.parametrize("kind", KINDS)
def test_the_heuristic_comes_first_and_all_schedules_are_read(kind: str) -> None:
    space = space_of_kind(kind)
    (function,) = kernels(module_of(task_of_kind(kind))[0])
    assert space.schedule(space.start) == format_schedule(choose(function))
    assert len(set(space.points)) == len(space.points) > 50
    draw = random.Random(0)
    for point in draw.sample(space.points, 30):
        read_schedule(space.schedule(point))
        assert space.estimate(point) > 0


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("linear", {"heuristics", "chunk-matmul-k.bk", "blockify-launch.m", "register-tile.n", "double-buffer.depth"}),
        ("tensor cores", {"heuristics", "tensor-tile.n", "pipeline-k-outer.distance", "blockify-launch.n"}),
        ("attention", {"heuristics", "stream-tile.m", "stream-tile.n", "double-buffer.depth"}),
        ("columns", {"cooperative-reduce.threads", "blockify-launch.threads", "mark-unroll"}),
        ("points", {"blockify-launch.threads", "register-tile.vector"}),
    ],
)
def test_kinds_have_the_options_of_their_rules(kind: str, names: set[str]) -> None:
    assert names <= {decision.name for decision in space_of_kind(kind).decisions}


def test_engines_are_weighed() -> None:
    for kind, rule in (("tensor cores", "tensor-tile"), ("attention", "stream-tile")):
        space = space_of_kind(kind)
        weighed = [space.steps((first, *space.start[1:])) for first in range(len(space.decisions[0].values))]
        engines = {step.options.get("engine", "threads") for steps in weighed for step in steps if step.rule == rule}
        assert {"mma", "wgmma"} <= engines


def test_values_that_change_nothing_or_are_refused_are_no_choices() -> None:
    (task,) = tasks(module(ROWS))

    def digests(schedules: Sequence[str]) -> Iterator[str]:
        for schedule in schedules:
            yield "" if "threads=128" in schedule else re.sub("vector=[0-9]", "vector=4", schedule)

    space, free = space_of(task, digests), space_of(task, unlowered)
    names, others = ({decision.name: decision.values for decision in each.decisions} for each in (space, free))
    assert others.keys() - names.keys() == {"cooperative-reduce.vector"}
    assert not any("threads=128" in value for values in names.values() for value in values)


def test_a_product_of_decisions_has_the_heuristic_first(table: Table) -> None:
    small = space_of_kind("linear").product(400)
    assert len(small.points) == prod(len(decision.values) for decision in small.decisions) > 100
    assert small.schedule(small.start) == space_of_kind("linear").schedule(space_of_kind("linear").start)
    assert [decision.name for decision in table.space.product(100).decisions] == ["tile", "bk", "split"]
    assert all(other in small.points for group in small.neighbours(small.start) for other in group)


def test_an_open_space_leads_to_points_that_it_does_not_list() -> None:
    space = space_of_kind("linear")
    point = space.points[-1]
    assert any(other not in space.points for group in space.neighbours(point) for other in group)


def test_no_search_takes_chains_that_lose_digits() -> None:
    """Tensor cores round sums toward zero, so what precision high promises ends with chains of `CHAIN` elements."""
    assert max(map(int, SplitFactorsPass.options()["chain"].domain.tried)) == CHAIN
