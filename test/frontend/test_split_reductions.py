"""Reductions in two steps: what they compute, and when they are worth a launch more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import ATTRIBUTE, target
from deplodock.dialects.tensor import ReduceOp
from deplodock.frontend.capture import export
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.tensor.split_reductions import SplitReductionsPass
from deplodock.passes.torch.decompose import DecomposePass

Tensor = torch.Tensor


def with_nan(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`function` of what it is given, with NaN where that is largest."""
    return lambda x: function(torch.where(x == x.amax(), float("nan"), x))


FOLDS: dict[str, Callable[[Tensor, Any], Any]] = {
    "sum": lambda x, dims: x.sum(dims),
    "sum of products": lambda x, dims: (x * x.flip(0) * 2).sum(dims, keepdim=True),
    "mean": lambda x, dims: x.mean(dims),
    "amax": lambda x, dims: x.amax(dims),
    "amin of NaN": lambda x, dims: with_nan(lambda y: y.amin(dims))(x),
    "prod": lambda x, dims: x.clamp(0.9, 1.1).prod(dims[-1]),
    "any": lambda x, dims: (x > 2).any(dims[0]),
    "all": lambda x, dims: (x > -2).all(dims[-1]),
    "var": lambda x, dims: x.var(dims, unbiased=False),
    "argmax": lambda x, dims: x.argmax(dims[0]),
    "argmin": lambda x, dims: x.round().argmin(),
    "integers": lambda x, dims: (x * 9).to(torch.int32).sum(dims),
    "two": lambda x, dims: x.amax(dims) + x.sum(dims),
}


def with_target(module: ModuleOp) -> ModuleOp:
    module.attributes[ATTRIBUTE] = target("h200")
    return module


@pytest.mark.parametrize(
    ("shape", "dims", "parts"),
    [((31,), (0,), 4), ((13, 16), (0, 1), 3), ((5, 1, 33), (2,), 8), ((17, 4, 6), (0, 2), 5), ((3, 7, 11), (1, 2), 2)],
)
def test_same_values_in_two_steps(shape: tuple[int, ...], dims: tuple[int, ...], parts: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    program = export(lambda x: [fold(x, dims) for fold in FOLDS.values()], (x,))
    DecomposePass().apply(Context(), program.module)
    whole = sum(isinstance(op, ReduceOp) for op in program.module.walk())
    SplitReductionsPass(parts=parts).apply(Context(), with_target(program.module))
    program.module.verify()
    assert sum(isinstance(op, ReduceOp) for op in program.module.walk()) > whole
    for name, got, wanted in zip(FOLDS, evaluate(program.module, [x.numpy()]), program.reference(), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_number_of_parts_that_is_none() -> None:
    with pytest.raises(ValueError, match="parts must be an integer above 1, got 1"):
        SplitReductionsPass(parts=1)


@pytest.mark.parametrize(
    ("program", "kernels"),
    [(lambda x: x.sum(), 2), (lambda x: x.view(347, 347).amax(), 2), (lambda x: (x - x.mean()).abs().max(), 4)],
)
def test_two_kernels_on_the_simulator(
    check_levels: Callable[..., int], program: Callable[..., Any], kernels: int
) -> None:
    assert check_levels(program, (torch.randn(347 * 347),)) == kernels
