"""compute-sanitizer on every kind of kernel, and on one with a planted race."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deplodock.runtime.nvcc import find_nvcc

RUNNER = Path(__file__).parent / "run_kernels.py"
FOUND = 9
"""The exit code of the sanitizer where it finds something."""


def sanitize(tool: str, files: Sequence[Path]) -> tuple[int, dict[str, list[str]]]:
    """The exit code of a tool of the sanitizer on files of IR text, and what it says of each that it mentions."""
    sanitizer = shutil.which("compute-sanitizer") or pytest.skip("compute-sanitizer is not on PATH")
    options = ["--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "3"]
    command = [sanitizer, *options, sys.executable, str(RUNNER), *map(str, files)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    said: dict[str, list[str]] = {}
    name = ""
    for line in done.stdout.splitlines():
        if line in {file.stem for file in files}:
            name = line
        else:
            said.setdefault(name, []).append(line)
    return done.returncode, said


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_finds_nothing(tool: str, lowered: dict[str, Any], tmp_path: Path) -> None:
    """In no kernel; but racecheck cannot follow rings whose slots one lane releases for its warp (see below)."""
    files = [tmp_path / f"{name}.mlir" for name in lowered if tool != "racecheck" or not _lanes_release(lowered[name])]
    for file in files:
        file.write_text(str(lowered[file.stem].module), encoding="utf-8")
    code, said = sanitize(tool, files)
    assert code == 0, said


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_finds_nothing_in_fuzzed_kernels(tool: str, fuzzed: dict[str, Any], tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.mlir" for name in fuzzed if tool != "racecheck" or not _lanes_release(fuzzed[name])]
    for file in files:
        module, inputs = fuzzed[file.stem].module, fuzzed[file.stem].inputs
        file.write_text(str(module), encoding="utf-8")
        file.with_suffix(".inputs").write_bytes(pickle.dumps(inputs))
    code, said = sanitize(tool, files)
    assert code == 0, said


def _lanes_release(program: Any) -> bool:
    return "kernel.arrive warp " in str(program.module)


@pytest.mark.parametrize("releasing", ["THREAD", "LANE"])
def test_racecheck_does_not_follow_an_arrival_of_one_lane(releasing: str, tmp_path: Path) -> None:
    """A ring of one slot, right by the PTX memory model: what is before __syncwarp is before the lane's arrival."""
    binary = tmp_path / "one_slot"
    nvcc, sanitizer = find_nvcc(), shutil.which("compute-sanitizer")
    if nvcc is None or sanitizer is None:
        pytest.skip("nvcc or compute-sanitizer is not there")
    source = Path(__file__).with_name("one_slot.cu")
    subprocess.run([nvcc, "-arch=sm_90a", f"-DRELEASING_{releasing}", "-o", binary, source], check=True)
    command = [sanitizer, "--tool", "racecheck", "--error-exitcode", str(FOUND), binary]
    assert subprocess.run(command, check=False).returncode == (FOUND if releasing == "LANE" else 0)


def test_racecheck_finds_a_planted_race(lowered: dict[str, Any], tmp_path: Path) -> None:
    text = str(lowered["row_norm"].module)
    assert text.count("kernel.barrier\n") == 1
    file = tmp_path / "race.mlir"
    file.write_text(text.replace("kernel.barrier\n", "\n"), encoding="utf-8")
    code, said = sanitize("racecheck", [file])
    assert code == FOUND, said
    assert any("Race reported" in line and "k_rms_norm" in line for line in said["race"])
