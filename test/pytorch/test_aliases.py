"""Results of the backend are eager's in all that a caller sees: elements, strides, offsets, shared memory, gradients.

Each program runs in PyTorch and through the backend; then each result is written into, and all are compared again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from like_eager import Make, check_like_eager, ramp
from torch import nn
from torch.nn import functional as F

Tensor = torch.Tensor

pytestmark = pytest.mark.filterwarnings("ignore:deplodock leaves", "ignore:An output with one or more elements")


def write_views(x: Tensor) -> tuple[Tensor, ...]:
    x[0].add_(5)
    x.t()[1].mul_(3)
    return x.sum(0), x.view(-1)


def write_intermediates(x: Tensor) -> tuple[Tensor, ...]:
    y = x.sin()
    view = y[1:]
    view.add_(1)
    y.mul_(2)
    return y, view


def write_and_return(x: Tensor) -> Tensor:
    return x.mul_(2)


def write_first(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y * 2


def write_detached(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    z = y.detach()
    z.add_(1)
    y.data.mul_(3)
    return y, z


def strided_after_a_break(x: Tensor) -> Tensor:
    y = (x * 2).t()
    torch._dynamo.graph_break()
    return torch.as_strided(y, (6,), (1,))


def view_written_after_a_break(x: Tensor) -> tuple[Tensor, ...]:
    y = x.sin()
    view, other = y[1:], x[1:]
    torch._dynamo.graph_break()
    view.zero_()
    other.add_(1)
    return y, view, y + x, other


def layout_after_a_break(x: Tensor) -> tuple[Any, ...]:
    y = (x * 2).t()
    torch._dynamo.graph_break()
    return y.is_contiguous(), y.stride(), y + 1


def without_gradient(x: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        y = x * 2
    return x + y, y, y.view(-1), x.argmax()


def hooked(x: Tensor) -> Tensor:
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 3)
    return y * 2


class Scaled(torch.autograd.Function):
    """The sine with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 5


def plain() -> tuple[Tensor, ...]:
    return (ramp(2, 3),)


def square() -> tuple[Tensor, ...]:
    return (ramp(4, 4),)


def channels_last() -> tuple[Tensor, ...]:
    return (ramp(2, 3, 4, 5).to(memory_format=torch.channels_last),)


def with_gradient() -> tuple[Tensor, ...]:
    return (ramp(2, 3, gradient=True),)


def overlapping() -> tuple[Tensor, ...]:
    memory = ramp(12)
    return memory[:8].view(2, 4), memory[4:].view(2, 4)


convolution = nn.Conv2d(3, 4, 2).requires_grad_(False)

PROGRAMS: dict[str, tuple[Callable[..., Any], Make]] = {
    "a view of an input": (lambda x: (x.sin(), x[1:], x.view(-1), x.detach()), plain),
    "an input": (lambda x: (x, x * 2, x), plain),
    "one result twice": (lambda x: [x * 2] * 2, plain),
    "equal results": (lambda x: (x.sin(), x.sin(), torch.ones(2), torch.ones(2)), plain),
    "copies": (lambda x: (x.clone(), x.contiguous(), x + 0, x.to(torch.float32)), plain),
    "views of a result": (lambda x: (lambda y: (y, y.view(-1), y[1:], y.t()))(x.sin()), plain),
    "views of what is no result": (lambda x: (lambda y: (y.view(-1), y[1:]))(x.sin()), plain),
    "views of views": (lambda x: (lambda y: (y.t()[1:].unsqueeze(0), y))(x.cos()), square),
    "several views": (lambda x: (*(x * 2).split(2), *(x + 1).unbind(0), *x.chunk(2, 1)), square),
    "strides of zero": (lambda x: ((x * 2).expand(3, 2, 3), x.expand(2, 2, 3)), plain),
    "overlapping windows": (lambda x: (x.unfold(0, 3, 1), (x * 2).unfold(0, 3, 1)), lambda: (ramp(6),)),
    "diagonals": (lambda x: ((x * 2).diagonal(), x.diagonal()), square),
    "other bits": (lambda x: (x.view(torch.int32), (x * 2).view(torch.int32)), plain),
    "channels last": (lambda x: (x * 2, x.relu(), x), channels_last),
    "a convolution of channels last": (lambda x: convolution(x).relu(), channels_last),
    "pools of channels last": (lambda x: (F.max_pool2d(x, 2), x.mean((2, 3), keepdim=True)), channels_last),
    "a permuted result": (lambda x: (x.permute(2, 0, 1) + 1, (x + 1).permute(2, 0, 1)), lambda: (ramp(2, 3, 4),)),
    "a product of a transposed input": (lambda x: (x + 1, x @ x.t(), x.t()), lambda: (ramp(4, 3).t(),)),
    "an input with gaps": (lambda x: (x * 2, x.reshape(-1), x * x.stride(0)), lambda: (ramp(4, 6)[:, ::2],)),
    "an expanded input": (lambda x: (x + 1, x.sum(0), x), lambda: (ramp(1, 3).expand(4, 3),)),
    "an input behind others": (lambda x: (x + 1, x[1:], x.storage_offset()), lambda: (ramp(5, 3)[1:],)),
    "no elements": (lambda x: (x * 2, x.t(), x[:, :0], x.sum(0)), lambda: (ramp(0, 3),)),
    "no dimensions": (lambda x: (x * 2, x.view(1), x), lambda: (torch.tensor(2.0),)),
    "writes into views": (write_views, square),
    "writes into intermediates": (write_intermediates, plain),
    "a write that is returned": (write_and_return, plain),
    "writes where memory overlaps": (write_first, overlapping),
    "writes beside": (write_first, lambda: tuple(ramp(2, 3))),
    "writes into detached tensors": (write_detached, plain),
    "as_strided after a graph break": (strided_after_a_break, plain),
    "writes after a graph break": (view_written_after_a_break, plain),
    "the layout after a graph break": (layout_after_a_break, plain),
    "vmap": (lambda x: torch.vmap(lambda row: F.linear(row.sin(), torch.ones(3, 3)).sum())(x), plain),
    "grad": (lambda x: torch.func.grad(lambda v: F.linear(v.sin(), torch.ones(3, 3)).sum())(x), plain),
    "a decomposed operation between views": (lambda x: F.elu(x.t()).t(), square),
    "what PyTorch computes between": (lambda x: (lambda v: (v[0].t(), v[1], v[0] * 2))((x * 2).topk(2)), square),
    "views with gradients": (lambda x: (x.sin(), x.view(-1), (x * 2).t(), x.detach()), with_gradient),
    "views of a result with gradients": (lambda x: (lambda y: (y, y.view(-1), y.detach()))(x.sin()), with_gradient),
    "writes with gradients": (write_intermediates, with_gradient),
    "results without gradients": (without_gradient, with_gradient),
    "a softmax with gradients": (lambda x: F.linear(x, torch.ones(3, 3)).softmax(-1), with_gradient),
    "a gradient of its own": (lambda x: Scaled.apply(x) * 2, with_gradient),
    "a hook": (hooked, with_gradient),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_pytorch(name: str) -> None:
    check_like_eager(*PROGRAMS[name])
