"""Loads that run ahead of products, as ptxas compiles them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("torch")

from deplodock.codegen.cuda import print_module
from deplodock.frontend.expression import read_expression
from deplodock.frontend.precision import pytorch_at
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.nvcc import compile_cubin
from deplodock.test.shared.ptxas import SERIALISED


@pytest.mark.parametrize(
    ("precision", "program"),
    [
        pytest.param("high", "F.linear(torch.randn(512, 2048), torch.randn(256, 2048))", id="parts in turns"),
        pytest.param("high", "F.linear(torch.randn(32, 2048), torch.randn(256, 2048))", id="parts of one warpgroup"),
        pytest.param("medium", "torch.randn(2048, 512) @ torch.randn(512, 2048)", id="TF32 in turns"),
        pytest.param("medium", "torch.randn(512, 512) @ torch.randn(512, 256)", id="TF32 of one warpgroup"),
    ],
)
def test_products_beside_loads_are_not_serialised(
    precision: Literal["high", "medium"], program: str, nvcc: Path
) -> None:
    with pytorch_at(precision):
        captured = read_expression(program, seed=0)
    lower(captured.module, new_context(), Level.KERNEL, target="h200")
    text = print_module(captured.module)
    assert "_held(" in text
    assert "const int later = " in text
    assert SERIALISED not in compile_cubin(text, "sm_90a", nvcc=nvcc).log
