"""The fuzzer: what it draws is fixed by a seed, what is wrong it finds and shrinks, and a run of it finds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.rewriter import Rewriter

pytest.importorskip("torch")

from deplodock.dialects.torch.aten import SCHEMAS
from deplodock.fuzz import case as case_module
from deplodock.fuzz import run
from deplodock.fuzz.case import Case, Facts, Failure, FaultKind, NotDrawn, check
from deplodock.fuzz.program import Expression, make_input, make_node
from deplodock.fuzz.run import COUNTED, FoundFailure, Summary, draw_case
from deplodock.fuzz.schema_calls import DRAWN, UNSPECIFIED
from deplodock.fuzz.shrink import Shrinker
from deplodock.passes.loop.lower_to_loops import LowerToLoopsPass
from deplodock.runtime.host import harness
from deplodock.tools.cli import fuzz as command

PROGRAMS = 40
SECONDS = float(os.environ.get("DEPLODOCK_FUZZ_SECONDS", "0"))
FIRST = int(os.environ.get("DEPLODOCK_FUZZ_SEED", "0"))

SCRIPT = """
from deplodock.fuzz.run import draw_case
print([draw_case(number, compile_every=0)[1] for number in range(20)])
"""


@pytest.mark.parametrize("half", range(2))
def test_random_programs_under_random_schedules(half: int) -> None:
    """The same number of programs on each machine, or as many as DEPLODOCK_FUZZ_SECONDS are enough for.

    DEPLODOCK_FUZZ_SEED is the number of the first.
    """
    count, seconds = (None, SECONDS / 2) if SECONDS else (PROGRAMS // 2, None)
    assert command.run(FIRST + half * 10**6, count, seconds, compile_every=10, host_every=10, most_failures=3)


def test_a_seed_fixes_the_cases() -> None:
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([draw_case(number, compile_every=0)[1] for number in range(20)])


def test_text_of_operators_and_of_what_is_used_twice() -> None:
    x = make_input("x", "x = torch.ones(3)")
    y = make_node("torch.relu({})", [x])
    assert Expression((make_node("{} * {}", [make_node("{} + 1", [x]), x]),)).text() == "x = torch.ones(3); (x + 1) * x"
    assert Expression((make_node("{} + {}", [y, y]),)).text() == ("x = torch.ones(3); (v0 := torch.relu(x)) + v0")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = torch.randn(9); (x * 1e8 + 1.0) - x * 1e8", "cancel"),
        ("x = torch.full((9,), 2.0); torch.exp(x) > math.exp(2)", "flip"),
        ("(torch.randn(9) * 1e30).to(torch.int32)", "cannot hold"),
        ("x = torch.full((9,), 1e30); torch.sqrt(x * x)", "overflows"),
        ("x = torch.tensor([math.inf, -3e38]); torch.dot(x, torch.tensor([1.0, 3.0]))", "parts of a sum"),
        (
            "x = torch.tensor([[[-math.inf, 2.0]]]); F.conv1d(x, torch.tensor([[[1.0, 3e38]]]))",
            "parts of a sum",
        ),
        ("torch.randn(1, 5).expand(7, 5).var(0)", "cancel"),
        ("x = torch.zeros(3, dtype=torch.int32); x % x", "PyTorch refuses"),
        ("x = torch.ones(1, 1, 2, 3); F.scaled_dot_product_attention(x, x * math.nan, x)", "all NaN"),
        (
            "q = torch.full((1, 1, 2, 2), math.inf); k = torch.tensor([[-1.0, 1.0], [-1.0, 1.0]]).T[None, None]; "
            "F.scaled_dot_product_attention(q, k, k, is_causal=True)",
            "is_causal hides",
        ),
    ],
)
def test_what_cannot_be_compared_is_not_drawn(text: str, reason: str) -> None:
    with pytest.raises(NotDrawn, match=f"^[^\n]*{reason}[^\n]*$"):
        check(Case(text, 0))


def test_roundings_to_tf32_may_flip_what_others_do_not() -> None:
    case = Case("x = torch.ones(8, 4); x @ x.T > 3.99", 0)
    assert "precision" not in check(case).reached
    assert "precision" in check(replace(case, precision="high")).reached
    with pytest.raises(NotDrawn, match="flip"):
        check(replace(case, precision="medium"))


def test_large_kernels_are_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    case, module = Case("torch.ones(4) + 1", 0), "deplodock.fuzz.case"
    monkeypatch.setattr(f"{module}.STEP_LIMIT", 3)
    with pytest.raises(NotDrawn, match="the kernels take too long to simulate"):
        check(case)
    monkeypatch.setattr(f"{module}.MOST_LANE_STEPS", 3)
    with pytest.raises(Failure, match="a kernel that does not end in simulation") as failure:
        check(case)
    assert failure.value.kind is FaultKind.HANG


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        ("x = torch.randn(1, 2).expand(3, 2); x.std(0)", 100341),
        (
            "x = torch.randn((1, 4), dtype=torch.float64); y = torch.randn((5, 4), dtype=torch.float64); "
            "F.linear(x, y).prod()",
            105214,
        ),
    ],
)
def test_ill_conditioned_programs_are_right(text: str, seed: int) -> None:
    check(Case(text, seed))


def test_values_that_pytorch_leaves_open_are_not_drawn() -> None:
    assert set(UNSPECIFIED) == {name for name in SCHEMAS if "empty" in name}
    assert not set(UNSPECIFIED) & set(DRAWN)


def test_a_refusal_is_a_failure() -> None:
    with pytest.raises(Failure, match="a refusal in capture") as caught:
        check(Case("torch.fft.fft(torch.randn(8)).real", 0))
    assert caught.value.kind is FaultKind.REFUSED


def test_a_planted_mistake_is_shrunk_and_blamed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lower = LowerToLoopsPass.apply

    def wrong(self: LowerToLoopsPass, ctx: Any, module: Any) -> None:
        lower(self, ctx, module)
        for op in list(module.walk()):
            if isinstance(op, arith.MaximumfOp):
                Rewriter.replace_op(op, arith.MinimumfOp(op.lhs, op.rhs))

    monkeypatch.setattr(LowerToLoopsPass, "apply", wrong)
    x = make_input("x", "x = torch.randn(5, 8); x = x.permute(1, 0)")
    y = make_node("torch.exp({})", [x])
    z = make_node("torch.relu({} - 1)", [y])
    expression = Expression((make_node("{} * {}", [z, y]),))
    case = Case(expression.text(), 3, fusion=1)
    with pytest.raises(Failure, match="a wrong result after join-contractions") as caught:
        check(case)
    shrinker = Shrinker(case, expression, caught.value)
    smallest = shrinker.run()
    assert smallest.text == "x = torch.randn((1, 1), dtype=torch.float32); torch.relu(x - 1)"
    command.report(FoundFailure(3, expression, case, caught.value))
    printed = capsys.readouterr().out
    assert f"deplodock run --device sim -c '{smallest.text}' --seed 3\n" in printed
    assert "the last module that was right:\nbuiltin.module" in printed
    assert "tensor_ext.kernel @k_relu" in printed


def test_too_little_of_something_fails() -> None:
    summary = Summary(0, cases=COUNTED)
    reached = {"CUDA text", "staged", "pipelined", "split k", "tensor cores", "roles", "scanned"}
    reached |= {"gradients", "torch.compile", "saved and loaded", "writes in place", "sliced factors", "k above 512"}
    assert reached | {"float32", "bool"} <= set(summary.missing())
    assert not Summary(0, cases=COUNTED - 1).missing()
    assert "run on the host" in Summary(0, host_every=10, cases=COUNTED).missing()
    assert "run on the host" not in Summary(0, host_every=0, cases=COUNTED).missing()


def test_the_summary_counts_the_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "check", lambda case: Facts())
    summary = run.fuzz(
        0, count=20, seconds=None, compile_every=0, host_every=0, most_failures=1, report=lambda found: None
    )
    drawn = [draw_case(number, compile_every=0)[0].families() for number in range(20)]
    count = sum("pointwise" in names for names in drawn)
    assert 0 < count < 20
    assert f"families: pointwise {count / 20:.0%}, " in "\n".join(summary.lines())
    assert {name for name in summary.families if name.endswith("tensor cores")}


def test_the_host_runs_a_tenth_of_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = [case.runs_on_host for _, case in (draw_case(n, compile_every=10, host_every=10) for n in range(20))]
    assert [number for number, is_hosted in enumerate(hosted) if is_hosted] == [9, 19]
    case = Case("torch.randn(9) // 2", 0, runs_on_host=True)
    assert "host" in check(case).reached
    text = case_module.print_module
    monkeypatch.setattr(harness, "print_module", lambda module: text(module).replace(" * 0.5f", " * 0.25f"))
    monkeypatch.setattr(case_module, "build", lambda modules: harness.build(modules, harness.print_module))
    with pytest.raises(Failure, match=r"a wrong result after a run on the host"):
        check(Case("torch.randn(9) * 0.5", 0, runs_on_host=True))


def test_each_kind_of_failure_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(case: Case) -> None:
        raise Failure(FaultKind.WRONG, "after", "", f"value after {case.seed // 2}")

    monkeypatch.setattr(run, "check", fail)
    reported: list[int] = []
    summary = run.fuzz(
        4,
        count=4,
        seconds=None,
        compile_every=0,
        host_every=0,
        most_failures=9,
        report=lambda found: reported.append(found.number),
    )
    assert reported == [4, 6]
    assert "failed like those above: 5, 7" in summary.lines()
