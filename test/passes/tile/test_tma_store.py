"""Results that go to memory in boxes: right at every level, without bank conflicts, and as ptxas compiles them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

pytest.importorskip("torch")

from deplodock.analysis.machine.banks import kernel_wavefronts
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.frontend.arrays import to_array
from deplodock.frontend.expression import read_expression
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.nvcc import compile_cubin, find_nvcc

WARPGROUPS = (
    "tileify,chunk-matmul-k{bk=64 kv=1},blockify-launch{m=128 n=64},stage-inputs{memory=shared transpose=never},"
    "tensor-tile{engine=wgmma m=64 n=64},double-buffer{depth=2},tma-copy,split-inner-for-swizzle,"
    "pipeline-k-outer{distance=producer}"
)
PROGRAM = "t = torch.bfloat16; F.linear(torch.randn(200, 192, dtype=t), torch.randn(120, 192, dtype=t))"
STREAMS = {
    "a tile each": "",
    "tiles in turn": "stream-matmul-k{ctas=3 unit=tile},",
    "parts of tiles": "stream-matmul-k{ctas=3},",
}


def lowered(
    text: str, schedule: str, level: Level = Level.KERNEL, target: str = "sm_90"
) -> tuple[ModuleOp, Sequence[np.ndarray]]:
    captured = read_expression(text, seed=0)
    lower(captured.module, new_context(), level, target=target, schedule=schedule)
    return captured.module, [to_array(value) for value in captured.inputs]


def check(got: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
    x, w = (value.astype(np.float32) for value in inputs)
    np.testing.assert_allclose(got.astype(np.float32), x @ w.T, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("span", [128, 32])
def test_slabs_are_written_without_bank_conflicts(stream: str, span: int) -> None:
    module, inputs = lowered(PROGRAM, f"{WARPGROUPS},{STREAMS[stream]}tma-store{{span={span}}}")
    simulation = simulate(module, inputs)
    assert not simulation.findings
    check(simulation.outputs[0], inputs)
    (function,) = kernel.functions(module)
    (wavefronts,) = kernel_wavefronts(function).values()
    assert not wavefronts.has_conflicts


@pytest.mark.parametrize("stream", STREAMS)
def test_tiles_are_right(stream: str) -> None:
    """At tile level a span says only how a slab lies in memory."""
    tiles, inputs = lowered(PROGRAM, f"{WARPGROUPS},{STREAMS[stream]}tma-store{{span=32}}", Level.TILE)
    check(evaluate(tiles, inputs)[0], inputs)


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_ptxas_makes_stores_of_boxes(target: str) -> None:
    engine = "engine=mma m=32 n=32" if target == "sm_120" else "engine=wgmma m=64 n=64"
    schedule = f"{WARPGROUPS},stream-matmul-k{{ctas=3 unit=tile}},tma-store"
    schedule = schedule.replace("engine=wgmma m=64 n=64", engine)
    if target == "sm_120":
        schedule = schedule.replace("distance=producer", "distance=1 barrier=mbarrier")
    module, _ = lowered(PROGRAM, schedule, target=target)
    compiled = compile_cubin(print_module(module), f"{target}a")
    (report,) = compiled.reports.values()
    assert report.spill_stores == report.spill_loads == 0
    assert "warning" not in compiled.log
