"""Products of high precision, as sums of products of parts on tensor cores, in the simulator against float64."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.shape.roundings import TF32_ROUNDOFF, Roundings, roundings
from deplodock.dialects import loop
from deplodock.frontend.arrays import to_array
from deplodock.frontend.capture import export
from deplodock.frontend.precision import pytorch_at
from deplodock.frontend.program import CapturedProgram
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, StageRun, lower, new_context
from deplodock.runtime.compare import Verdict, compare

CONTEXT = new_context()

BAR = 1e-6
"""What `high` promises, relative in the Frobenius norm (docs/numerics.md)."""


def judged(
    program: Any,
    args: Sequence[torch.Tensor],
    *,
    precision: str = "high",
    bar: str = "high",
    target: str = "sm_80",
    **options: Any,
) -> tuple[Verdict, str]:
    """How a program of a precision compares with float64 by the bar of one, and its text at kernel level."""
    got, captured, rounded = simulated(program, args, precision, target, **options)
    (reference,) = map(to_array, captured.reference())
    rounded = replace(rounded, factors=TF32_ROUNDOFF if bar == "medium" else 0.0)
    return compare(got, reference, None, rounded), str(captured.module)


def simulated(
    program: Any, args: Sequence[torch.Tensor], precision: str, target: str, **options: Any
) -> tuple[Array, CapturedProgram, Roundings]:
    """What the simulator gives of a program, the program at kernel level, and what rounds in it."""
    with pytorch_at(precision):
        captured = export(program, tuple(args))
    lower(captured.module, CONTEXT, Level.TENSOR, target=target)
    rounded = roundings(captured.module)
    lower(captured.module, CONTEXT, Level.KERNEL, **options)
    simulation = simulate(captured.module, [to_array(value) for value in captured.inputs])
    assert not simulation.findings
    (got,) = simulation.outputs
    return got, captured, rounded


def drawn(*shapes: tuple[int, ...], draw: Callable[..., torch.Tensor] = torch.randn) -> list[torch.Tensor]:
    """Tensors of a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    return [draw(shape, generator=generator) for shape in shapes]


