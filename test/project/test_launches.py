"""How many launches a decoder layer takes by the default schedules."""

from __future__ import annotations

import pytest

from deplodock.dialects import kernel
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, new_context
from deplodock.runtime.lowering import lower_once
from deplodock.tools.bench.rows import read_rows

MOST = 12
"""Two norms, the products of q, k, v and o, two rotations, attention, gate and up with what joins them, and down are
11."""


@pytest.mark.parametrize("model", ["tinyllama", "qwen2_5_7b"])
def test_a_layer_of_few_tokens_takes_few_launches(model: str) -> None:
    """Parts of k are added in the launch that makes them, and attention is one kernel."""
    (row,) = [row for row in read_rows() if row.name == f"{model}/bf16/layer/128"]
    module = read_expression(row.text).module.clone()
    lower_once(module, new_context(), Level.KERNEL, target="h200")
    assert sum(isinstance(op, kernel.LaunchOp) for op in module.walk()) <= MOST
