"""Every kind of kernel on the GPU, against PyTorch in float64."""

from __future__ import annotations

from typing import Any

from deplodock.runtime.compare import compare
from deplodock.runtime.device import Executable


def test_is_right_and_leaves_nothing_behind(kind: Any, lowered: dict[str, Any], seed: int) -> None:
    program = lowered[kind.name]
    executable = Executable(program.module)
    for run in ("first", "second"):
        outputs = executable.run(program.inputs)
        for number, output in enumerate(outputs):
            verdict = compare(output, program.reference[number], program.eager[number], program.reduction_extent)
            assert verdict.passed, f"{run} run, output {number}, seed {seed}: {verdict}"


def test_runs_agree_bit_for_bit(lowered: dict[str, Any]) -> None:
    program = lowered["contraction_split_ticket"]
    executable = Executable(program.module)
    first = executable.run(program.inputs)[0].tobytes()
    assert all(executable.run(program.inputs)[0].tobytes() == first for _ in range(20))
