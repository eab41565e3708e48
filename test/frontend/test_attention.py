"""Attention as one kernel on the simulator: right beside float64, and it writes its output and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects import arith

from deplodock.analysis.shape.roundings import roundings
from deplodock.dialects import kernel, loop
from deplodock.dialects.kernel import FuncOp
from deplodock.frontend.arrays import to_array
from deplodock.frontend.capture import export
from deplodock.interpreters.simulate import Simulation, simulate
from deplodock.interpreters.values import Array
from deplodock.passes import remarks
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.compare import compare
from deplodock.runtime.plan import program_plan

Tensor = torch.Tensor
Form = tuple[Callable[..., Any], tuple[Tensor, ...]]
"""A program and its arguments."""
CONTEXT = new_context()


def heads(count: int, length: int, size: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(1, count, length, size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def qkv(q: tuple[int, int], k: tuple[int, int], size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """A query, keys and values of heads and lengths."""
    return heads(*q, size, 1, dtype), heads(*k, size, 2, dtype), heads(*k, size, 3, dtype)


def window(length: int, keys: int) -> Tensor:
    """A mask in which a query sees the three keys up to its own, and the first one none."""
    distance = torch.arange(length)[:, None] - torch.arange(keys)
    return (distance >= 0) & (distance < 3) & (torch.arange(length)[:, None] > 0)


def positions(length: int, keys: int, size: int, ahead: int = 0) -> Tensor:
    """The mask of a window: a query sees so many keys, the last of them some ahead of its own."""
    query, key = torch.arange(length).unsqueeze(1) + ahead, torch.arange(keys)
    return (key <= query) & (key > query - size)


FORMS: dict[str, Form] = {
    "one query": (F.scaled_dot_product_attention, qkv((2, 1), (2, 130), 8)),
    "one query, shared keys": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        qkv((6, 1), (2, 70), 64),
    ),
    "fewer queries than keys": (F.scaled_dot_product_attention, qkv((2, 7), (2, 64), 40)),
    "causal, shared keys": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        qkv((2, 127), (1, 127), 96),
    ),
    "causal, steps left out": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        qkv((1, 260), (1, 260), 16),
    ),
    "boolean window": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=window(64, 127)),
        qkv((1, 64), (1, 127), 192),
    ),
    "window, steps left out": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=positions(300, 300, 50)),
        qkv((1, 300), (1, 300), 16),
    ),
    "bf16, window, steps left out": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=positions(300, 260, 50)),
        qkv((1, 300), (1, 260), 24, torch.bfloat16),
    ),
    "f16, window of few rows, steps left out": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=positions(300, 330, 70, 40)[250:264]),
        qkv((1, 14), (1, 330), 20, torch.float16),
    ),
    "additive mask": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        (*qkv((1, 17), (1, 33), 128), heads(1, 17, 33, 4)),
    ),
    "odd heads": (F.scaled_dot_product_attention, qkv((1, 20), (1, 33), 13)),
    "bf16": (F.scaled_dot_product_attention, qkv((1, 16), (1, 32), 64, torch.bfloat16)),
    "bf16, one query": (F.scaled_dot_product_attention, qkv((2, 1), (2, 130), 64, torch.bfloat16)),
    "bf16, causal, shared keys": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        qkv((2, 127), (1, 127), 40, torch.bfloat16),
    ),
    "bf16, additive mask": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        (*qkv((1, 7), (1, 33), 128, torch.bfloat16), heads(1, 7, 33, 4, torch.bfloat16)),
    ),
    "bf16, odd heads": (F.scaled_dot_product_attention, qkv((1, 20), (1, 33), 13, torch.bfloat16)),
    "f16": (F.scaled_dot_product_attention, qkv((1, 16), (1, 32), 32, torch.float16)),
    "f16, causal, steps left out": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        qkv((1, 130), (1, 130), 96, torch.float16),
    ),
    "f16, boolean window": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=window(64, 127)),
        qkv((1, 64), (1, 127), 192, torch.float16),
    ),
}


def attention(form: Form, schedule: str | None = None, kernels: int = 1) -> tuple[Simulation, Array]:
    """A form as one kernel on the simulator, right and without findings, and what PyTorch gives."""
    program, args = form
    captured = export(program, args)
    inputs = [to_array(value) for value in captured.inputs]
    (reference,), (eager,) = ([to_array(x) for x in outputs] for outputs in (captured.reference(), captured.eager()))
    with remarks.collect():
        lower(captured.module, CONTEXT, Level.TENSOR, stream="always")
        rounded = roundings(captured.module)
        lower(captured.module, CONTEXT, Level.KERNEL, schedule=schedule)
    assert sum(isinstance(op, FuncOp) for op in captured.module.ops) == kernels
    simulation = simulate(captured.module, inputs, order=7)
    assert not simulation.findings
    verdict = compare(np.asarray(simulation.outputs[0]), reference, eager, rounded)
    assert verdict.passed, str(verdict)
    return simulation, eager


@pytest.mark.parametrize("form", FORMS)
def test_one_kernel_writes_its_output_and_nothing_else(form: str) -> None:
    simulation, eager = attention(FORMS[form])
    assert [counts.global_bytes_written for counts in simulation.counters.values()] == [eager.nbytes]


SPLIT = "tileify,split-stream{s=3 unit=32},stream-tile"
ROUND = "double-buffer{depth=2},async-copy,pad-smem,pipeline-k-outer,blockify-launch(out){threads=128}"


@pytest.mark.parametrize(
    ("form", "schedule"),
    [
        ("one query", f"{SPLIT}{{m=1 n=32 slices=2 side=1 lanes=32}},{ROUND}"),
        ("one query, shared keys", f"{SPLIT}{{m=3 n=8 slices=2 side=1 lanes=32 features=16}},{ROUND}"),
        (
            "one query, shared keys",
            f"{SPLIT.replace('32', '48')}{{m=3 n=24 slices=2 side=1 lanes=16 features=8}},{ROUND}",
        ),
        (
            "bf16, one query",
            f"{SPLIT.replace('32}', '32 order=turns}')}{{m=16 n=16 slices=2 engine=mma}},{ROUND},start-early",
        ),
        ("fewer queries than keys", f"{SPLIT}{{m=8 n=16 slices=1 side=4 lanes=8}},{ROUND}"),
        ("causal, steps left out", f"{SPLIT}{{m=64 n=32}},{ROUND}"),
        ("bf16, one query", f"{SPLIT}{{m=16 n=16 slices=2 engine=mma}},{ROUND}"),
        ("f16, causal, steps left out", f"{SPLIT}{{m=64 n=32 engine=mma}},{ROUND}"),
    ],
)
def test_ctas_share_the_keys_of_a_row(form: str, schedule: str) -> None:
    """Each leaves its maximum, sum and weighted sums, which a second launch folds and nothing else stores."""
    simulation, eager = attention(FORMS[form], schedule, kernels=2)
    parts, whole = simulation.counters.values()
    rows, size = eager.size // eager.shape[-1], eager.shape[-1]
    assert whole.global_bytes_written == eager.nbytes
    assert parts.global_bytes_written % (4 * rows * (size + 2)) == 0


@pytest.mark.parametrize("slices", [2, 4])
def test_tiles_of_tensor_cores(slices: int) -> None:
    """Warps of the rows of two instructions, and warps that share the keys of a step, as far as a mask leaves some."""
    program = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    rings = "double-buffer{depth=2},async-copy,pipeline-k-outer"
    for size, options in ((64, f"m=32 n=16 warp=32 slices={slices}"), (40, f"m=16 n=32 slices={slices}")):
        form = program, qkv((1, 130), (1, 130), size, torch.bfloat16)
        attention(form, f"tileify,stream-tile{{{options} engine=mma}},{rings}")


BOXES = "double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer{distance=1}"


@pytest.mark.parametrize(("options", "size"), [("m=128 n=32", 64), ("m=64 n=16", 40), ("m=64 n=128", 24)])
def test_tiles_of_warpgroups(options: str, size: int) -> None:
    """Two warpgroups; rows of several lines of a slab; a single step of keys and of features."""
    program = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)  # noqa: E731
    form = program, qkv((2, 130), (1, 100), size, torch.bfloat16)
    attention(form, f"tileify,stream-tile{{{options} engine=wgmma}},{BOXES}")


@pytest.mark.parametrize(
    "schedule",
    ["tileify,stream-tile{m=16 n=32 engine=mma}", f"tileify,stream-tile{{m=64 n=32 slices=1 engine=wgmma}},{BOXES}"],
)
def test_special_scores_of_tensor_cores(schedule: str) -> None:
    """A row without keys gives 0, one with a NaN score NaN, and huge scores stay finite."""
    mask = torch.zeros(4, 96, dtype=torch.bfloat16)
    mask[0, 32:] = mask[1] = -torch.inf
    mask[2, 40] = torch.nan
    mask[3, 7] = 3e38
    program = (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        qkv((1, 4), (1, 96), 16, torch.bfloat16),
    )
    simulation, eager = attention(program, schedule)
    np.testing.assert_array_equal(np.isnan(simulation.outputs[0]), np.isnan(eager))
    assert not simulation.outputs[0][0, 0, 1].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_long_rows_of_one_query_are_shared_by_default(dtype: torch.dtype) -> None:
    """Heads that share keys are rows of one tile, each key is read once, and no scores are stored."""
    program = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)  # noqa: E731
    captured = export(program, qkv((6, 1), (2, 1024), 32, dtype))
    inputs = [to_array(value) for value in captured.inputs]
    with remarks.collect():
        lower(captured.module, CONTEXT, Level.KERNEL)
    simulation = simulate(captured.module, inputs)
    assert not simulation.findings
    parts, whole = simulation.counters.values()
    assert 32 * parts.global_sectors_read <= 1.2 * sum(array.nbytes for array in inputs)
    assert parts.global_bytes_written < inputs[1].nbytes / 4
    assert whole.global_bytes_written == inputs[0].nbytes
    (reference,) = captured.reference()
    np.testing.assert_allclose(simulation.outputs[0], to_array(reference), rtol=2e-3, atol=2e-4)


def test_half_precision_is_one_kernel_of_warpgroups_by_default() -> None:
    """Where tensor cores take both products: of several rows, and of factors of half precision."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        captured = export(F.scaled_dot_product_attention, qkv((2, 64), (2, 64), 64, dtype))
        with remarks.collect():
            lower(captured.module, CONTEXT, Level.KERNEL)
        functions = [op for op in captured.module.ops if isinstance(op, FuncOp)]
        is_half = dtype is not torch.float32
        assert any(isinstance(op, kernel.WgmmaOp) for op in captured.module.walk()) == is_half
        assert len(functions) == 1 or not is_half


