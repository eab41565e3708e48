"""Compiled functions and programs inside of what PyTorch traces, transforms, copies and pickles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx

import deplodock

Tensor = torch.Tensor


@deplodock.compile
def twice(x: Tensor) -> Tensor:
    return x * 2


@deplodock.compile
def power(x: Tensor, exponent: int = 3) -> Tensor:
    """Calls itself."""
    return x * power(x, exponent - 1) if exponent else torch.ones_like(x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_function_that_calls_itself(dynamic: bool) -> None:
    x = torch.randn(4)
    torch.testing.assert_close(power(x), x**3)
    outer = deplodock.compile(lambda x: twice(x) + power(x), dynamic=dynamic)
    torch.testing.assert_close(outer(x), x * 2 + x**3)


def test_torch_compile_of_what_calls_one() -> None:
    """The function is traced as if it were not compiled; a program is called, and not traced."""
    x, program = torch.randn(4), deplodock.compile(torch.sin, (torch.randn(4),))
    torch.compiler.reset()
    counters.clear()
    whole = torch.compile(lambda x: twice(x) + 1, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(x), x * 2 + 1)
    torch.testing.assert_close(torch.compile(lambda x: program(x + 1) + 1, backend="eager")(x), (x + 1).sin() + 1)
    assert counters["frames"]["total"] <= 6
    with pytest.raises(Exception, match=r"deplodock has compiled; torch\.compile takes the function"):
        torch.compile(lambda x: program(x) + 1, backend="eager", fullgraph=True)(x)


class Calls(nn.Module):
    """Calls what it is made of."""

    def __init__(self, inner: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


TRACES: list[Callable[[Any, Tensor], Any]] = [
    lambda inner, x: torch.export.export(Calls(inner), (x,)).module()(x),
    lambda inner, x: make_fx(Calls(inner))(x)(x),
    lambda inner, x: make_fx(Calls(inner), tracing_mode="fake")(x)(x),
    lambda inner, x: deplodock.compile(Calls(inner), (x,))(x),
    lambda inner, x: cast("Any", torch.jit.trace(Calls(inner), x))(x),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trace", TRACES, ids=["export", "make_fx", "fake", "deplodock", "jit"])
def test_what_is_traced(trace: Callable[[Any, Tensor], Any]) -> None:
    x = torch.randn(4)
    torch.testing.assert_close(trace(twice, x), x * 2 + 1)
    with pytest.raises(deplodock.UnsupportedError, match="compiled program is called in what is traced"):
        trace(deplodock.compile(torch.sin, (x,)), x)


def test_transforms_of_functions_are_refused() -> None:
    x = torch.randn(3, 4)
    for inner in (twice, deplodock.compile(torch.sin, (x,))):
        for transform in (torch.func.grad(lambda x, f=inner: f(x).sum()), torch.func.vmap(inner)):
            with pytest.raises(deplodock.UnsupportedError, match="called in a transform of functions"):
                transform(x)


def test_copies() -> None:
    """A deep copy reads a copy of the module; nothing is pickled."""
    model, x = nn.Linear(4, 3).requires_grad_(False), torch.randn(2, 4)
    wanted = model(x)
    for made in (deplodock.compile(model), deplodock.compile(model, (x,)), deplodock.compile(model, dynamic=True)):
        other = copy.deepcopy(made)
        model.weight += 1
        torch.testing.assert_close(other(x), wanted)
        torch.testing.assert_close(made(x), model(x))
        model.weight -= 1
        with pytest.raises(deplodock.UnsupportedError, match="cannot be pickled"):
            pickle.dumps(made)
