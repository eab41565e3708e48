"""Variances in parts: what they compute, how exactly, and when they are worth their launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from xdsl.context import Context

from deplodock.analysis.machine.targets import ATTRIBUTE, target
from deplodock.dialects.tensor import ReduceOp
from deplodock.frontend.capture import export
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.tensor.split_variances import SplitVariancesPass
from deplodock.passes.torch.decompose import DecomposePass

Tensor = torch.Tensor

VARIANCES: dict[str, Callable[[Tensor], Any]] = {
    "all": lambda x: x.var(),
    "last": lambda x: x.std(-1),
    "first": lambda x: x.var(0, unbiased=False, keepdim=True),
    "around": lambda x: torch.var_mean(x, (0, 2, 3))[0],
    "inside": lambda x: x.var((1, 2)),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "group norm": lambda x: F.group_norm(x, 3),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "half": lambda x: x.half().var((0, 2, 3)),
}


def in_parts(program: Callable[..., Any], x: Tensor, length: int | None) -> tuple[list[Any], list[Tensor], int]:
    """The results in parts, those in float64, and how many reductions more there are than without parts."""
    captured = export(program, (x,))
    DecomposePass().apply(Context(), captured.module)
    captured.module.attributes[ATTRIBUTE] = target("h200")
    before = sum(isinstance(op, ReduceOp) for op in captured.module.walk())
    SplitVariancesPass(length=length).apply(Context(), captured.module)
    captured.module.verify()
    after = sum(isinstance(op, ReduceOp) for op in captured.module.walk())
    return list(evaluate(captured.module, [x.numpy()])), list(captured.reference()), after - before


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize(("shape", "length"), [((3, 6, 5, 7), 4), ((2, 3, 1, 31), 8), ((13, 3, 4, 4), 16)])
def test_same_values_in_parts(name: str, shape: tuple[int, ...], length: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3 + 5
    got, wanted, _ = in_parts(VARIANCES[name], x, length)
    tolerance = 1e-3 if name == "half" else 2e-5
    np.testing.assert_allclose(got[0], wanted[0].numpy(), rtol=tolerance, atol=tolerance)


def test_a_large_mean_costs_few_digits() -> None:
    x = torch.randn(16, 4, 1000, generator=torch.Generator().manual_seed(2)) + 4096
    x[3] += 8
    (got,), (wanted,), more = in_parts(lambda x: x.var((0, 2)), x, 128)
    assert more > 0
    np.testing.assert_allclose(got, wanted.numpy(), rtol=2**-23 * 4096 / 4)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e30])
def test_special_values(value: float) -> None:
    x = torch.randn(4, 2, 32)
    x[1, 0, 7] = value
    (got,), _, more = in_parts(lambda x: x.var((0, 2)), x, 8)
    assert more > 0
    np.testing.assert_allclose(got, x.var((0, 2)).numpy(), rtol=2e-5)


def test_a_square_that_the_program_writes_is_left_as_it_is() -> None:
    _, _, more = in_parts(lambda x: ((x - x.mean(1, keepdim=True)) ** 2).sum(1), torch.randn(4, 64), 8)
    assert more == 0


@pytest.mark.parametrize(
    ("program", "shape", "kernels"),
    [
        (lambda x: F.batch_norm(x, None, None, training=True), (5, 2, 123, 127), 3),
        (lambda x: F.layer_norm(x, x.shape[1:]), (2, 200003), 3),
        (lambda x: F.batch_norm(x, None, None, training=True), (30011, 3), 3),
        (lambda x: F.layer_norm(x, x.shape[1:]), (64, 1000), 1),
    ],
)
def test_kernels_on_the_simulator(
    check_levels: Callable[..., int], program: Callable[..., Any], shape: tuple[int, ...], kernels: int
) -> None:
    assert check_levels(program, (torch.randn(shape),)) == kernels
