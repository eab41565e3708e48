"""Changes of schedules as text."""

import pytest

from deplodock.schedule.steps import format_schedule, parse_schedule
from deplodock.tune.edits import difference, edited

BASE = "tileify,blockify-launch{m=64 n=64},stage-inputs,register-tile{m=4 n=4},mark-unroll"


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ("", BASE),
        ("blockify-launch.m=128", BASE.replace("m=64 n=64", "n=64 m=128")),
        ("-stage-inputs", BASE.replace(",stage-inputs", "")),
        ("pad-smem", BASE.replace(",mark", ",pad-smem,mark")),
        ("chunk-matmul-k.bk=16 chunk-matmul-k.kv=4", BASE.replace("tileify", "tileify,chunk-matmul-k{bk=16 kv=4}")),
        ("register-tile.m=", BASE.replace("{m=4 n=4}", "{n=4}")),
        ("blockify-launch(out).m=8", BASE.replace(",stage", ",blockify-launch(out){m=8},stage")),
        ("-mark-unroll mark-unroll.limit=200", BASE + "{limit=200}"),
    ],
)
def test_a_change_of_a_schedule(change: str, result: str) -> None:
    assert format_schedule(edited(parse_schedule(BASE), [change])) == result


@pytest.mark.parametrize(
    "after",
    [
        BASE,
        "tileify",
        "tileify,split-matmul-k{s=4 over=ticket},blockify-launch{n=32},stage-inputs{memory=shared},pad-smem",
        "tileify,split-stream{s=3},blockify-launch(out){threads=64},stage-inputs,mark-unroll",
    ],
)
def test_the_difference_of_two_schedules_makes_one_of_the_other(after: str) -> None:
    change = difference(parse_schedule(BASE), parse_schedule(after))
    made = edited(parse_schedule(BASE), [change])
    assert {step.name: dict(step.options) for step in made} == {
        step.name: dict(step.options) for step in parse_schedule(after)
    }
