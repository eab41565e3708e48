"""Attention on the GPU for the product of types, masks, shared heads, lengths and head sizes, against float64."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from attention_product import PRODUCT, Compiled, compiled
from xdsl.parser import Parser

from deplodock.passes.driver import new_context
from deplodock.runtime.compare import compare
from deplodock.runtime.device import Executable, device_target

LONG = 32768
"""Keys of the longest rows."""

SPECIAL = {
    "equal large scores": "x = torch.full((1, 4, {rows}, 64), 30., dtype=t); y = x[:, :2, :1].expand(1, 2, {keys}, 64);"
    " F.scaled_dot_product_attention(x, y, torch.randn(1, 2, {keys}, 64, dtype=t), enable_gqa=True)",
    "hidden rows, infinities and NaN": "m = torch.zeros({rows}, {keys}, dtype=t); m[0] = -torch.inf;"
    " m[-1, 40] = torch.nan if {rows} > 2 else 0; m[{rows} // 2, 7:] = -torch.inf;"
    " F.scaled_dot_product_attention(torch.randn(1, 2, {rows}, 64, dtype=t), torch.randn(1, 2, {keys}, 64, dtype=t),"
    " torch.randn(1, 2, {keys}, 64, dtype=t), attn_mask=m)",
}
"""Programs of few values, for numbers of rows and keys."""


def _all(programs: list[tuple[str, str]]) -> Iterator[Compiled]:
    """Compile programs, as many at a time as there are cores."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(compiled, device_target()), programs, chunksize=4)


def _wrong(programs: list[tuple[str, str]]) -> list[str]:
    """The programs whose results are wrong, and how."""
    context, found = new_context(), list[str]()
    for one in _all(programs):
        executable = Executable(Parser(context, one.module, one.name).parse_module())
        for output, reference, eager in zip(executable.run(one.inputs), one.reference, one.eager, strict=True):
            verdict = compare(output, reference, eager, one.rounded)
            if not verdict.passed:
                found.append(f"{one.name}: {verdict}")
    return found


def test_product() -> None:
    assert not _wrong([(str(one), one.text) for one in PRODUCT])


@pytest.mark.parametrize("special", SPECIAL)
def test_special_scores(special: str) -> None:
    """Rows of equal large scores, of one query and of several, and rows that are hidden, infinite or NaN."""
    shapes = [(1, LONG), (5, 513), (70, 4096)]
    programs = [
        (f"{dtype}, {rows} x {keys}", f"t = torch.{dtype}; {SPECIAL[special].format(rows=rows, keys=keys)}")
        for dtype in ("float32", "bfloat16", "float16")
        for rows, keys in shapes
    ]
    assert not _wrong(programs)
