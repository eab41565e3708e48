"""The survey of lowering, on two tiny models."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError
from deplodock.tools.survey import ALLOWED, main, read_allowed, workers
from deplodock.tools.survey.capturing import SurveyCase, captured
from deplodock.tools.survey.lowering import TargetResult, lowered
from deplodock.tools.survey.models import read_models

MODELS = Path(__file__).with_name("tiny_models.py")


@pytest.fixture(scope="module")
def found() -> dict[str, TargetResult]:
    """What the models are on a target, in inference, and the first one in training, too."""
    net, roots = read_models(MODELS)
    cases = [SurveyCase(net, "bf16", False), SurveyCase(roots, "fp32", False), SurveyCase(net, "bf16", True)]
    return {case.name: lowered(captured(case), "h200") for case in cases}


def test_graphs_have_the_types_of_a_gpu_and_no_values() -> None:
    net, _ = read_models(MODELS)
    (graph,) = captured(SurveyCase(net, "bf16", False))
    values = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
    assert {type(value) for value in pytree.tree_leaves(values)} == {FakeTensor}


def test_a_model_is_lowered_whole(found: dict[str, TargetResult]) -> None:
    result = found["net infer bf16"]
    assert result.compiled == result.operations > 0
    assert result.kernels > 0
    assert not result.faults([])


def test_training_has_the_graph_of_the_gradients_too(found: dict[str, TargetResult]) -> None:
    assert found["net train bf16"].operations > found["net infer bf16"].operations
    assert not found["net train bf16"].faults([])


def test_what_is_left_to_pytorch_is_a_fault_but_where_it_is_allowed(found: dict[str, TargetResult]) -> None:
    result = found["roots infer fp32"]
    assert "aten.linalg_eig.default" in result.left
    assert result.compiled == 1
    assert len(result.faults([])) == len(result.left)
    assert not result.faults(list(result.left))


def test_a_fall_is_a_fault() -> None:
    result = TargetResult("h200", 2, 2, 1, {}, {"simpler_schedule": 3}, 0.1)
    assert result.faults([]) == ["simpler_schedule: 3 times"]


def test_the_command_prints_a_line_and_ends_with_0_where_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--models", str(MODELS), "--target", "a100", "--types", "fp32", "--jobs", "1", "net"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "net infer fp32 a100: 4 operations, 4 compiled, 0 left to PyTorch" in out
    assert "1 cases on 1 targets: 0 faults" in out


def test_a_case_that_takes_too_long_is_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "captured", lambda _: time.sleep(60))
    assert main(["--models", str(MODELS), "--target", "a100", "--types", "fp32", "--limit", "0", "net"]) == 1
    assert "net infer fp32: 0 graphs captured in 0.0 s; error: no end in 0 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "none.py"], "none.py: error: there is no such Python file"),
        (["--models", str(MODELS), "nets"], "error: there is no model nets"),
        (["--models", str(MODELS), "--target", "h2"], "h2"),
        (["--models", str(MODELS), "--train", "roots"], "error: there is no model roots"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("survey: ")
    assert message in line


def test_allowed_operations_need_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "allowed.txt"
    path.write_text("# comment\n\naten.a.default: complex numbers\n")
    assert read_allowed(path) == ["aten.a.default"]
    path.write_text("aten.a.default\n")
    with pytest.raises(InvalidInputError, match=r":1: error: an allowed operation needs a reason"):
        read_allowed(path)
    assert read_allowed(ALLOWED) == []
