"""Decoder layers in half precision: right at a small size, with the tensor cores and the fusions of the large ones."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from deplodock.analysis.shape.nest import kernels  # noqa: E402
from deplodock.analysis.shape.roundings import roundings  # noqa: E402
from deplodock.analysis.shape.streaming import streams  # noqa: E402
from deplodock.dialects import kernel  # noqa: E402
from deplodock.dialects.loop import ReduceOp  # noqa: E402
from deplodock.dialects.tensor import KernelOp, element_of  # noqa: E402
from deplodock.frontend.arrays import to_array  # noqa: E402
from deplodock.frontend.expression import read_expression  # noqa: E402
from deplodock.interpreters.simulate import simulate  # noqa: E402
from deplodock.passes.driver import Level, lower, new_context  # noqa: E402
from deplodock.runtime.compare import compare  # noqa: E402
from deplodock.schedule.steps import ATTRIBUTE  # noqa: E402

TEXT = (
    "from deplodock.tools.bench.layers import layer_and_inputs; "
    "layer, x, cos, sin = layer_and_inputs({s}, {widths}, {bias}, torch.bfloat16); layer(x, cos, sin)"
)
TINYLLAMA = "2048, 5632, 256, 64"


@pytest.mark.parametrize(("s", "bias"), [(1, False), (24, True)])
def test_a_layer_is_as_exact_as_eager(s: int, bias: bool) -> None:
    """Gate and up are one kernel; products of more than a few rows are of tensor cores."""
    program = read_expression(TEXT.format(s=s, widths="64, 96, 32, 16", bias=bias))
    module = program.module
    lower(module, new_context(), Level.TENSOR)
    rounded = roundings(module)
    lower(module, new_context(), Level.KERNEL, target="sm_90")
    result = simulate(module, [to_array(value) for value in program.inputs])
    assert not result.findings, result.findings[0]
    (reference,), (eager,) = program.reference(), program.eager()
    verdict = compare(result.outputs[0], to_array(reference), to_array(eager), rounded)
    assert verdict.passed, verdict
    if s > 1:
        assert any(isinstance(op, kernel.MmaOp | kernel.WgmmaOp) for op in module.walk())


def test_what_is_stored_between_kernels_is_of_half_precision() -> None:
    """Scores, sums and rotated heads are rounded where they are computed, and stay on chip or are stored so."""
    module = read_expression(TEXT.format(s=128, widths=TINYLLAMA, bias=0)).module
    lower(module, new_context(), Level.TENSOR, target="sm_90")
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert len(kernels) <= 14
    assert {str(element_of(value)) for op in kernels for value in op.results} == {"bf16"}


def test_scores_are_not_computed_for_each_element_of_a_head() -> None:
    """Few rows, whose heads the kernel of the weighted sum would walk as parts of the hidden axis."""
    module = read_expression(TEXT.format(s=32, widths=TINYLLAMA, bias=0)).module
    lower(module, new_context(), Level.LOOP, target="h200")
    streamed = [op for op in kernels(module) if any(isinstance(each, ReduceOp) and streams(each) for each in op.walk())]
    lower(module, new_context(), Level.TILE, target="h200")
    assert all("stream-tile" in str(op.attributes[ATTRIBUTE]) for op in streamed)
