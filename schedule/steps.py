"""The schedule of a kernel as text: which rules to apply, in order, with which options.

A schedule is a pass pipeline, `tileify,cooperative-reduce{threads=256 vector=4},stage-inputs`, kept on the kernel
function in `deplodock.schedule`. `schedule/choose/` holds the heuristics that choose one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, VerifyException

ATTRIBUTE = "deplodock.schedule"

LEFT_OUT = "the kernel's schedule leaves it out"
"""Why a rule skips a kernel whose schedule does not name it."""

Options = Mapping[str, int | str]
Schedule = Mapping[str, Options]


@lru_cache(maxsize=64)
def parse_schedule(text: str) -> Schedule:
    """Read a pass pipeline of rules with scalar options. Raises VerifyException with the text where it is malformed."""
    schedule: dict[str, dict[str, int | str]] = {}
    try:
        specs = [spec.normalize_parameter_names() for spec in parse_pipeline(text)]
    except ArgSpecParseError as error:
        raise VerifyException(f"malformed schedule {text!r}: {error}") from error
    for spec in specs:
        options: dict[str, int | str] = {}
        for name, values in spec.parameters.items():
            if len(values) != 1 or not isinstance(values[0], int | str):
                raise VerifyException(f"schedule {text!r}: the option {name} of {spec.name} takes one integer or word")
            options[name] = values[0]
        if spec.name in schedule:
            raise VerifyException(f"schedule {text!r} names {spec.name} twice")
        schedule[spec.name] = options
    return schedule


def format_schedule(schedule: Schedule) -> str:
    """The schedule as a pass pipeline."""
    return ",".join(
        name + ("{" + " ".join(f"{key}={value}" for key, value in options.items()) + "}" if options else "")
        for name, options in schedule.items()
    )


def completed(given: Options, chosen: Options) -> Options:
    """The given options of a rule, with those that they leave out as chosen.

    But for the occupancy: how many CTAs fit on an SM depends on all rules together.
    """
    merged = {**chosen, **given}
    return {name: value for name, value in merged.items() if name != "occupancy" or name in given}
