"""`deplodock bench` fails on planted wrong kernels, also on one that is right at first; kernels that hang are ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deplodock.tools.bench.rows import chosen, read_rows

NAME = "tinyllama/rms_norm/32"
HANG = """
kernel.func @k_hang(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %full = kernel.mbarrier 1 arrivals 5
  kernel.barrier
  kernel.arrive %full[0]
  kernel.wait_phase %full[0], 0
  %v = loop.load %x[%thread] : memref<4xf32>
  loop.store %v, %out[%thread] : memref<4xf32>
}
"""


@pytest.fixture(scope="module")
def kernel(run_tool: Callable[..., Any]) -> str:
    """The kernel of the row at kernel level."""
    (row,) = chosen(read_rows(), [NAME], [], [])
    done = run_tool("deplodock.tools.cli", "compile", "-c", row.text, "--ir", "kernel")
    assert done.returncode == 0, done.stderr
    return done.stdout


def bench(run_tool: Callable[..., Any], folder: Path, text: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `deplodock bench` on the row with a kernel of ours, and the row of its results."""
    file = folder / "k.mlir"
    file.write_text(text, encoding="utf-8")
    done = run_tool("deplodock.tools.cli", "bench", "--name", NAME, "--from", str(file), "-o", str(folder))
    (line,) = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return done.returncode, json.loads(line)


def test_a_right_kernel_is_measured(run_tool: Callable[..., Any], kernel: str, tmp_path: Path) -> None:
    code, row = bench(run_tool, tmp_path, kernel)
    assert (code, row["error"]) == (0, "")


def test_a_wrong_kernel_fails(run_tool: Callable[..., Any], kernel: str, tmp_path: Path) -> None:
    wrong = kernel.replace("0.00048828125", "0.00049")
    assert wrong != kernel
    code, row = bench(run_tool, tmp_path, wrong)
    assert code == 1
    assert row["error"].startswith("wrong: ")


def test_a_kernel_that_is_right_only_once_fails(run_tool: Callable[..., Any], kernel: str, tmp_path: Path) -> None:
    lines = kernel.splitlines(keepends=True)
    (store,) = (line for line in lines if "to %out[" in line)
    # It overwrites what it has read: the next run finds other inputs.
    wrong = kernel.replace(store, store + store.replace("to %out[", "to %x["))
    code, row = bench(run_tool, tmp_path, wrong)
    assert code == 1
    assert "the timed runs are wrong" in row["error"]


def test_a_kernel_that_hangs_is_ended(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "hang.mlir"
    file.write_text(HANG, encoding="utf-8")
    done = run_tool("deplodock.tools.cli", "run", str(file), "--device", "cuda", "--limit", "10")
    assert done.returncode == 1
    assert done.stderr == (
        "deplodock: error: no end in 10 s: @k_hang on the GPU; `run --device sim` finds waits that never end\n"
    )


def test_a_profile_has_every_kernel(run_tool: Callable[..., Any]) -> None:
    text = "F.rms_norm(torch.randn(512, 2048).exp() @ torch.randn(2048, 2048), (2048,))"
    done = run_tool("deplodock.tools.cli", "run", "-c", text, "--profile", "--json")
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)["profile"]
    assert sum(kernel["share"] for kernel in profile["kernels"]) == pytest.approx(1)
    for kernel in profile["kernels"]:
        assert kernel["microseconds"] > 0
        assert 0 < kernel["occupancy"] <= 1
        assert kernel["counters"] or profile["without_counters"]
