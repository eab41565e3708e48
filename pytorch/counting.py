"""What users count: operations compiled and left to PyTorch, and falls, in `torch._dynamo.utils.counters`.

torch._dynamo.utils.counters["deplodock"]
-> Counter({"operations_compiled": 812, "operations_left": 2, "simpler_schedule": 1, "left_to_pytorch": 1})
"""

from __future__ import annotations

from collections.abc import Sequence

from deplodock.runtime.falls import Fall, report

_OWN = "deplodock"


def count(name: str, number: int = 1) -> None:
    """Add to one of deplodock's counters."""
    # Who loads a program needs no TorchDynamo, which takes a second to import.
    from torch._dynamo.utils import counters

    counters[_OWN][name] += number


def count_falls(falls: Sequence[Fall]) -> None:
    """Count falls by their kinds."""
    for fall in falls:
        count(fall.kind)


def note_falls(falls: Sequence[Fall]) -> None:
    """Report and count falls. Raises as `report`."""
    report(falls)
    count_falls(falls)
