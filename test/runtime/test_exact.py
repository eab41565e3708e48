"""Inputs on which all is exact, and what every right kernel gives on them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from deplodock.frontend.arrays import to_array  # noqa: E402
from deplodock.frontend.expression import read_expression  # noqa: E402
from deplodock.interpreters.simulate import simulate  # noqa: E402
from deplodock.passes.driver import Level, lower, new_context  # noqa: E402
from deplodock.runtime.exact import exact_inputs, exact_results  # noqa: E402

HALF = "t = torch.bfloat16; "


@pytest.mark.parametrize("level", [Level.TENSOR, Level.LOOP])
@pytest.mark.parametrize(
    "expression",
    [
        "torch.randn(40, 300) @ torch.randn(300, 24)",
        HALF + "torch.randn(40, 300, dtype=t) @ torch.randn(300, 24, dtype=t)",
        HALF + "(torch.randn(16, 64, dtype=t) @ torch.randn(64, 24, dtype=t)) @ torch.randn(24, 16, dtype=t)",
        "F.relu(F.linear(torch.randn(8, 64), torch.randn(24, 64), torch.randn(24))).sqrt() / 3",
        "torch.randn(9, 100).cumsum(1)",
        "torch.randn(9, 100).amax(1)",
        "x = torch.randn(9, 100); (x.amin(0), x > 1)",
    ],
)
def test_what_every_right_kernel_gives(expression: str, level: Level) -> None:
    program = read_expression(expression)
    inputs = exact_inputs([to_array(value) for value in program.inputs], 0)
    assert all(np.isin(value.astype(np.float32), (-2, -1, 0, 1, 2)).all() for value in inputs)
    lower(program.module, new_context(), level)
    wanted = exact_results(program.module, inputs)
    assert not isinstance(wanted, str)
    lower(program.module, new_context(), Level.KERNEL)
    for got, right in zip(simulate(program.module, inputs, counts=False).outputs, wanted, strict=True):
        assert got.dtype == right.dtype
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("torch.randn(9, 100).exp()", "math.exp rounds there, in each library in its own way"),
        ("F.softmax(torch.randn(9, 100), 1)", "math.exp rounds there, in each library in its own way"),
        ("(torch.randn(9, 100) / 3).sum(1)", "its reductions may depend on their order"),
        ("(torch.randn(9, 100) * 2000000).sum(1)", "its reductions may depend on their order"),
        ("torch.randint(0, 9, (5, 5)) + 1", "they are none of floats"),
    ],
)
def test_what_rounds_in_several_ways_is_named(expression: str, reason: str) -> None:
    program = read_expression(expression)
    lower(program.module, new_context(), Level.TENSOR)
    assert exact_results(program.module, exact_inputs([to_array(value) for value in program.inputs], 0)) == reason