def up_and_gate(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


grouped = partial(F.scaled_dot_product_attention, enable_gqa=True)
causal = partial(grouped, is_causal=True)


@pytest.mark.parametrize(
    ("program", "shapes", "draw"),
    [
        pytest.param(F.linear, [(32, 128), (64, 128)], torch.randn, id="linear"),
        pytest.param(F.linear, [(32, 512), (64, 512)], torch.rand, id="positive"),
        pytest.param(torch.matmul, [(32, 96), (96, 48)], torch.randn, id="matmul"),
        pytest.param(torch.matmul, [(2, 32, 64), (2, 64, 40)], torch.randn, id="batches"),
        pytest.param(F.linear, [(8, 160), (32, 160)], torch.randn, id="8 rows"),
        pytest.param(torch.matmul, [(65, 40), (40, 33)], torch.randn, id="odd extents"),
        pytest.param(torch.matmul, [(33, 41), (41, 33)], torch.randn, id="odd k"),
        pytest.param(F.linear, [(16, 2048), (32, 2048)], torch.rand, id="split k"),
        pytest.param(up_and_gate, [(32, 64), (48, 64), (48, 64)], torch.randn, id="gate and up"),
    ],
)
def test_high_has_the_error_of_fp32(program: Any, shapes: list[tuple[int, ...]], draw: Any) -> None:
    verdict, text = judged(program, drawn(*shapes, draw=draw))
    assert verdict.passed, str(verdict)
    assert verdict.error <= BAR
    assert "kernel.mma" in text
    assert "math_ext.low_part" in text


@pytest.mark.parametrize(
    ("program", "shapes", "target"),
    [
        pytest.param(
            partial(grouped, is_causal=True), [(1, 2, 40, 40), *[(1, 1, 40, 40)] * 2], "sm_90", id="causal, 40"
        ),
        pytest.param(
            partial(grouped, is_causal=True), [(1, 2, 40, 64), *[(1, 1, 40, 64)] * 2], "sm_80", id="causal, 64"
        ),
        pytest.param(grouped, [(1, 2, 20, 64), *[(1, 1, 50, 64)] * 2], "sm_80", id="other keys"),
        pytest.param(masked, [(1, 2, 32, 40), *[(1, 2, 48, 40)] * 2, (32, 48)], "sm_90", id="mask"),
    ],
)
def test_attention_has_the_error_of_fp32(program: Any, shapes: list[tuple[int, ...]], target: str) -> None:
    verdict, text = judged(program, drawn(*shapes), target=target)
    assert verdict.passed, str(verdict)
    assert verdict.error <= BAR
    assert "kernel.mma" in text


def test_warpgroups_read_one_stored_low_part() -> None:
    """A kernel stores what TF32 leaves of the smaller factor, once for all products of it."""
    verdict, text = judged(up_and_gate, drawn((64, 36), (1026, 36), (1026, 36)), target="sm_90")
    assert verdict.passed, str(verdict)
    assert verdict.error <= BAR
    assert "kernel.wgmma " in text
    assert len(re.findall(r"kernel.func @\w+_low\(", text)) == 1


def test_a_single_step_is_left_to_warps() -> None:
    """Warpgroups read slabs of a ring, so 32 elements of k are too few, and no low part is stored for them."""
    verdict, text = judged(F.linear, drawn((1024, 32), (64, 32)), target="sm_90")
    assert verdict.passed, str(verdict)
    assert "kernel.mma " in text
    assert text.count("kernel.func") == 1


ENGINE = (
    "tileify,chunk-matmul-k{bk=32 kv=1},blockify-launch{m=16 n=16},stage-inputs{memory=shared transpose=never},"
    "tensor-tile{engine=mma m=16 n=16 rows=m slices=1}"
)
WARPGROUPS = (
    "tileify,chunk-matmul-k{bk=32 kv=1},blockify-launch{m=64 n=64},stage-inputs{memory=shared transpose=never},"
    "tensor-tile{engine=wgmma m=64 n=64}"
)
LONG = drawn((16, 1024), (16, 1024), draw=torch.rand)
"""Positive factors, whose sums only grow: each rounding toward zero takes from them."""


def test_sums_of_positive_products_keep_their_digits() -> None:
    verdict, text = judged(F.linear, LONG, schedule=f"{ENGINE},split-factors")
    assert "kernel.mma " in text
    assert verdict.passed, str(verdict)
    assert verdict.error <= BAR


def test_one_long_sum_of_a_tensor_core_is_found() -> None:
    """The same kernel whose chunks are not added up in FP32: tensor cores round each sum toward zero."""

    def plant(run: StageRun, module: ModuleOp) -> None:
        if run.stage.name == "split-factors":
            marked = [op for op in module.walk() if isinstance(op, loop.ReduceOp) and op.apart]
            assert marked
            for op in marked:
                op.apart = None

    verdict, _ = judged(F.linear, LONG, schedule=f"{ENGINE},split-factors", observer=plant)
    assert not verdict.passed
    assert verdict.error > 3 * BAR


def test_medium_is_outside_of_the_bar_of_high() -> None:
    args = drawn((16, 64), (16, 64))
    assert not judged(F.linear, args, precision="medium", schedule=ENGINE)[0].passed
    assert judged(F.linear, args, precision="medium", bar="medium", schedule=ENGINE)[0].passed


@pytest.mark.parametrize(
    ("program", "shapes", "target", "text"),
    [
        pytest.param(F.linear, [(64, 128), (64, 128)], "sm_90", "kernel.wgmma", id="boxes"),
        pytest.param(F.linear, [(64, 128), (40, 128)], "sm_90", "kernel.wgmma m64n40k8", id="40 columns"),
        pytest.param(F.linear, [(8, 128), (64, 128)], "sm_90", "round_tf32", id="few rows"),
        pytest.param(torch.matmul, [(64, 128), (128, 64)], "sm_90", "kernel.wgmma", id="columns along memory"),
        pytest.param(torch.matmul, [(64, 128), (128, 65)], "sm_90", "round_tf32", id="rows that no box takes"),
        pytest.param(causal, [(1, 2, 64, 64)] * 3, "sm_90", "kernel.mma", id="attention"),
        pytest.param(F.linear, [(8, 128), (64, 128)], "sm_80", "kernel.mma", id="cut off"),
    ],
)
def test_medium_rounds_its_factors(program: Any, shapes: list[tuple[int, ...]], target: str, text: str) -> None:
    """So its error is that of PyTorch, and not 2.6 times as large, where targets can round for nothing, or nearly."""
    verdict, found = judged(program, drawn(*shapes), precision="medium", bar="medium", target=target)
    assert verdict.passed, str(verdict)
    assert text in found
    assert (verdict.error <= 3.5e-4) == (program is not causal and target != "sm_80")


@pytest.mark.parametrize("special", [math.nan, math.inf, torch.finfo(torch.float32).max])
@pytest.mark.parametrize("rows", [64, 8])
def test_what_tf32_lacks_reaches_its_row_of_a_product_of_medium(special: float, rows: int) -> None:
    """NaN gives NaN; an infinite factor, and one that rounds to infinity, gives infinity."""
    x, w = drawn((rows, 64), (64, 64))
    x[3, 7] = special
    (got, _, _), reference = simulated(F.linear, [x, w], "medium", "sm_90"), (x.double() @ w.double().T).numpy()
    assert (np.isnan(got[3]) if math.isnan(special) else np.isinf(got[3])).all()
    others = np.arange(rows) != 3
    np.testing.assert_allclose(got[others], reference[others], atol=0.03)


def test_parts_are_made_before_products_are_lowered() -> None:
    """An engine that reads TF32 multiplies factors of high precision only in parts."""
    with pytest.raises(PassFailedException, match="the factors count whole; run split-factors first"):
        judged(F.linear, drawn((16, 64), (16, 64)), schedule=ENGINE)


def test_warpgroups_want_a_stored_low_part() -> None:
    """Of so few products none is stored, and the rule says so."""
    reasons: list[str] = []

    def note(run: StageRun, module: ModuleOp) -> None:
        if run.stage.name == "tensor-tile":
            reasons.extend(remark.reason for remark in run.remarks)

    with pytorch_at("high"):
        captured = export(F.linear, tuple(drawn((64, 64), (64, 64))))
    lower(captured.module, CONTEXT, Level.TILE, target="sm_90", schedule=WARPGROUPS, observer=note)
    assert reasons == ["%y_smem: wgmma reads the low parts of its right factor, and none are stored"]
