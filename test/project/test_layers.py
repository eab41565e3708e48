"""Models of many equal layers: each kernel exists once, and the work grows no faster than the layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp

from deplodock.frontend.capture import export
from deplodock.passes.driver import Level, lower, new_context


class Block(nn.Module):
    """A gated layer with a norm and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(16)
        self.first = nn.Linear(16, 24)
        self.second = nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(self.norm(x))))


def stack(layers: int) -> ModuleOp:
    """A captured model of this many layers, with one layer's weights in each."""
    return export(nn.Sequential(*(Block() for _ in range(layers))), (torch.ones(4, 16),)).module


def test_layers_share_kernels_and_work_is_linear(count_calls: Callable[[Callable[[], object]], int]) -> None:
    context = new_context()
    few, many = stack(6), stack(12)
    lower(stack(1), context, Level.LOOP)
    work = count_calls(lambda: lower(few, context, Level.LOOP))
    assert count_calls(lambda: lower(many, context, Level.LOOP)) < 2.1 * work
    assert len(list(few.ops)) == len(list(many.ops))
    assert len(calls(many)) == 2 * len(calls(few))


def calls(module: ModuleOp) -> list[CallOp]:
    """The calls of kernels."""
    return [op for op in module.walk() if isinstance(op, CallOp)]
