"""The ladder of schedules: for each kind of kernel it ends with one that any card holds, and gets there in steps."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.machine.targets import ATTRIBUTE as TARGET
from deplodock.analysis.machine.targets import target
from deplodock.analysis.shape.nest import kernels
from deplodock.dialects.kernel import TargetAttr
from deplodock.passes.driver import Level, lower, new_context
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.choose.ladder import LADDER
from deplodock.schedule.steps import ATTRIBUTE, Schedule, format_schedule
from deplodock.tools.source import LocatingParser

H200 = target("h200")
FACTS = {name: H200.fact(name) for name in H200.facts.data}
SMALL = TargetAttr(H200.arch.data, {**FACTS, "threads_per_block": 32, "shared_per_block": 64, "shared_per_sm": 4096})
PRODUCT = """
func.func @main(%x: tensor<128x256xTYPE>, %w: tensor<256x128xTYPE>) -> tensor<128x128xTYPE> {
  %y = torch.aten.mm %x, %w : tensor<128x256xTYPE>, tensor<256x128xTYPE> -> tensor<128x128xTYPE>
  func.return %y : tensor<128x128xTYPE>
}
"""
ROWS = """
func.func @main(%x: tensor<64x500xf32>) -> tensor<64x500xf32> {
  %y = torch.aten.softmax.int %x {dim = -1} : tensor<64x500xf32> -> tensor<64x500xf32>
  func.return %y : tensor<64x500xf32>
}
"""
COLUMNS = """
func.func @main(%x: tensor<500x64xf32>) -> tensor<64xf32> {
  %y = torch.aten.sum.dim_IntList %x {dim = [0]} : tensor<500x64xf32> -> tensor<64xf32>
  func.return %y : tensor<64xf32>
}
"""
POINTS = """
func.func @main(%x: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %y = torch.aten.relu %x : tensor<64x512xf32> -> tensor<64x512xf32>
  func.return %y : tensor<64x512xf32>
}
"""
PROGRAMS = {
    "product of f32": PRODUCT.replace("TYPE", "f32"),
    "product of bf16": PRODUCT.replace("TYPE", "bf16"),
    "rows": ROWS,
    "columns": COLUMNS,
    "points": POINTS,
}


def loops_of(text: str) -> ModuleOp:
    module = LocatingParser(new_context(), text, "program.mlir").parse_module()
    lower(module, new_context(), Level.LOOP, target="h200")
    return module


def holds(function: FuncOp, schedule: Schedule) -> bool:
    alone = ModuleOp([function.clone()], {TARGET: SMALL})
    next(iter(alone.ops)).attributes[ATTRIBUTE] = StringAttr(format_schedule(schedule))
    try:
        lower(alone, new_context(), Level.KERNEL)
    except DiagnosticException:
        return False
    return True


@pytest.mark.parametrize("kind", PROGRAMS)
def test_it_ends_on_the_smallest_card(kind: str) -> None:
    """One that has 32 threads in a CTA, and next to no shared memory."""
    for function in kernels(loops_of(PROGRAMS[kind])):
        assert not holds(function, choose(function))
        assert any(holds(function, schedule) for schedule in LADDER[-1](function))


def test_it_goes_down_in_steps() -> None:
    (function,) = kernels(loops_of(PROGRAMS["product of bf16"]))
    texts = [format_schedule(schedule) for rung in LADDER for schedule in rung(function)]
    assert "occupancy" in format_schedule(choose(function))
    assert "occupancy" not in texts[0]
    engines = ["tensor-tile" in text for text in texts]
    slabs = ["stage-inputs" in text for text in texts]
    assert engines.index(False) > 6
    assert True not in engines[engines.index(False) :]
    assert True not in slabs[slabs.index(False) :]
    assert len({text.replace("occupancy", "") for text in texts}) < 40


def test_threads_are_fewer_and_fewer() -> None:
    (function,) = kernels(loops_of(ROWS))
    fewer = [format_schedule(schedule) for schedule in LADDER[1](function)]
    assert "cooperative-reduce{threads=32 " in fewer[-1]
    assert "blockify-launch{threads=32}" in fewer[-1]
