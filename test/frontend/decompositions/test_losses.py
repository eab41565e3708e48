"""Losses give eager's value and shape for inputs of every number of dimensions, and for every reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import deplodock
from deplodock.errors import CheckError
from deplodock.frontend.arrays import to_array
from deplodock.frontend.capture import export
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.driver import Level, lower, new_context

CONTEXT = new_context()
REDUCTIONS = ("none", "mean", "sum")
POINTWISE = (
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "kl_div"),
    *("soft_margin_loss", "hinge_embedding_loss", "poisson_nll_loss"),
)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


def check(program: Callable[..., Any], *args: torch.Tensor) -> None:
    captured = export(program, args)
    lower(captured.module, CONTEXT, Level.TENSOR)
    got = evaluate(captured.module, [to_array(value) for value in captured.inputs])
    wanted = program(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for ours, eager in zip(got, wanted, strict=True):
        assert ours.shape == tuple(eager.shape)
        torch.testing.assert_close(torch.tensor(ours), eager, equal_nan=True)


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
def test_pointwise_losses(shape: tuple[int, ...]) -> None:
    def program(x: Any, y: Any) -> Any:
        return tuple(getattr(F, name)(x, y, reduction=reduction) for name in POINTWISE for reduction in REDUCTIONS)

    check(program, randn(*shape), (1 - randn(*shape)).sign())


@pytest.mark.parametrize(
    ("shape", "targets"), [((), ()), ((1,), ()), ((5,), ()), ((5,), (1,)), ((3, 5), (3,)), ((1, 5), ()), ((1, 5), (1,))]
)
def test_multi_margin_loss(shape: tuple[int, ...], targets: tuple[int, ...]) -> None:
    classes = shape[-1] if shape else 1

    def program(x: Any, y: Any, w: Any) -> Any:
        loss = F.multi_margin_loss
        return tuple(
            value
            for reduction in REDUCTIONS
            for value in (
                *(loss(x, y, reduction=reduction), loss(x, y, p=2, reduction=reduction)),
                loss(x, y, weight=w, margin=0.5, reduction=reduction),
            )
        )

    y = torch.arange(3).flip(0)[: targets[0]] % classes if targets else torch.tensor(classes - 1)
    check(program, randn(*shape) * 2, y, randn(classes).abs())


@pytest.mark.parametrize(
    "target",
    [0, -1, [0], [-1], [2, 4, -1, 1, 1], [3, 3, 0, -1, 1], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [[1, 1, -1], [2, -1, 0]]],
)
def test_multilabel_margin_loss(target: Any) -> None:
    y = torch.tensor(target)
    x = randn(*y.shape)
    check(lambda x, y: tuple(F.multilabel_margin_loss(x, y, reduction=reduction) for reduction in REDUCTIONS), x, y)
    nan = torch.where(x == x.amax(), torch.nan, x)
    check(lambda x, y: F.multilabel_margin_loss(x, y), nan, y)


def test_classes_that_do_not_exist_are_refused_at_each_call() -> None:
    x, good = randn(3, 5), torch.tensor([0, 4, 2])
    run = deplodock.compile(lambda x, y: F.multi_margin_loss(x, y), (x, good))
    with pytest.raises(CheckError, match="an index is out of bounds for dimension 1 with size 5"):
        run(x, good + 1)
    labels = torch.tensor([0, 2, -1])
    several = deplodock.compile(lambda x, y: F.multilabel_margin_loss(x, y), (x[0, :3].clone(), labels))
    with pytest.raises(CheckError):
        several(x[0, :3].clone(), labels + 1)
