"""The schedules of attention as one kernel: tiles by what fits on chip, and rows shared where tiles leave SMs idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from deplodock.analysis.machine.targets import target
from deplodock.analysis.shape.nest import kernels, nests
from deplodock.analysis.shape.streaming import StreamedProduct, streamed_product
from deplodock.frontend.capture import export
from deplodock.frontend.expression import read_expression
from deplodock.frontend.precision import pytorch_at
from deplodock.frontend.program import CapturedProgram
from deplodock.passes.driver import Level, lower, new_context
from deplodock.schedule.choose.long_rows import stream_bytes
from deplodock.schedule.choose.streaming import stream_options
from deplodock.schedule.steps import Options


def chosen(program: CapturedProgram, card: str, **given: Any) -> tuple[StreamedProduct, Mapping[str, Options]]:
    """The streamed product of a program, which is one kernel, and the options of its rules."""
    lower(program.module, new_context(), Level.LOOP, target=card, **given)
    (function,) = kernels(program.module)
    (nest,) = nests(function)
    found = streamed_product(nest)
    assert found is not None
    options = stream_options(found, nest, target(card))
    assert options is not None
    return found, options


@pytest.mark.parametrize(
    ("card", "queries", "keys", "size", "expected"),
    [
        ("sm_90", 2048, 2048, 64, {"m": 64, "n": 64}),
        ("sm_90", 2048, 2048, 128, {"m": 64, "n": 32}),
        ("sm_90", 2048, 2048, 192, {"m": 64, "n": 32}),
        ("sm_90", 24, 128, 64, {"m": 16, "n": 64}),
        ("sm_90", 300, 128, 64, {"m": 32, "n": 64}),
        ("sm_120", 2048, 2048, 64, {"m": 64, "n": 32}),
        ("sm_120", 2048, 2048, 192, {"m": 32, "n": 32}),
    ],
)
def test_tiles(card: str, queries: int, keys: int, size: int, expected: dict[str, int]) -> None:
    shapes = (1, 8, queries, size), (1, 2, keys, size), (1, 2, keys, size)
    program = export(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), tuple(map(torch.empty, shapes))
    )
    found, options = chosen(program, card, stream="always")
    assert options["stream-tile"] == expected
    assert stream_bytes(found, expected["m"], expected["n"]) <= target(card).fact("shared_per_block")


@pytest.mark.parametrize(
    ("heads", "keys", "size", "dtype", "parts", "tile"),
    [
        (28, 4096, 128, torch.float32, 64, {"m": 7, "n": 8, "slices": 4, "side": 1, "lanes": 32, "features": 16}),
        (4, 32768, 64, torch.float32, 64, {"m": 1, "n": 16, "slices": 4, "side": 1, "lanes": 32, "features": 2}),
        (28, 4096, 128, torch.bfloat16, 32, {"m": 16, "n": 16, "slices": 4, "engine": "mma"}),
        (32, 32768, 64, torch.float16, 32, {"m": 16, "n": 32, "slices": 4, "engine": "mma"}),
        (28, 256, 40, torch.bfloat16, None, {"m": 16, "n": 32, "slices": 4, "engine": "mma"}),
        (52, 4096, 20, torch.float32, 32, {"m": 16, "n": 32, "slices": 4, "side": 4, "lanes": 8}),
    ],
)
def test_rows_of_one_query(
    heads: int, keys: int, size: int, dtype: torch.dtype, parts: int | None, tile: dict[str, int | str]
) -> None:
    """Heads that share keys are rows; as many CTAs share those as leave no SM idle and have a step each.

    Where a CTA's steps are few, all are copied at once.
    """
    shapes = (1, heads, 1, size), (1, 4, keys, size), (1, 4, keys, size)
    program = export(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        tuple(torch.empty(shape, dtype=dtype) for shape in shapes),
    )
    _, options = chosen(program, "sm_90")
    is_narrow, step = "engine" in tile, int(tile["n"]) * 4
    assert options["stream-tile"] == {**tile, "occupancy": 1 if is_narrow else 2}
    own = -(-keys // step // (parts or 1))
    depth = max(2, min(own, 5 if is_narrow else 2))
    assert options["double-buffer"] == {"depth": depth}
    assert options["pipeline-k-outer"] == {"distance": depth if depth == own else depth - 1}
    assert ("start-early" in options) == (parts is not None)
    split = options.get("split-stream")
    assert split == (None if parts is None else {"s": parts, "unit": int(tile["n"]) * 4})


@pytest.mark.parametrize(
    ("card", "heads", "rows", "size", "expected"),
    [
        ("sm_90", 28, 2048, 128, {"m": 128, "n": 128, "engine": "wgmma"}),
        ("sm_90", 28, 512, 128, {"m": 128, "n": 128, "engine": "wgmma"}),
        ("sm_90", 28, 128, 128, {"m": 64, "n": 128, "engine": "wgmma"}),
        ("sm_90", 28, 2048, 256, {"m": 128, "n": 64, "engine": "wgmma"}),
        ("sm_90", 28, 40, 128, {"m": 48, "n": 64, "warp": 16, "engine": "mma"}),
        ("sm_90", 28, 2048, 20, {"m": 128, "n": 64, "warp": 32, "engine": "mma"}),
        ("sm_80", 28, 2048, 128, {"m": 128, "n": 32, "warp": 32, "engine": "mma"}),
        ("sm_120", 28, 2048, 64, {"m": 128, "n": 64, "warp": 32, "engine": "mma"}),
    ],
)
def test_engines(card: str, heads: int, rows: int, size: int, expected: dict[str, int | str]) -> None:
    """Rows of 40 bytes come in no boxes, and warpgroups take 64 rows."""
    query, key = ((1, count, rows, size) for count in (heads, 4))
    program = export(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        tuple(torch.empty(shape, dtype=torch.bfloat16) for shape in (query, key, key)),
    )
    _, options = chosen(program, card)
    assert options["stream-tile"] == expected


@pytest.mark.parametrize(
    ("heads", "rows", "size", "is_causal", "depth"),
    [
        (28, 512, 128, True, 3),
        (8, 2048, 128, True, 3),
        (28, 512, 128, False, 2),
        (28, 1024, 128, True, 2),
        (16, 512, 128, True, 2),
        (32, 512, 64, True, 2),
        (16, 1024, 256, True, 2),
    ],
)
def test_causal_rows_of_parts_that_fill_sms_twice_at_most_are_alone(
    heads: int, rows: int, size: int, is_causal: bool, depth: int
) -> None:
    """A third slot keeps a second CTA off an SM, so that SMs with short rows take what is left."""
    query, key = ((1, count, rows, size) for count in (heads, 4))
    with pytorch_at("high"):
        program = export(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True),
            tuple(torch.empty(shape) for shape in (query, key, key)),
        )
    _, options = chosen(program, "h200", stream="always")
    assert options["double-buffer"] == {"depth": depth}


@pytest.mark.parametrize(
    ("program", "shape", "engine"),
    [
        (lambda x: F.scaled_dot_product_attention(*x.transpose(1, 2).unbind(3)), (2, 64, 4, 3, 64), "wgmma"),
        (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 2, 2, 2, 64, 64), "mma"),
        (lambda x: F.scaled_dot_product_attention(x, x.transpose(-1, -2), x), (2, 4, 64, 64), "mma"),
    ],
)
def test_warpgroups_read_what_boxes_take(program: Callable[..., object], shape: tuple[int, ...], engine: str) -> None:
    """Parts of one tensor are boxes of it; more than 5 dimensions are none, and features must be neighbours."""
    captured = export(program, (torch.empty(shape, dtype=torch.bfloat16),))
    lower(captured.module, new_context(), Level.KERNEL, target="sm_90")
    names = {op.name for op in captured.module.walk()}
    assert f"kernel.{engine}" in names


def test_heads_that_no_tile_holds_have_other_schedules() -> None:
    shapes = (1, 1, 64, 4096), (1, 1, 64, 4096), (1, 1, 64, 4096)
    program = export(F.scaled_dot_product_attention, tuple(map(torch.empty, shapes)))
    lower(program.module, new_context(), Level.LOOP, stream="always")
    (function,) = kernels(program.module)
    (nest,) = nests(function)
    found = streamed_product(nest)
    assert found is not None
    assert stream_options(found, nest, target("sm_90")) is None


@pytest.mark.parametrize("features", [64, 96, 192])
def test_two_ctas_of_one_row_fit_an_sm(features: int) -> None:
    text = f"x, y = torch.randn(1, 2, 1, {features}), torch.randn(1, 2, 513, {features})"
    module = read_expression(f"{text}; F.scaled_dot_product_attention(x, y, y, is_causal=True)").module
    lower(module, new_context(), Level.KERNEL, target="h200")
