"""The kernels of rows, and what becomes of rows that have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from deplodock.errors import Error
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tools.bench.rows import Row
from deplodock.tools.cli import parts
from deplodock.tools.cli.options import Options
from deplodock.tune.parts import TunedPart

SUM = "F.relu(torch.randn(64, 32) @ torch.randn(32, 16)).sum(0)"


class Answering(Process):
    """Answers in this process, or not at all."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__(lambda _: None)
        self._failure = failure

    def ask(self, request: Any, limit: float) -> Any:
        """What the process would answer."""
        if self._failure is not None:
            raise self._failure
        return parts._program_or_reason(request, Options(target="h200"))


def read(text: str, precision: str = "highest", failure: Exception | None = None) -> Sequence[TunedPart]:
    return parts._read(Answering(failure), Row("row", "", "", None, text, precision)).parts


def test_a_row_has_the_kernels_of_its_precision() -> None:
    exact, rough = read(SUM), read(SUM, "medium")
    assert [part.count for part in exact] == [part.count for part in rough] == [1] * len(exact)
    assert "sm_90" in exact[0].task.text
    assert "memref<64x32xf32>" in exact[0].task.text
    assert exact[0].heuristic.startswith("tileify")
    assert ("medium" in exact[0].task.text, "medium" in rough[0].task.text) == (False, True)
    assert exact[0].task.key != rough[0].task.key


@pytest.mark.parametrize(
    ("text", "failure", "reason"),
    [
        ("1 +", None, "InvalidInputError: <expression>:1:"),
        (SUM, Ended("the process was killed by SIGKILL"), "where it is read, the process was killed by SIGKILL"),
        (SUM, TooLate(), "it takes more than 300 s to read"),
    ],
)
def test_a_row_without_kernels_says_why(text: str, failure: Exception | None, reason: str) -> None:
    with pytest.raises(Error) as error:
        read(text, failure=failure)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
