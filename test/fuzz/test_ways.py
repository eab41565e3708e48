"""Programs that the fuzzer calls as users do: what it draws of them, and that it finds what is wrong of a call."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from deplodock.frontend.expression import read_expression
from deplodock.fuzz import ways
from deplodock.fuzz.case import Case, Checker, Failure, NotDrawn, check
from deplodock.fuzz.gradients import gradient_program
from deplodock.fuzz.program import Expression, make_input, make_node
from deplodock.fuzz.run import FoundFailure
from deplodock.fuzz.ways import Calling, Differs
from deplodock.pytorch import compiled as compiled_module
from deplodock.tools.cli import fuzz as command

WRITES = "b0 = torch.randn(6, 4); x0 = b0[1:]; x1 = torch.randn(5, 4); x0[:, 1:].mul_(x1[:, 1:]) @ x0[:, :3].t()"
SHARES = "b0 = torch.randn(6); x0 = b0[:-2]; x1 = b0[2:]; x0 * x1, x1[1:]"


def test_a_text_is_taken_apart() -> None:
    parts = ways.parts_of("x0 = torch.randn(4); x0.view(-1)[0::2] = 1; b1 = torch.randn(3, 4); x1 = b1[1:]; x1 * x0")
    assert (parts.memory, parts.views, parts.arguments) == (["x0", "b1"], ["x1"], ["x0", "x1"])
    assert ways.on_copies("b0 = torch.randn(6); x0 = b0[1:]; (x0.add_(1), b0)") == (
        "b0 = torch.randn(6); ((m_b0 := b0.clone()), (x0 := m_b0[1:]), x0.add_(1), m_b0)"
    )


@pytest.mark.parametrize("way", [Calling.SAVED, Calling.COMPILED])
def test_writes_and_views_are_as_in_pytorch(way: Calling) -> None:
    assert {way.value, "writes", "views"} <= check(Case(WRITES, 0, way=way)).reached
    assert {way.value, "shared memory", "views"} <= check(Case(SHARES, 0, way=way)).reached


def test_gradients_are_a_program() -> None:
    captured = read_expression("x = torch.randn(3, 4); w = torch.randn(4, 2); i = torch.arange(3); (x @ w)[i].relu()")
    program = gradient_program(captured, ["x", "w", "i"])
    assert program.names == (*captured.names, "gradient0")
    x, w = (value.detach().requires_grad_() for value in captured.inputs[:2])
    (x @ w).relu().backward(program.inputs[-1])
    for one, other in zip(program.eager(), (x.grad, w.grad), strict=True):
        torch.testing.assert_close(one, other)
    assert (
        Calling.TRAINED.value
        in check(Case("x0 = torch.randn(3, 4); torch.softmax(x0, 1)", 0, way=Calling.TRAINED)).reached
    )
    with pytest.raises(NotDrawn, match="PyTorch has no gradient of an operation"):
        check(Case("x0 = torch.randn(4); torch.remainder(0.5, x0)", 0, way=Calling.TRAINED))
    with pytest.raises(NotDrawn, match="it has no gradients"):
        check(Case("x0 = torch.arange(4); x0 + 1", 0, way=Calling.TRAINED))


@pytest.mark.parametrize(
    ("text", "way", "reason"),
    [
        (
            "b0 = torch.randn(5, 6); x0 = b0[1:]; x1 = b0.view(-1)[6:12]; F.batch_norm(x0, x1, x1 * x1 + 1, x1)",
            Calling.TRAINED,
            "PyTorch has no gradient of an operation",
        ),
        (
            "b0 = torch.rand(5) > 0.4; x0 = b0[2:]; x1 = b0.view(-1)[2:5].view(3); b2 = torch.randn(1, 3);"
            " x2 = b2.expand(2, 3); (x2 * 2, x0.transpose(0, -1).copy_(x1))",
            Calling.COMPILED,
            "fails with a backend of PyTorch's, too",
        ),
        (
            "b0 = torch.randint(-1, 1, (2, 8, 8)).to(torch.int16); x0 = b0.permute(2, 1, 0);"
            " x1 = b0.view(-1)[85:93].view(8, 1, 1); x0[:, 1:].mul_(x1)",
            Calling.COMPILED,
            "fails with a backend of PyTorch's, too",
        ),
        (
            "x0 = torch.randn(5, 7, 6); x1 = torch.randint(0, 5, (1, 4, 3));"
            " (v0 := x0 * 2).scatter_reduce(0, x1, v0, 'sum', include_self=False)",
            Calling.TRAINED,
            "PyTorch has no gradient of an operation",
        ),
    ],
)
def test_what_pytorch_itself_fails_on_is_not_drawn(text: str, way: Calling, reason: str) -> None:
    with pytest.raises(NotDrawn, match=reason):
        check(Case(text, 0, way=way))


def test_infinite_factors_may_make_nan_in_high_alone() -> None:
    text = "x0 = torch.randn(23, 33); x0.view(-1)[0::10] = -math.inf; x1 = torch.randn(33, 22); x0 @ x1"
    check(Case(text, 0, precision="high"))
    check(Case(text, 0, precision="highest"))


def test_a_write_that_is_refused_is_not_drawn() -> None:
    text = "b0 = torch.randn(6); x0 = b0[:-2]; x1 = b0[2:]; x0.mul_(2) + x1"
    with pytest.raises(NotDrawn, match="which is refused"):
        check(Case(text, 0, way=Calling.SAVED))
    check(Case(text, 0, way=Calling.COMPILED))


def test_what_values_do_not_show_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    make, program = ways.defined(SHARES, 0)
    with pytest.raises(Differs, match="share memory with other arguments"):
        ways._compiled(make, program, lambda x0, x1: (x0 * x1, x1[1:].clone()))
    make, program = ways.defined(WRITES, 0)
    other = ways.compile_program(lambda x1, x0: x1 @ x0.t(), ways._arguments(make(), program))
    monkeypatch.setattr(ways, "load", lambda path: other)
    with pytest.raises(Differs, match="other bits than what was saved"):
        ways.called(make, program, Calling.SAVED, "highest")


def test_a_write_that_is_lost_is_found_shrunk_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiled_module, "write_back", lambda inputs, values: None)
    memory = make_input("b0", "b0 = torch.randn(5, 4)")
    x = make_input("x0", "x0 = b0[1:]", memory)
    expression = Expression((make_node("torch.exp({})", [make_node("{}[2:].mul_(3)", [x])]),))
    case = Case(expression.text(), 0, way=Calling.SAVED)
    assert case.text == "b0 = torch.randn(5, 4); x0 = b0[1:]; torch.exp(x0[2:].mul_(3))"
    with pytest.raises(Failure, match="a wrong result after the call of the saved and loaded program") as caught:
        check(case)
    command.report(FoundFailure(3, expression, case, caught.value))
    printed = capsys.readouterr().out
    assert "again: python -c" in printed
    assert "    x0 = torch.randn((2, 2), dtype=torch.float32)\n" in printed
    assert "    return x0[1:].mul_(2)\n" in printed
    assert "with the module below" not in printed


def test_a_call_is_shown_as_python(capsys: pytest.CaptureFixture[str]) -> None:
    exec(ways.script("x0 = torch.ones(3); x0.square()", 7, Calling.TRAINED, "highest"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("[tensor([")


def test_gradients_that_are_wrong_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = ways.gradients
    monkeypatch.setattr(ways, "gradients", lambda *given: [-value for value in gradients(*given)])
    case = Case("x0 = torch.randn(3); x0.sin()", 0, way=Calling.TRAINED)
    with pytest.raises(Failure, match="a wrong result after the call of the differentiated program"):
        Checker(case).run()


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("x = torch.ones(2, 700); w = torch.ones(3, 700); F.linear(x[:, 8:], w[:, 8:])", {"long k", "sliced factors"}),
        ("x = torch.ones(2, 70); w = torch.ones(3, 75); x @ w[:, 5:].t()", {"sliced factors"}),
        ("x = torch.ones(2, 70); w = torch.ones(70, 3); x[1:] + (x @ w).sum()", set()),
    ],
)
def test_what_is_particular_of_products(text: str, traits: set[str]) -> None:
    assert check(Case(text, 0)).reached & {"long k", "sliced factors"} == traits
