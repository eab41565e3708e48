"""What candidates are held to: the kernel in float64, the bar on a GPU, and the bytes that a kernel must move."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.host.arguments import entry_function
from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.dialects.precision import coarsest_precision
from deplodock.dialects.torch import set_precision
from deplodock.errors import UnsupportedError
from deplodock.frontend.expression import read_expression
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import evaluate, input_types
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.tune.checking import wrong
from deplodock.tune.compiling import beginning
from deplodock.tune.floor import moved_bytes
from deplodock.tune.task import module_of, tasks
from deplodock.tune.widened import rounds_inside, widen

HALF = "t = torch.bfloat16; "


def kernel(expression: str) -> ModuleOp:
    """The one kernel of a program, at loop level."""
    module = read_expression(expression).module
    lower(module, new_context(), Level.LOOP, target="h200")
    (task,) = tasks(module)
    return module_of(task)[0]


@pytest.mark.parametrize(
    "expression",
    [
        HALF + "F.linear(torch.randn(8, 64, dtype=t), torch.randn(32, 64, dtype=t)).relu()",
        HALF + "q, k = torch.randn(1, 4, 17, 16, dtype=t), torch.randn(1, 2, 17, 16, dtype=t); "
        "F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)",
        "F.embedding(torch.randint(0, 9, (7,)), torch.randn(9, 5))",
        "(torch.randn(5, 5) > 0).float().argmax(1)",
    ],
)
def test_a_kernel_in_float64_gives_what_its_loops_mean(expression: str) -> None:
    module = kernel(expression)
    inputs = draw_inputs(input_types(entry_function(module)), 0, "normal", lowest=0)
    expected = evaluate(module, inputs, precision="float64", contracts=True)
    widen(module)
    lower(module, new_context(), Level.KERNEL)
    doubled = [value.astype(np.float64) if value.dtype.kind in "fV" else value for value in inputs]
    for got, right in zip(simulate(module, doubled).outputs, expected, strict=True):
        assert got.dtype == right.dtype
        np.testing.assert_allclose(got, right, 1e-12, 1e-12)


def test_products_are_exact_in_float64() -> None:
    module = read_expression("torch.randn(16, 32) @ torch.randn(32, 16)").module
    set_precision(module, "medium")
    lower(module, new_context(), Level.LOOP, target="h200")
    assert coarsest_precision(module) == "medium"
    widen(module)
    assert coarsest_precision(module) == "highest"
    lower(module, new_context(), Level.KERNEL)


def test_the_bar_has_the_coarsest_rounding_inside_of_a_kernel() -> None:
    """Though its results are of f32: float64 makes no rounding to bf16 between two operations."""
    module = read_expression(HALF + "x = torch.randn(8, 64); ((x + 1).to(t).float() * x).sum(1)").module
    lower(module, new_context(), Level.LOOP, target="h200")
    (task,) = tasks(module)
    assert beginning(task).rounded == Roundings(64, 2.0**-8, others=math.sqrt(2))


def test_a_kernel_that_rounds_inside_has_the_error_of_its_roundings() -> None:
    """A rounding counts as much as what follows makes of it; the kernel in float64 that rounds alike says how much."""
    module = kernel(HALF + "x = torch.randn(64, 64, dtype=t); (x * 9.1).exp() / 2")
    (given,) = inputs = draw_inputs(input_types(entry_function(module)), 0, "normal", lowest=0)
    assert rounds_inside(module)
    assert not rounds_inside(kernel(HALF + "torch.randn(64, 64, dtype=t) @ torch.randn(64, 64, dtype=t)"))
    rounded, results = roundings(module), list[torch.Tensor]()
    for options in (None, {}, {"rounds": True}):
        own = module.clone()
        if options is not None:
            widen(own, **options)
        lower(own, new_context(), Level.KERNEL)
        (got,) = simulate(own, inputs if options is None else [given.astype(np.float64)]).outputs
        results.append(torch.from_numpy(got.astype(np.float64)))
    got = results[0].to(torch.bfloat16)
    assert wrong(got, results[1], rounded)
    assert not wrong(got, results[1], rounded, results[2])
    assert wrong(got * 1.2, results[1], rounded, results[2])


def test_bits_of_floats_have_no_float64() -> None:
    module = kernel("torch.randn(9).view(torch.int32) + 1")
    with pytest.raises(UnsupportedError, match=r"arith\.bitcast depends on the bits of its floats"):
        widen(module)


def test_the_bar_is_that_of_all_results() -> None:
    reference = torch.linspace(-3.0, 3.0, 1000, dtype=torch.float64)
    reference[3], reference[4] = torch.nan, torch.inf
    right = reference.to(torch.bfloat16)
    assert not wrong(right, reference, Roundings(64))
    moved = right.clone()
    moved[5] += 4.0
    assert wrong(moved, reference, Roundings(64)).startswith("element [5] is 1.")
    for place, value in ((3, 0.0), (4, torch.nan), (9, torch.inf)):
        other = right.clone()
        other[place] = value
        assert wrong(other, reference, Roundings(64)).startswith(f"element [{place}] is ")
    assert not wrong((reference * (1 + 2.0**-9)).to(torch.bfloat16), reference, Roundings(64))
    assert "error 2.00e-01" in wrong(right * 1.2, reference, Roundings(64))
    near = reference.float() * (1 + 2.0**-12)
    assert wrong(near, reference, Roundings(64))
    assert not wrong(near, reference, Roundings(64, factors=2.0**-11))
    counts = torch.arange(5)
    assert not wrong(counts, counts.clone(), Roundings())
    reason = wrong(counts + 1, counts, Roundings())
    assert reason.startswith("element [0] is 1, should be 0; error 1.00e+00 (bar 0.00e+00)")


@pytest.mark.parametrize(
    ("expression", "elements"),
    [
        ("F.linear(torch.randn(8, 64), torch.randn(32, 64))", 8 * 64 + 32 * 64 + 8 * 32),
        ("torch.randn(64, 64)[:8] * 2", 8 * 64 + 8 * 64),
        ("F.embedding(torch.randint(0, 900, (7,), dtype=torch.int32), torch.randn(900, 5))", 7 + 5 + 7 * 5),
        ("F.conv2d(torch.randn(2, 8, 9, 9), torch.randn(16, 8, 3, 3))", 2 * 8 * 81 + 16 * 72 + 2 * 16 * 49),
    ],
)
def test_a_kernel_moves_what_it_reads_and_writes(expression: str, elements: int) -> None:
    assert moved_bytes(kernel(expression)) == 4 * elements
