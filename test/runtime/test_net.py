"""The net under lowering: what a kernel that is refused gets, how its program goes on, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.machine.targets import target
from deplodock.analysis.shape.nest import kernels
from deplodock.dialects.kernel import TargetAttr
from deplodock.errors import Error, RefusedError
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.runtime import net
from deplodock.runtime.falls import DEBUG, FALLS, Fall, FallKind, falls_of, note, raised, report
from deplodock.runtime.lowering import ALWAYS, lower_by_loops
from deplodock.runtime.tuned import TunedEntry, read_tuned, write_tuned
from deplodock.schedule.steps import ATTRIBUTE
from deplodock.tools.source import LocatingParser
from deplodock.tune.task import tasks

CONTEXT = new_context()
PROGRAM = """
func.func @main(%x: tensor<16x96xf32>, %w: tensor<96x24xf32>) -> (tensor<16x24xf32>, tensor<16x96xf32>) {
  %y = torch.aten.mm %x, %w : tensor<16x96xf32>, tensor<96x24xf32> -> tensor<16x24xf32>
  %e = torch.aten.sin %y : tensor<16x24xf32> -> tensor<16x24xf32>
  %s = torch.aten.exp %e : tensor<16x24xf32> -> tensor<16x24xf32>
  %z = torch.aten.relu %x : tensor<16x96xf32> -> tensor<16x96xf32>
  func.return %s, %z : tensor<16x24xf32>, tensor<16x96xf32>
}
"""


@pytest.fixture(autouse=True)
def _falls(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.delenv(DEBUG)


def read(text: str = PROGRAM) -> ModuleOp:
    return LocatingParser(CONTEXT, text, "program.mlir").parse_module()


def small(**facts: int) -> TargetAttr:
    """An H200 with less of something."""
    full = target("h200")
    return TargetAttr(full.arch.data, {**{name: full.fact(name) for name in full.facts.data}, **facts})


def check(module: ModuleOp, text: str = PROGRAM) -> None:
    """Compare what a module at kernel level gives with what the program says."""
    draw = np.random.default_rng(0)
    inputs = [draw.standard_normal(shape, np.float32) for shape in ((16, 96), (96, 24))]
    simulation, meant = simulate(module, inputs), read(text)
    lower(meant, CONTEXT, Level.TENSOR)
    assert not simulation.findings
    for value, wanted in zip(simulation.outputs, evaluate(meant, inputs), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


def refuse(monkeypatch: pytest.MonkeyPatch, is_refused: Callable[[str], bool], error: Exception) -> None:
    """Have the first rule refuse kernels by the names of their operations."""
    rewrite = TileifyPass.rewrite

    def refusing(self: TileifyPass, function: func.FuncOp, rewriter: PatternRewriter, /) -> None:
        if is_refused(" ".join(op.name for op in function.walk())):
            raise error
        rewrite(self, function, rewriter)

    monkeypatch.setattr(TileifyPass, "rewrite", refusing)


def test_a_card_with_few_threads_gets_simpler_schedules(caplog: pytest.LogCaptureFixture) -> None:
    module = read()
    loops = lower_by_loops(module, CONTEXT, target=small(threads_per_block=32))
    falls = falls_of(module)
    assert [(fall.kind, fall.kernel) for fall in falls] == [("simpler_schedule", name) for name in ("k_s", "k_z")]
    assert "threads in a CTA, sm_90 allows 32" in falls[0].reason
    assert [function.attributes[ATTRIBUTE].data for function in kernels(loops)] == [fall.schedule for fall in falls]
    messages = [record.getMessage() for record in caplog.records if record.name == "deplodock"]
    assert messages[0].startswith(
        "deplodock: the kernel @k_s (program.mlir:5, program.mlir:3, program.mlir:4) "
        "takes the simpler schedule tileify,"
    )
    check(module)


@pytest.mark.parametrize("error", [DiagnosticException("as planted"), AssertionError("as planted")])
def test_fusion_is_undone_where_no_schedule_holds(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(monkeypatch, lambda names: "math.sin" in names and "math.exp" in names, error)
    module = read()
    loops = lower_by_loops(module, CONTEXT)
    assert [function.sym_name.data for function in kernels(loops)] == ["k_y", "k_e", "k_s", "k_z"]
    (fall,) = falls_of(module)
    assert (fall.kind, fall.kernel, fall.schedule) == (FallKind.UNDONE, "k_s", "")
    assert "as planted" in fall.reason
    assert ("a fault of deplodock at " in fall.reason) == isinstance(error, AssertionError)
    (message,) = (record.getMessage() for record in caplog.records if record.name == "deplodock")
    assert "has its fusion undone" in message
    check(module)


def test_operations_that_are_refused_alone_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, lambda names: "math.sin" in names, AssertionError("as planted"))
    with pytest.raises(RefusedError, match=r"^program.mlir:4: a fault of deplodock .*: as planted$"):
        lower_by_loops(read(), CONTEXT)


def test_an_error_of_no_kernel_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("as planted")

    monkeypatch.setattr("deplodock.passes.tensor.form_kernels.FormKernelsPass.apply", fail)
    with pytest.raises(AssertionError, match="as planted"):
        lower_by_loops(read(), CONTEXT)


def test_a_schedule_of_the_users_is_never_replaced() -> None:
    text = "tileify,blockify-launch{threads=64}"
    with pytest.raises(DiagnosticException, match="threads in a CTA"):
        lower_by_loops(read(), CONTEXT, target=small(threads_per_block=32), schedule=text)
    module = read()
    lower(module, CONTEXT, Level.LOOP, target=small(threads_per_block=32))
    for function in kernels(module):
        function.attributes[ATTRIBUTE] = StringAttr(text)
    with pytest.raises(DiagnosticException, match="threads in a CTA"):
        lower_by_loops(module, CONTEXT)


def test_falls_are_errors_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ALWAYS)
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path))
    for _ in range(2):
        monkeypatch.setenv(DEBUG, "1")
        with pytest.raises(DiagnosticException, match="threads in a CTA"):
            lower_by_loops(read(), CONTEXT, target=small(threads_per_block=32))
        # What users have kept is an error, too.
        monkeypatch.delenv(DEBUG)
        lower_by_loops(read(), CONTEXT, target=small(threads_per_block=32))


def test_a_program_that_fell_is_kept_and_tells_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(ALWAYS)
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path))
    first, second = read(), read()
    lower_by_loops(first, CONTEXT, target=small(threads_per_block=32))
    told = [record.getMessage() for record in caplog.records]
    monkeypatch.setattr(net, "lower", lambda *_, **__: pytest.fail("passes run again"))
    loops = lower_by_loops(second, CONTEXT, target=small(threads_per_block=32))
    assert str(first) == str(second)
    assert all(ATTRIBUTE in function.attributes for function in kernels(loops))
    assert [record.getMessage() for record in caplog.records] == told * 2


def test_a_refused_line_of_a_file_is_left_out_before_anything_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG, "1")
    loops = read()
    lower(loops, CONTEXT, Level.LOOP, target="h200")
    lines = [
        TunedEntry(task.key, task.name, "H200", "tileify,blockify-launch{threads=2048}", "c", 1.0, 1.0, 1)
        for task in tasks(loops)[1:]
    ]
    write_tuned(path := tmp_path / "t.jsonl", lines)
    module, usual = read(), read()
    lower_by_loops(module, CONTEXT, target="h200", tuned=read_tuned(path))
    lower_by_loops(usual, CONTEXT, target="h200")
    assert {fall.kind for fall in falls_of(module)} == {FallKind.UNTUNED}
    assert all("the schedule is left out" in record.getMessage() for record in caplog.records)
    del module.attributes[FALLS]
    assert str(module) == str(usual)


def test_a_fall_is_read_back_and_told() -> None:
    fall = Fall(FallKind.SIMPLER, "k_add", ("aten.add (a.py:3)",), "too large", "tileify")
    module = ModuleOp([])
    note(module, [fall])
    note(module, [fall])
    assert falls_of(module) == [fall, fall]
    assert str(fall) == "the kernel @k_add (aten.add (a.py:3)) takes the simpler schedule tileify: too large"
    with raised(), pytest.raises(Error, match="too large"):
        report([fall])
