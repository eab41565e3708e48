"""What rounds on the way to the results of a program."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from deplodock.analysis.shape.roundings import TF32_ROUNDOFF, Roundings, roundings  # noqa: E402
from deplodock.dialects.torch import set_precision  # noqa: E402
from deplodock.frontend.expression import read_expression  # noqa: E402
from deplodock.passes.driver import Level, lower, new_context  # noqa: E402

X, W = "x = torch.randn(8, 64, dtype=t)", "w = torch.randn(64, 8, dtype=t)"
HALF, FULL = f"t = torch.bfloat16; {X}; {W}; ", f"t = torch.float32; {X}; {W}; "
BF16, F16 = 2.0**-8, 2.0**-11


@pytest.mark.parametrize("level", [Level.TENSOR, Level.LOOP])
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(HALF + "x @ w", Roundings(64, BF16, 0.0, 1.0), id="a product of bf16"),
        pytest.param(
            HALF + "(x @ w + 1) * 2", Roundings(64, BF16 * math.sqrt(3), 0.0, math.sqrt(3)), id="three roundings"
        ),
        pytest.param(
            HALF + "(x @ w).float() @ w.float().T", Roundings(72, BF16, 0.0, math.sqrt(2)), id="narrow between"
        ),
        pytest.param(FULL + "x @ w", Roundings(64, 0.0, 0.0, 1.0), id="a product of f32"),
        pytest.param(FULL + "x.exp() * 2", Roundings(1, 0.0, 0.0, math.sqrt(17)), id="a function"),
        pytest.param(FULL + "x.exp().exp().exp().exp().exp()", Roundings(1, 0.0, 0.0, 8.0), id="many"),
        pytest.param(FULL + "x.half() + x.half()", Roundings(1, F16 * math.sqrt(2), 0.0, 1.0), id="f16"),
        pytest.param(FULL + "x.relu().T", Roundings(1, 0.0, 0.0, 1.0), id="none"),
        pytest.param(HALF + "torch.cat([x, x + 1])", Roundings(1, BF16, 0.0, 1.0), id="side by side"),
    ],
)
def test_what_rounds_on_the_way(expression: str, expected: Roundings, level: Level) -> None:
    module = read_expression(expression).module
    lower(module, new_context(), level)
    found = roundings(module)
    assert (found.sums, found.factors) == (expected.sums, expected.factors)
    assert found.narrow == pytest.approx(expected.narrow)
    assert found.others == pytest.approx(expected.others)


@pytest.mark.parametrize("level", [Level.TENSOR, Level.LOOP, Level.TILE])
def test_factors_of_tf32(level: Level) -> None:
    """Those of one product behind the other add up; at tile level tensor cores do so, too, as one."""
    module = read_expression(FULL + "x @ w @ torch.randn(8, 16)").module
    set_precision(module, "medium")
    lower(module, new_context(), level)
    products = roundings(module).factors / TF32_ROUNDOFF
    assert products == 2 if level is not Level.TILE else products >= 1


def test_a_type_narrower_than_fp32_is_rounded_to_once_at_least() -> None:
    assert Roundings(1, 0.0, 0.0, 1.0).bar(2.0**-7) == 1.5 * BF16 + 2 * 2.0**-24
    assert Roundings(1, 0.0, 0.0, 1.0).bar(2.0**-23) == 2 * 2.0**-24
    assert Roundings(1, 0.0, 0.0, 1.0).bar(2.0**-52) == 2 * 2.0**-52
