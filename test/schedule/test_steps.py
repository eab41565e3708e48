"""The text of schedules."""

import pytest
from xdsl.utils.exceptions import VerifyException

from deplodock.schedule.steps import RuleStep, format_schedule, options_for_all, parse_schedule, steps


def test_schedule_text() -> None:
    """A schedule is read and written as a pass pipeline."""
    text = "tileify,cooperative-reduce{threads=256 keep=axes},stage-inputs"
    schedule = parse_schedule(text)
    assert schedule == steps(
        {"tileify": {}, "cooperative-reduce": {"threads": 256, "keep": "axes"}, "stage-inputs": {}}
    )
    assert format_schedule(schedule) == text


def test_steps_have_targets() -> None:
    text = "tileify,chunk-matmul-k(scores){bk=64},register-tile{m=8 n=8},register-tile(out_1){vector=4}"
    schedule = parse_schedule(text)
    assert schedule[1] == RuleStep("chunk-matmul-k", {"bk": 64}, "scores")
    assert [step.name for step in schedule[2:]] == ["register-tile", "register-tile(out_1)"]
    assert options_for_all(schedule, "register-tile") == {"m": 8, "n": 8}
    assert not options_for_all(schedule, "chunk-matmul-k")
    assert format_schedule(schedule) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tileify{", "malformed schedule 'tileify{'"),
        ("tileify,tileify", "names tileify twice"),
        ("register-tile(a),register-tile,register-tile(a){m=2}", "names register-tile(a) twice"),
        ("tileify,,stage-inputs", "'' is no step; a step is rule(target){options}"),
        ("register-tile(){m=2}", "malformed schedule 'register-tile(){m=2}'"),
        ("register-tile{m=2}(a)", "malformed schedule 'register-tile{m=2}(a)'"),
        ("stage-inputs{memory=a,b}", "the option memory of stage-inputs takes one integer or word"),
    ],
)
def test_bad_schedule_text(text: str, message: str) -> None:
    """A schedule that cannot be read is refused with its text."""
    with pytest.raises(VerifyException) as error:
        parse_schedule(text)
    assert message in str(error.value)
