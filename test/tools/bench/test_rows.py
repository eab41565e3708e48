"""The table of `deplodock bench`, its runner with a worker that measures nothing, and what it writes."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deplodock.errors import InvalidInputError
from deplodock.frontend.expression import read_expression
from deplodock.tools.bench.report import Result, markdown, read_results
from deplodock.tools.bench.rows import Row, _table, chosen, read_rows
from deplodock.tools.cli.app import app
from deplodock.tools.cli.bench import read_inputs
from deplodock.tools.cli.table import RowProcess, run_table

ROWS = [Row("a", "sdpa", "m", 32, "1"), Row("b", "linear", "m", 32, "2")]


def measured(own: float, eager: float) -> dict[str, Any]:
    timings = [{"name": "PyTorch, graph", "microseconds": eager}, {"name": "deplodock", "microseconds": own}]
    return {"passed": True, "bench": {"timings": timings, "floor": 1.0}}


class Given:
    """A worker that answers what it is given."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers = answers

    def measure(self, row: Row, limit: float) -> dict[str, Any]:
        return self.answers[row.name]


def test_the_table_has_the_rows_of_both_models() -> None:
    rows = read_rows()
    assert len({row.name for row in rows}) == len(rows)
    of_models = [row for row in rows if row.model]
    strict = [row for row in of_models if row.precision == "highest"]
    assert len([row for row in strict if not row.kind.startswith("bf16/")]) == 72
    assert len([row for row in strict if row.kind in ("sdpa", "sdpa_repeated", "softmax")]) == 24
    linears = [row for row in of_models if row.kind in ("bf16/o", "bf16/gate", "bf16/down")]
    assert [row.s for row in linears] == [1, 8, 32, 128, 512, 2048] * 6
    assert [row.s for row in of_models if row.kind == "bf16/layer"] == [1, 32, 128, 512, 2048] * 2


def test_rows_of_other_precisions_are_named_after_them() -> None:
    for precision, names in _table()["precisions"].items():
        rows = chosen(read_rows(), [], [], [], precision=precision)
        assert {row.kind for row in rows} == {f"{precision}/{name}" for name in names}
        assert {row.precision for row in rows} == {precision}
    (square,) = chosen(read_rows(), ["high/square_1024"], [], [])
    assert square.text == chosen(read_rows(), ["square_1024"], [], [], precision="highest")[0].text


def test_results_name_the_precision_and_how_pytorch_computes() -> None:
    def result(name: str, precision: str) -> Result:
        return Result(name, "x", {**measured(1.0, 2.0)["bench"], "precision": precision}, "", {})

    text = markdown([result("a", "high"), result("b", "medium"), Result("c", "x", measured(1.0, 4.0)["bench"], "", {})])
    products = {"a": "high, PyTorch's strict", "b": "medium, PyTorch's TF32", "c": "highest, PyTorch's strict"}
    for name, said in products.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {said} |" in line
    assert "graph, all rows: geometric mean 4.000, least 4.000, 1 rows" in text
    assert "graph, high: geometric mean 2.000, least 2.000, 1 rows" in text


def test_filters_by_name_model_and_length() -> None:
    rows = chosen(read_rows(), ["qkv", "softmax"], ["tinyllama"], [32, 512])
    assert [row.name for row in rows] == [
        "tinyllama/softmax/32", "tinyllama/softmax/512", "tinyllama/bf16/softmax/32", "tinyllama/bf16/softmax/512",
        "tinyllama/qkv/32", "tinyllama/qkv/512", "tinyllama/high/qkv/32", "tinyllama/high/qkv/512",
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match="no row"):
        chosen(read_rows(), ["nothing"], [], [])


def test_a_wrong_row_fails_and_stays_in_the_table(tmp_path: Path) -> None:
    worker = Given(a={"error": "wrong: k_sdpa"}, b=measured(2.0, 3.0))
    assert not run_table(ROWS, worker, tmp_path, {"card": "X"}, limit=1, budget=60)
    assert [result.passed for result in read_results(tmp_path).values()] == [False, True]
    table = (tmp_path / "results.md").read_text()
    assert "| a | **wrong: k_sdpa** |" in table
    assert "| b | 2.0 | 3.0 | 1.500 |" in table


def test_a_right_table_passes_and_keeps_earlier_rows(tmp_path: Path) -> None:
    assert run_table(ROWS[:1], Given(a=measured(1.0, 2.0)), tmp_path, {}, limit=1, budget=60)
    assert run_table(ROWS[1:], Given(b=measured(1.0, 2.0)), tmp_path, {}, limit=1, budget=60)
    assert list(read_results(tmp_path)) == ["a", "b"]


def test_rows_after_the_budget_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    assert not run_table(ROWS, Given(), tmp_path, {}, limit=1, budget=0)
    assert {result.error for result in read_results(tmp_path).values()} == {"not measured: out of time"}


def test_rows_after_the_budget_keep_what_was_measured_before(tmp_path: Path) -> None:
    assert run_table(ROWS[:1], Given(a=measured(1.0, 2.0)), tmp_path, {}, limit=1, budget=60)
    assert not run_table(ROWS[:1], Given(), tmp_path, {}, limit=1, budget=0)
    assert read_results(tmp_path)["a"].passed


def test_times_of_max_autotune_are_kept_for_a_card_and_a_pytorch() -> None:
    bench = measured(2.0, 3.0)["bench"]
    tuned = {**bench, "timings": [*bench["timings"], {"name": "torch.compile, max-autotune", "microseconds": 5.0}]}
    earlier = Result("a", "x", tuned, "", {"card": "X", "torch": "2", "commit": "1"})
    again = Result("a", "x", bench, "", {"card": "X", "torch": "2", "commit": "2"})
    assert again.with_compiled(earlier).ratio("torch.compile, max-autotune") == 2.5
    assert again.with_compiled(None) == again
    other = Result("a", "x", bench, "", {"card": "X", "torch": "3", "commit": "2"})
    assert other.with_compiled(earlier) == other


def test_means_with_and_without_sdpa() -> None:
    results = [
        Result("a", "sdpa_repeated", measured(1.0, 4.0)["bench"], "", {}),
        Result("b", "x", measured(1.0, 1.0)["bench"], "", {}),
    ]
    text = markdown(results)
    assert "all rows: geometric mean 2.000, least 1.000, 2 rows" in text
    assert "without sdpa: geometric mean 1.000, least 1.000, 1 rows" in text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("torch.randn(4, 8).T.sum(0)", [32]),
        ("torch.randn(4, 8)[1] + 1", []),
        ("F.embedding(torch.arange(3), torch.randn(100, 8)) + torch.randn(8)", [8]),
        ("x = torch.randn(5); (x, torch.randn(7) + 1)", [7]),
    ],
)
def test_the_floor_counts_inputs_that_are_read_as_a_whole(text: str, read: list[int]) -> None:
    assert [value.numel() for value in read_inputs(read_expression(text))] == read


def test_a_process_says_what_goes_wrong_and_starts_again() -> None:
    worker = RowProcess("sm_90")
    try:
        wrong = Row("wrong", "wrong", "", None, "1 +")
        assert "InvalidInputError" in worker.measure(wrong, 600)["error"]
        assert worker.measure(wrong, 0.01)["error"] == "no end in 0 s"
    finally:
        worker.close()


def test_without_a_gpu_the_command_says_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deplodock.runtime.device.missing", lambda: "there is no GPU")
    done = CliRunner().invoke(app, ["bench", "--name", "square"])
    assert str(done.exception) == "there is no GPU; --compile-only compiles the rows without a GPU"
