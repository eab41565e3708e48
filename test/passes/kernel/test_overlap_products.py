"""Products that overlap, as ptxas compiles them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from deplodock.codegen.cuda import print_module
from deplodock.frontend.expression import read_expression
from deplodock.fuzz.case import write_schedules
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.options import Kind
from deplodock.runtime.nvcc import compile_cubin
from deplodock.schedule.steps import parse_schedule
from deplodock.test.shared.ptxas import SERIALISED

SCHEDULE = (
    "tileify,chunk-matmul-k{bk=64 kv=1},blockify-launch{m=64 n=64},stage-inputs{memory=shared transpose=never},"
    "tensor-tile{engine=wgmma m=64 n=64},double-buffer{depth=3},tma-copy,split-inner-for-swizzle,"
    "pipeline-k-outer{distance=producer}"
)


def test_products_in_front_of_conditional_stores_are_not_serialised(nvcc: Path) -> None:
    context = new_context()
    half = "dtype=torch.bfloat16"
    captured = read_expression(f"F.linear(torch.randn(64, 448, {half}), torch.randn(72, 448, {half}))", seed=0)
    lower(captured.module, context, Level.LOOP)
    write_schedules(captured.module, {Kind.CONTRACTION: parse_schedule(SCHEDULE)})
    lower(captured.module, context, Level.KERNEL)
    text = print_module(captured.module)
    assert "wgmma.wait_group.sync.aligned 1;" in text
    assert SERIALISED not in compile_cubin(text, "sm_90a", nvcc=nvcc).log
