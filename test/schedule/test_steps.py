"""The text of schedules."""

import pytest
from xdsl.utils.exceptions import VerifyException

from deplodock.schedule.steps import format_schedule, parse_schedule


def test_schedule_text() -> None:
    """A schedule is read and written as a pass pipeline."""
    text = "tileify,cooperative-reduce{threads=256 keep=axes},stage-inputs"
    schedule = parse_schedule(text)
    assert schedule == {"tileify": {}, "cooperative-reduce": {"threads": 256, "keep": "axes"}, "stage-inputs": {}}
    assert format_schedule(schedule) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tileify{", "malformed schedule 'tileify{'"),
        ("tileify,tileify", "names tileify twice"),
        ("stage-inputs{memory=a,b}", "the option memory of stage-inputs takes one integer or word"),
    ],
)
def test_bad_schedule_text(text: str, message: str) -> None:
    """A schedule that cannot be read is refused with its text."""
    with pytest.raises(VerifyException) as error:
        parse_schedule(text)
    assert message in str(error.value)
