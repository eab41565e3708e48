"""`deplodock bench --suite`: what processes answer, what a page says, and what is measured again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deplodock.tools.bench.report import Result, read_results
from deplodock.tools.bench.rows import Row
from deplodock.tools.cli.app import app
from deplodock.tools.cli.table import record, without_known
from deplodock.tools.suite.options import SuiteOptions
from deplodock.tools.suite.problems import read_suite
from deplodock.tools.suite.report import fast, page
from deplodock.tools.suite.workers import answers

COMPILING = SuiteOptions("sm_90", measures=False)


def result(name: str, own: float, eager: float, error: str = "", **facts: Any) -> Result:
    """A result whose graphs take these times, and whose loops take twice as long."""
    times = {"deplodock": own, "PyTorch, graph": eager, "deplodock, loop": 2 * own, "PyTorch, loop": 2 * eager}
    timings = [{"name": contestant, "microseconds": time} for contestant, time in times.items()]
    return Result(name, name.partition("/")[0], {"timings": timings, **facts}, error, {"card": "X", "torch": "2"})


def test_problems_are_compiled_in_processes_of_their_own(suite: Path, tmp_path: Path) -> None:
    (suite / "level1" / "4_dies.py").write_text("import os\nos._exit(3)\n")
    found = {row.name: answer for row, answer in answers(read_suite(suite), COMPILING)}
    assert "seconds" in found["level1/2_scale"]
    assert "seconds" in found["level1/10_norm"]
    assert found["level1/4_dies"] == {"error": "the process ended while compiling"}
    assert "aten.dropout.default is not supported" in found["level2/3_dropout"]["error"]


def test_what_is_compiled_as_a_whole_or_not_goes_on_to_be_measured(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    rows = [row for row in read_suite(suite) if "norm" not in row.name]
    found = {row.name: answer["error"] for row, answer in answers(rows, SuiteOptions("sm_90"))}
    assert set(found) == {"level1/2_scale", "level2/3_dropout"}
    assert all("CUDA" in error for error in found.values())


def test_a_problem_that_hangs_is_ended(suite: Path) -> None:
    (suite / "level1" / "2_scale.py").write_text("import time\ntime.sleep(1000)\n")
    (row,) = (row for row in read_suite(suite) if "scale" in row.name)
    assert list(answers([row], replace(COMPILING, limit=1.0))) == [(row, {"error": "no end in 1 s of compiling"})]


def test_problems_after_the_budget_are_not_passed_over_in_silence(suite: Path) -> None:
    rows = read_suite(suite)
    found = list(answers(rows, replace(COMPILING, budget=0.0)))
    assert found == [(row, {"error": "not measured: out of time"}) for row in rows]


def test_the_page_has_fast_p_and_means_of_each_level() -> None:
    results = [
        result("level1/1_a", 1.0, 4.0),
        result("level1/10_b", 1.0, 1.0, left=["y (z)"], parts=["1 of 2 operations, as 1 programs"]),
        result("level2/1_c", 2.0, 3.0, left=["x (y)"]),
        result("level2/2_d", 1.0, 9.0, "wrong: result 0"),
        Result("level2/3_e", "level2", None, "the process ended", {"card": "X", "torch": "2"}),
    ]
    assert fast(results, 1.0, "deplodock", "PyTorch, graph") == 0.4
    text = page(results)
    assert "| | level1 | level2 | all |" in text
    assert "| right | 2 | 1 | 3 |" in text
    assert "| in parts, others left to PyTorch | 1 | 0 | 1 |" in text
    assert "| left to PyTorch as a whole | 0 | 1 | 1 |" in text
    assert "| fast_1, loop | 0.50 | 0.33 | 0.40 |" in text
    assert "| fast_1.5, graph | 0.50 | 0.00 | 0.20 |" in text
    assert "| geometric mean against PyTorch, graph | 2.000 of 2 | 1.500 of 1 | 1.817 of 3 |" in text
    assert "| geometric mean against torch.compile, loop |  |  |  |" in text
    assert "| level2/2_d | **wrong: result 0** |" in text
    assert "left to PyTorch: x (y)" in text
    assert page(results[::-1]) == text


def test_what_results_have_is_not_measured_again(tmp_path: Path) -> None:
    rows = [Row(name, "level1", "", None, "") for name in ("level1/1_a", "level1/2_b", "level1/3_c")]
    found = [{"passed": True, "bench": result("level1/1_a", 1.0, 2.0).bench}, {"error": "wrong: x"}]
    later = {"error": "not measured: out of time"}
    assert not record(zip(rows, [*found, later], strict=True), 3, tmp_path, {}, page)
    assert without_known(rows, tmp_path) == (rows[2:], False)
    assert without_known([rows[0], rows[2]], tmp_path) == (rows[2:], True)
    assert read_results(tmp_path)["level1/1_a"].passed


def test_without_a_gpu_the_command_says_what_works(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deplodock.runtime.device.missing", lambda: "there is no GPU")
    done = CliRunner().invoke(app, ["bench", "--suite", str(suite)])
    assert str(done.exception) == "there is no GPU; --compile-only compiles the problems without a GPU"
