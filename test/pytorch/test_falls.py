"""What is left of a program where passes refuse some of it: a user sees it run, a warning, a log line and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn import functional as F
from xdsl.dialects import func
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import DiagnosticException

import deplodock
from deplodock.passes.tensor.form_kernels import FormKernelsPass
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.pytorch.partition import PartsRunner
from deplodock.runtime.falls import DEBUG

Refuse = Callable[..., None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Refuse kernels that have all operations of some names, with all schedules or those of a rule; they fall."""
    rewrite = TileifyPass.rewrite

    def refusing(*names: str, rule: str = "", error: type[Exception] = DiagnosticException) -> None:
        def refused(self: TileifyPass, function: func.FuncOp, rewriter: PatternRewriter, /) -> None:
            rules = str(function.attributes)
            if {*names} <= {op.name for op in function.walk()} and rule in rules:
                raise error("as planted")
            rewrite(self, function, rewriter)

        monkeypatch.setattr(TileifyPass, "rewrite", refused)

    monkeypatch.delenv(DEBUG)
    counters.clear()
    torch._dynamo.reset()
    return refusing


def program(x: Tensor) -> Tensor:
    return F.relu(x.exp().sin().cos() + 1)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="deplodock", options=options)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deplodock"]


def test_nothing_falls_without_need(refuse: Refuse, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(program)(x), program(x))
    assert told(caplog) == []
    assert counters["deplodock"] == {"operations_compiled": 5, "operations_left": 0}


def test_a_simpler_schedule(refuse: Refuse, caplog: pytest.LogCaptureFixture) -> None:
    refuse("math.sin", rule="stage-inputs")
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(program)(x), program(x))
    assert counters["deplodock"] == {"operations_compiled": 5, "operations_left": 0, "simpler_schedule": 1}
    (message,) = told(caplog)
    assert "aten.sin" in message
    assert "takes the simpler schedule tileify,blockify-launch{threads=256}: as planted" in message
    torch.testing.assert_close(deplodock.compile(program, (x,))(x), program(x))
    assert counters["deplodock"]["simpler_schedule"] == 2


def test_fusion_undone(refuse: Refuse, caplog: pytest.LogCaptureFixture) -> None:
    refuse("math.sin", "math.exp", error=AssertionError)
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(program)(x), program(x))
    assert counters["deplodock"] == {"operations_compiled": 5, "operations_left": 0, "fusion_undone": 1}
    (message,) = told(caplog)
    assert "has its fusion undone: a fault of deplodock at" in message
    torch.testing.assert_close(deplodock.compile(program, (x,))(x), program(x))


def test_operations_alone_are_left_to_pytorch(
    refuse: Refuse, runners: list[PartsRunner], caplog: pytest.LogCaptureFixture
) -> None:
    refuse("math.sin")
    x = torch.randn(3, 5)
    with pytest.warns(UserWarning, match=r"leaves to PyTorch: aten.sin.default \(.*as planted\)") as warned:
        torch.testing.assert_close(compiled(program)(x), program(x))
    assert [warning.filename for warning in warned if "leaves to" in str(warning.message)] == [__file__]
    assert counters["deplodock"] == {"operations_compiled": 4, "operations_left": 1, "left_to_pytorch": 1}
    assert (len(runners[0].parts), runners[0].left, runners[0].compiled) == (2, 1, 4)
    (message,) = told(caplog)
    assert message.startswith(f"deplodock: aten.sin.default ({__file__}:")
    assert message.endswith(") is left to PyTorch: as planted")
    with pytest.raises(deplodock.UnsupportedError, match=r"^aten.sin.default \(.*test_falls.py:\d+\): as planted$"):
        deplodock.compile(program, (x,))


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_gradients_go_on_beside_what_is_left(refuse: Refuse) -> None:
    refuse("math.cos")
    x, y = (torch.linspace(-1, 1, 15).reshape(3, 5).requires_grad_() for _ in range(2))
    compiled(program)(x).sum().backward()
    program(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert counters["deplodock"]["operations_left"] >= 2
    assert counters["deplodock"]["operations_compiled"] >= 6


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_an_error_that_is_of_no_operation_leaves_the_part(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = FormKernelsPass.apply

    def fail(self: FormKernelsPass, ctx: Any, op: Any) -> None:
        if {"math.sin", "math.exp"} <= {each.name for each in op.walk()}:
            raise AssertionError("as planted")
        apply(self, ctx, op)

    monkeypatch.setattr(FormKernelsPass, "apply", fail)
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(program)(x), program(x))
    assert counters["deplodock"] == {"operations_compiled": 0, "operations_left": 5, "left_to_pytorch": 1}


def test_a_fall_is_an_error_in_our_suites(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse("math.sin")
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(Exception, match="as planted"):
        compiled(program)(torch.randn(3, 5))


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_a_schedule_of_the_users_leaves_its_part(refuse: Refuse) -> None:
    refuse("math.sin", rule="blockify-launch{threads=64}")
    x = torch.randn(3, 5)
    run = compiled(program, schedule="tileify,blockify-launch{threads=64}")
    torch.testing.assert_close(run(x), program(x))
    assert counters["deplodock"] == {"operations_compiled": 0, "operations_left": 5}