def test_shares_are_products_with_one_reciprocal() -> None:
    """Attention divides once for a row, a softmax by itself each of its elements."""
    for program, is_inside in ((F.scaled_dot_product_attention, False), (lambda q, k, v: F.softmax(q, -1), True)):
        captured = export(program, qkv((1, 512), (1, 512), 64))
        lower(captured.module, CONTEXT, Level.LOOP)
        (quotient,) = [op for op in captured.module.walk() if isinstance(op, arith.DivfOp)]
        around = quotient.parent_op()
        assert isinstance(around, loop.ForOp)
        assert any(isinstance(op, loop.ForOp) for op in around.body.block.ops) != is_inside


def test_special_scores_of_shared_rows() -> None:
    """A CTA whose keys are all hidden leaves nothing, and a row of such CTAs gives 0."""
    mask = torch.zeros(3, 96)
    mask[0, 32:] = mask[1] = -torch.inf
    mask[2, 40] = torch.nan
    program = (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), qkv((1, 3), (1, 96), 8))
    simulation, eager = attention(program, "tileify,split-stream{s=3 unit=32},stream-tile{m=16 n=32}", kernels=2)
    np.testing.assert_array_equal(np.isnan(simulation.outputs[0]), np.isnan(eager))
    assert not simulation.outputs[0][0, 0, 1].any()


@pytest.mark.parametrize(("queries", "heads", "dtype"), [(16384, (2, 1), torch.bfloat16), (1, (28, 4), torch.float32)])
def test_long_rows_need_no_memory_for_scores(queries: int, heads: tuple[int, int], dtype: torch.dtype) -> None:
    """A prompt of 16,384 tokens has no scratch memory, a single query less than a tenth of the keys'."""
    keys = 16384
    shared = (1, heads[1], keys, 128)
    captured = export(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=queries > 1, enable_gqa=True),
        tuple(torch.empty(shape, dtype=dtype) for shape in ((1, heads[0], queries, 128), shared, shared)),
    )
    with remarks.collect():
        lower(captured.module, CONTEXT, Level.KERNEL)
    needed = program_plan(captured.module).scratch
    assert needed == 0 if queries > 1 else 0 < needed <= 4 * keys * 128 * 4 / 10
