"""Schedules whose slabs come in boxes, from the program to the simulator and to nvcc's registers."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from deplodock.passes.pipeline import RULES, STAGES
from deplodock.runtime.nvcc import compile_cubin, find_nvcc
from deplodock.tools.cli.app import app

pytest.importorskip("torch")

RING = (
    "double-buffer{depth=3},tma-copy,split-inner-for-swizzle,async-copy,pad-smem,"
    "pipeline-k-outer{distance=1},mark-unroll"
)
BOTH = (
    "tileify,chunk-matmul-k{bk=32 kv=4},blockify-launch{m=64 n=64},stage-inputs{transpose=never},"
    f"register-tile{{m=4 n=4}},permute-register-tile{{m=strided n=strided lanes=nmnnm}},{RING}"
)
LARGE = BOTH.replace("m=64 n=64", "m=128 n=128 occupancy=2").replace("m=4 n=4", "m=16 n=8")
MIXED = (
    "tileify,chunk-matmul-k{bk=32},blockify-launch{m=64 n=64},stage-inputs{transpose=auto},register-tile{m=4 n=4},"
    f"permute-register-tile{{m=strips n=strips lanes=nmnnm}},{RING}"
)


def deplodock(*args: str) -> str:
    """What a command prints that succeeds."""
    result = CliRunner().invoke(app, [*args, "--target", "sm_90"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("expression", "schedule", "boxes"),
    [
        ("torch.relu(F.linear(torch.randn(70, 100), torch.randn(72, 100)) + torch.randn(70, 72))", BOTH, 2),
        ("F.linear(torch.randn(70, 100), torch.randn(72, 100))", BOTH.replace("bk=32", "bk=64"), 2),
        ("F.linear(torch.randn(70, 100), torch.randn(72, 100))", BOTH.replace("split-inner-for-swizzle,", ""), 2),
        ("torch.randn(70, 100) @ torch.randn(100, 72)", MIXED, 1),
    ],
    ids=["both with an epilogue", "rows in two parts", "without swizzle", "mixed"],
)
def test_ragged_contractions_are_right(expression: str, schedule: str, boxes: int) -> None:
    text = deplodock("compile", "-c", expression, "--schedule", schedule, "--ir", "kernel")
    assert len(re.findall(r"kernel\.tensor_map %", text)) == boxes
    report = deplodock("run", "-c", expression, "--device", "sim", "--schedule", schedule)
    assert "passed: the result agrees with PyTorch in float64, no findings\n" in report


def test_the_trace_tells_of_all_rules() -> None:
    expression = "F.linear(torch.randn(512, 3584), torch.randn(3584, 3584))"
    trace = deplodock("compile", "-c", expression, "--schedule", LARGE, "-vv", "--ir", "tile")
    told = re.findall(r"^(>>>|---) (t:\d+_\w+)", trace, re.MULTILINE)
    assert [label for _, label in told] == ["t:000_choose_schedule", *(rule.label for rule in RULES)]
    names = {stage.label: stage.name for stage in STAGES}
    assert [names[label] for mark, label in told if mark == ">>>"] == [
        *("choose-schedule", "tileify", "chunk-matmul-k", "blockify-launch", "stage-inputs", "register-tile"),
        *("permute-register-tile", "double-buffer", "tma-copy", "split-inner-for-swizzle", "pipeline-k-outer"),
        "mark-unroll",
    ]


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_swizzled_slabs_of_both_operands_leave_registers_for_all() -> None:
    expression = "F.linear(torch.randn(512, 3584), torch.randn(3584, 3584))"
    text = deplodock("compile", "-c", expression, "--schedule", LARGE, "--ir", "cuda")
    (report,) = compile_cubin(text, "sm_90").reports.values()
    assert report.spill_stores == report.spill_loads == 0
