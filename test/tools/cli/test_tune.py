"""`deplodock tune` without a GPU: a process that takes times from the threads of a CTA stands for it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import planted_runs as planted
import pytest
from typer.testing import CliRunner

from deplodock.analysis.shape.nest import kernels
from deplodock.runtime import device
from deplodock.schedule.choose.kernels import choose
from deplodock.tools.cli import parts, tuner
from deplodock.tools.cli import tune as tuning
from deplodock.tools.cli.app import app
from deplodock.tools.cli.options import Options
from deplodock.tools.cli.program import Session
from deplodock.tools.clock import Clock
from deplodock.tools.diagnostics import run_tool
from deplodock.tune import compiling
from deplodock.tune.candidate import Candidate, Measure
from deplodock.tune.journal import read_journal
from deplodock.tune.lowerers import Lowerers
from deplodock.tune.lowering import Digests, Lower
from deplodock.tune.measuring import Measurer
from deplodock.tune.runs import Call
from deplodock.tune.space import Space
from deplodock.tune.task import Task, module_of
from deplodock.tune.tuning import Budget, Outcome
from deplodock.tune.tuning import tune as tune_kernel

SCALED = """
func.func @k_scaled(%x: memref<4096xf32>, %out: memref<4096xf32>) {
  %two = arith.constant 2.0 : f32
  loop.for %i = 0 to 4096 {
    %v = loop.load %x[%i] : memref<4096xf32>
    %w = arith.mulf %v, %two : f32
    loop.store %w, %out[%i] : memref<4096xf32>
  }
  func.return
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program of one kernel, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("scaled.mlir").write_text(SCALED, encoding="utf-8")
    return "scaled.mlir"


class KeptLowerers(Lowerers):
    """Serves several commands: a process takes a second to start."""

    def close(self) -> None:
        """Stay."""


@pytest.fixture(scope="module")
def lowerers() -> Iterator[Lowerers]:
    """Who lowers in all tests."""
    found = KeptLowerers(jobs=1)
    yield found
    super(KeptLowerers, found).close()


@pytest.fixture
def gpu(lowerers: Lowerers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an H200 that is none, and a compiler of CUDA that compiles nothing."""
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "device_count", lambda: 1)
    monkeypatch.setattr(device, "device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(compiling, "machine_code", lambda program, limit: (program, 0))
    monkeypatch.setattr(tuner, "Measurer", partial(Measurer, serve=planted.serve))
    monkeypatch.setattr(tuner, "Lowerers", lambda spared=0: lowerers)
    monkeypatch.setattr(tuning, "Lowerers", lambda: lowerers)


def tune(*args: str) -> tuple[int, str]:
    """The exit code and stdout of a command for an H200."""
    result = CliRunner().invoke(app, ["tune", "--target", "h200", *args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def fails(*args: str) -> str:
    """The message of an error, as the tool prints it."""
    stderr = io.StringIO()
    with pytest.raises(SystemExit) as exit, contextlib.redirect_stderr(stderr):
        run_tool("deplodock", lambda: tune(*args)[0])
    assert exit.value.code == 1
    return stderr.getvalue().strip()


def test_what_is_tuned_replays_and_is_checked(program: str, gpu: None) -> None:
    code, stdout = tune(program, "--budget", "6")
    assert code == 0
    assert stdout.startswith("k_scaled  ")
    assert "     6 measured" in stdout
    (line,) = Path("tuned.jsonl").read_text(encoding="utf-8").splitlines()
    own = json.loads(line)
    name = f"{own['what']} ({own['kernel']}), {own['schedule']}"
    assert own["what"] == "k_scaled 4096xf32, 4096xf32"
    assert tune(program, "--budget", "6", "--replay", "tuned.journal", "-o", "again.jsonl")[0] == 0
    assert Path("again.jsonl").read_bytes() == Path("tuned.jsonl").read_bytes()
    assert tune(program, "--check") == (0, f"tuned.jsonl:1: fresh: {name}\n")
    stale = own | {"code": "0123456789abcdef"}
    Path("stale.jsonl").write_text(json.dumps(stale) + "\n", encoding="utf-8")
    assert tune(program, "--check", "-o", "stale.jsonl") == (
        1,
        f"stale.jsonl:1: stale: {name}: it gives another CUDA text than was measured\n",
    )
    refused = own | {"schedule": "tileify,blockify-launch{threads=2048}"}
    Path("refused.jsonl").write_text(json.dumps(refused) + "\n", encoding="utf-8")
    code, stdout = tune(program, "--check", "-o", "refused.jsonl")
    assert code == 1
    assert stdout.startswith("refused.jsonl:1: refused: ")
    assert "2048 threads" in stdout
    compiled = CliRunner().invoke(
        app, ["compile", program, "--target", "h200", "--ir", "tile", "--tuned", "tuned.jsonl"]
    )
    assert 'deplodock.tuned = "tuned.jsonl:1"' in compiled.stdout
    shown = CliRunner().invoke(app, ["compile", program, "--ir", "torch", "--tuned", "tuned.jsonl"])
    assert (shown.exit_code, "--tuned acts below torch level" in shown.stderr) == (2, True)


GATED = """
func.func @main(%x: tensor<64x96xf32>, %w: tensor<32x96xf32>, %v: tensor<32x96xf32>) -> tensor<64x32xf32> {
  %a = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %b = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %c = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<64x32x96xf32>
  %ac = tensor_ext.elementwise {arith.mulf} %a, %c : tensor<64x32x96xf32>
  %g = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %u = tensor_ext.reduce {arith.addf} %ac dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %z = tensor_ext.elementwise {arith.mulf} %g, %u : tensor<64x32xf32>
  func.return %z : tensor<64x32xf32>
}
"""
"""Two products that are kernels of their own by the cost model; each kernel is planted to take as long."""


def chosen_alone(task: Task, digests: Digests, run: Call) -> Space:
    """No more than the heuristics' schedule: what else there is takes seconds to list."""
    (function,) = kernels(module_of(task)[0])
    return Space(choose(function), (), ((),), lambda _: 1.0)


def test_what_is_fused_replays_resumes_and_is_checked(program: str, gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "space_of", chosen_alone)
    Path(program).write_text(GATED, encoding="utf-8")
    code, stdout = tune(program, "--fuse", "--budget", "8")
    assert code == 0
    fusion, taken, kernel, *_ = stdout.splitlines()
    assert re.match(r"fusion +3 points +50\.00 us  heuristic +100\.00 us \(2\.00x\)", fusion)
    assert re.fullmatch(r"  takes reduce-[0-9a-f]{8}=always", taken)
    assert kernel.startswith("k_z  ")
    first, second = map(json.loads, Path("tuned.jsonl").read_text(encoding="utf-8").splitlines())
    assert (first["what"], first["us"], first["heuristic_us"]) == ("main", 50.0, 100.0)
    assert second["what"].startswith("k_z ")
    for option in (["--replay", "tuned.journal"], ["--resume", "--journal", "tuned.journal"]):
        again = tune(program, "--fuse", "--budget", "8", "-o", "again.jsonl", *option)
        assert again[0] == 0
        assert Path("again.jsonl").read_bytes() == Path("tuned.jsonl").read_bytes()
        Path("again.jsonl").unlink()
    code, stdout = tune(program, "--check")
    assert code == 0
    assert stdout.splitlines()[0] == f"tuned.jsonl:1: fresh: main ({first['program']}), {first['decisions']}"
    assert stdout.splitlines()[1].startswith("tuned.jsonl:2: fresh: k_z ")
    shown = CliRunner().invoke(app, ["compile", program, "--target", "h200", "--ir", "tile", "--tuned", "tuned.jsonl"])
    assert f'deplodock.fusion = "{first["decisions"]}", deplodock.tuned = "tuned.jsonl:1"' in shown.stdout
    assert 'deplodock.tuned = "tuned.jsonl:2"' in shown.stdout
    assert fails(program, "--fuse", "--check") == "deplodock: error: --fuse searches: leave out --check and --record"
    assert tune(program, "--fuse", "--stream", "never")[0] == 2
    Path(program).write_text(SCALED, encoding="utf-8")
    code, stdout = tune(program, "--fuse", "--budget", "2")
    assert code == 0
    assert stdout.startswith("fusion is not tuned: the program has its kernels already\nk_scaled  ")


def test_a_program_that_fails_costs_its_line(program: str, gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(Options(target="h200"), Clock())
    empty = "func.func @main(%x: memref<4xf32>) {\n  func.return\n}\n"
    texts = {"text": "func.func @", "empty": empty, "good": SCALED}
    for name, text in texts.items():
        Path(f"{name}.mlir").write_text(text, encoding="utf-8")

    def programs() -> parts.Programs:
        for name in texts:
            yield name, lambda name=name: parts.program_of(session, session.read_module(f"{name}.mlir"))

    options = tuner.TuneOptions(Path("tuned.jsonl"), Path("journal"), Budget(2))
    assert not tuning.tune_programs(session, programs(), options)
    stdout, stderr = capsys.readouterr()
    first, second, third, fourth, *_ = stdout.splitlines()
    assert first.startswith("text: ParseError: text.mlir:1:11")
    assert second == "empty: there is no kernel to tune, above tile level"
    assert third == "good:"
    assert "     2 measured" in fourth
    assert re.fullmatch(
        r"deplodock: 2 measured in \d+ s \(\d+\.\d/s; GPUs \d+%, cores \d+% busy\); wrote tuned\.jsonl\n", stderr
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_what_is_done_is_kept_where_the_command_ends_early(
    program: str, gpu: None, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    """The second kernel interrupts the command when the first one is done, and is measured until it is called off."""

    def tuned(task: Task, space: Space, measure: Measure, lower: Lower, **options: Any) -> Outcome:
        if task.name == "k_scaled":
            return tune_kernel(task, space, measure, lower, **options)
        os.kill(os.getpid(), number)
        while True:
            (found,) = measure([Candidate(task.key, "tileify,blockify-launch{threads=128}", secrets.token_hex(8))])
            assert found.status == "ok"

    Path(program).write_text(SCALED + SCALED.replace("k_scaled", "k_sum").replace("mulf", "addf"), encoding="utf-8")
    monkeypatch.setattr(tuner, "tune", tuned)
    monkeypatch.setattr(tuner, "Lowerers", lambda spared: Lowerers(jobs=1))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(tuner, "LEAST_AT_ONCE", 1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = CliRunner().invoke(app, ["tune", "--target", "h200", program, "--budget", "4"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == code
    assert re.search(r"deplodock: ended early, \d+ measured; wrote tuned.jsonl; --resume goes on", result.stderr)
    assert "Traceback" not in result.stderr
    (line,) = Path("tuned.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["what"] == "k_scaled 4096xf32, 4096xf32"
    assert all(entry.measurement.status == "ok" for entry in read_journal(Path("tuned.journal")).entries)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("deplodock-kernel", "deplodock-program", "deplodock-gpu"))]


def test_budgets_follow_the_time() -> None:
    assert tuner.budgets(None, [75.0, 24.9, 0.1]) == [Budget(144), Budget(48), None]
    assert tuner.budgets(Budget(8), [99.0, 1.0]) == [Budget(8), Budget(2)]
    assert tuner.budgets(Budget(None, 30.0), [2.0, 1.0]) == [Budget(None, 20.0), Budget(None, 10.0)]


def test_bad_input_gets_one_message(program: str) -> None:
    assert fails(program, "--budget", "much") == (
        "deplodock: error: a budget is a number of measurements, as 64, or of seconds, as 30s; got 'much'"
    )
    assert fails(program, "--strategy", "luck").startswith("deplodock: error: there is no strategy 'luck'; there are ")
    assert fails(program, "--replay", "none") == "deplodock: error: none: No such file or directory"
    Path("table.toml").write_text("rows = 3", encoding="utf-8")
    assert fails("--table", "table.toml", "--check").startswith("table.toml: error: no table of programs: ")
    Path("tuned.jsonl").write_text("{}\n", encoding="utf-8")
    assert fails(program, "--check") == (
        "tuned.jsonl:1: error: no tuned schedule: it must have kernel, what, card, schedule, code, us, heuristic_us, "
        "measured, version"
    )
    assert tune(program, "--table", "table.toml")[0] == 2
    assert tune(program, "--name", "x")[0] == 2
    assert tune("--table", "table.toml", "--precision", "high")[0] == 2
    assert "--precision is for programs at torch level" in fails(program, "--check", "--precision", "high")
    assert fails(program, "--check", "--record", "x") == "deplodock: error: give one of --replay, --check and --record"


def test_without_a_gpu(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing", lambda: "the CUDA driver finds no GPU")
    assert fails(program) == (
        "deplodock: error: the CUDA driver finds no GPU; with --replay JOURNAL all times come from a journal, without "
        "a GPU"
    )
