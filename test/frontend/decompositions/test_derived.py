"""Gradients of convolutions and pools in operations of the torch dialect."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
aten = torch.ops.aten


def numbers(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


CONVOLUTIONS = {
    # Shapes of the input and the weight; strides, paddings, dilations; transposed, output padding, groups.
    "plain": ((2, 3, 7), (4, 3, 3), [1], [0], [1], False, [0], 1),
    "a stride that leaves a rest": ((2, 4, 7, 8), (6, 4, 3, 3), [2, 3], [1, 0], [1, 1], False, [0, 0], 1),
    "groups and dilation": ((2, 4, 9, 8), (6, 2, 3, 2), [2, 1], [1, 2], [2, 3], False, [0, 0], 2),
    "transposed": ((2, 4, 5, 4), (4, 3, 3, 2), [2, 3], [1, 0], [1, 2], True, [1, 2], 2),
    "three dimensions": ((1, 2, 4, 3, 5), (2, 2, 2, 1, 3), [1, 1, 2], [0, 1, 1], [1, 1, 1], False, [0, 0, 0], 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    shape, sizes, *form = CONVOLUTIONS[name]
    x, weight = numbers(*shape), numbers(*sizes)
    grad = torch.randn_like(torch.convolution(x, weight, None, *form))
    channels = [grad.shape[1]]
    got = check_with_torch(
        lambda g, x, w: aten.convolution_backward(g, x, w, channels, *form, [True] * 3), grad, x, weight
    )
    assert "convolution" in got


@pytest.mark.parametrize("mask", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradients_that_are_not_wanted(mask: tuple[bool, ...], check_with_torch: Callable[..., set[str]]) -> None:
    x, weight = numbers(2, 3, 7), numbers(4, 3, 3)
    form = [1], [0], [1], False, [0], 1

    def program(grad: Any, x: Any, weight: Any) -> Any:
        gradients = aten.convolution_backward(grad, x, weight, [4], *form, list(mask))
        return [value for value, wanted in zip(gradients, mask, strict=True) if wanted]

    check_with_torch(program, numbers(2, 4, 5), x, weight)


MAX_POOLS = {
    # Shape; kernel, strides, paddings, dilations.
    "apart": ((2, 3, 6, 6), [2], [], [0], [1]),
    "overlapping": ((1, 2, 7, 8), [3, 2], [2, 1], [1, 0], [1, 1]),
    "dilated": ((2, 8, 9), [2, 3], [3, 1], [0, 1], [2, 3]),
}


@pytest.mark.parametrize(("name", "ceil"), list(itertools.product(MAX_POOLS, (False, True))))
def test_max_pools(name: str, ceil: bool, check_with_torch: Callable[..., set[str]]) -> None:
    shape, *form = MAX_POOLS[name]
    x = numbers(*shape)
    values, indices = aten.max_pool2d_with_indices(x, *form, ceil)
    run = lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, *form, ceil, i)  # noqa: E731
    check_with_torch(run, torch.randn_like(values), x, indices)


def test_pools_of_three_dimensions(check_with_torch: Callable[..., set[str]]) -> None:
    x, form = numbers(1, 2, 5, 4, 5), ([2], [1], [1], [1], False)
    values, indices = aten.max_pool3d_with_indices(x, *form)
    grad = torch.randn_like(values)
    check_with_torch(lambda g, x, i: aten.max_pool3d_with_indices_backward(g, x, *form, i), grad, x, indices)
    form = ([2], [2], [1], True, False, None)
    grad = torch.randn_like(aten.avg_pool3d(x, *form))
    check_with_torch(lambda g, x: aten.avg_pool3d_backward(g, x, *form), grad, x)


@pytest.mark.parametrize(
    ("ceil", "with_padding", "divisor"), list(itertools.product((False, True), (False, True), (None, 5)))
)
def test_average_pools(
    ceil: bool, with_padding: bool, divisor: int | None, check_with_torch: Callable[..., set[str]]
) -> None:
    x, form = numbers(2, 3, 7, 8), ([3, 2], [2, 3], [1, 0], ceil, with_padding, divisor)
    grad = torch.randn_like(aten.avg_pool2d(x, *form))
    check_with_torch(lambda g, x: aten.avg_pool2d_backward(g, x, *form), grad, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype: Any, check_with_torch: Callable[..., set[str]]) -> None:
    x = numbers(1, 2, 6, 6).to(dtype)
    values, indices = aten.max_pool2d_with_indices(x, [3], [1], [1])
    run = lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, [3], [1], [1], [1], False, i)  # noqa: E731
    check_with_torch(run, torch.randn_like(values), x, indices, units=1)
    grad = torch.randn_like(aten.avg_pool2d(x, [3], [1]))
    check_with_torch(lambda g, x: aten.avg_pool2d_backward(g, x, [3], [1], [0], False, True, None), grad, x, units=1)
