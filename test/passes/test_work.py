"""How much work it is to compile some programs, in calls of functions: what is recorded, but for a few percent."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from deplodock.codegen.cuda import print_module
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context

CALLS = {
    "torch.nn.RMSNorm(2048)(torch.randn(1, 32, 2048))": 284_900,
    "t = torch.bfloat16; F.linear(torch.randn(512, 3584, dtype=t), torch.randn(3584, 3584, dtype=t))": 1_007_100,
    "x = torch.randn(1, 8, 128, 64); F.scaled_dot_product_attention(x, x, x)": 1_011_900,
}
"""The calls from the torch level to CUDA text, of Python 3.11. A change that does more or less work records its own."""


@pytest.mark.parametrize("text", CALLS)
def test_work_is_what_is_recorded(text: str, count_calls: Callable[[Callable[[], object]], int]) -> None:
    context, module = new_context(), read_expression(text).module

    def compile() -> str:
        program = module.clone()
        lower(program, context, Level.KERNEL)
        return print_module(program)

    compile()
    calls, recorded = count_calls(compile), CALLS[text]
    assert calls <= 1.05 * recorded, f"{calls} calls, {recorded} are recorded"
    if sys.version_info[:2] == (3, 11):
        assert calls >= 0.9 * recorded, f"{calls} calls, {recorded} are recorded: record them"
