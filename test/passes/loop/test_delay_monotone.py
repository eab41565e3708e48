"""Pools of functions that keep the order give what PyTorch gives, special values and both zeros included."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.driver import Level, lower, new_context

torch = pytest.importorskip("torch")

from deplodock.frontend.capture import export  # noqa: E402

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 88.0, -104.0, 1e-40)
FUNCTIONS = {
    "tanh": torch.tanh,
    "exp": torch.exp,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "scaled": lambda x: (x / 3 + 2).relu() * 0.25 - 1,
    "erf": torch.erf,
}


@pytest.mark.parametrize("extreme", [torch.amax, torch.amin], ids=["maximum", "minimum"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, extreme: Callable[..., Any]) -> None:
    """Nothing but reads is left in the loop, with and without special values in the rows."""
    values = torch.randn(64, 6, generator=torch.Generator().manual_seed(0)) * 2
    for row, value in enumerate(SPECIAL):
        values[row, row % 6] = value
        values[row + 8] = value
    function = FUNCTIONS[name]
    captured = export(lambda x: extreme(function(x), 1), (values,))
    lower(captured.module, new_context(), Level.LOOP)
    (body,) = re.findall(r"loop.reduce .* : f32 \{\n(.*?)loop.yield", str(captured.module), re.DOTALL)
    assert not re.search(r"arith|math", body)
    (got,) = evaluate(captured.module, [values.numpy()])
    np.testing.assert_allclose(got, extreme(function(values), 1).numpy(), rtol=1e-6, atol=1e-45)
