"""Every kind of kernel on the GPU, against PyTorch in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deplodock.runtime import cubins, nvrtc
from deplodock.runtime.compare import compare
from deplodock.runtime.device import Executable


def test_is_right_and_leaves_nothing_behind(kind: Any, lowered: dict[str, Any], seed: int) -> None:
    program = lowered[kind.name]
    executable = Executable(program.module)
    for run in ("first", "second"):
        outputs = executable.run(program.inputs)
        for number, output in enumerate(outputs):
            verdict = compare(output, program.reference[number], program.eager[number], program.rounded)
            assert verdict.passed, f"{run} run, output {number}, seed {seed}: {verdict}"


def test_runs_agree_bit_for_bit(lowered: dict[str, Any]) -> None:
    program = lowered["contraction_split_ticket"]
    executable = Executable(program.module)
    first = executable.run(program.inputs)[0].tobytes()
    assert all(executable.run(program.inputs)[0].tobytes() == first for _ in range(20))


def test_nvrtc_makes_kernels_that_are_right(
    lowered: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if nvrtc.identity() is None:
        pytest.skip("no NVRTC")
    program = lowered["contraction"]
    monkeypatch.setattr(cubins, "find_nvcc", lambda: None)
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path))
    (output,) = Executable(program.module).run(program.inputs)
    assert compare(output, program.reference[0], program.eager[0], program.rounded).passed
