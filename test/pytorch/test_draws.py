"""Random numbers: what PyTorch draws without compilation, in the same order, in front of one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from deplodock.pytorch.draws import draw_in_front, is_in_front
from deplodock.pytorch.partition import PartsRunner

Tensor = torch.Tensor
_ATEN = torch.ops.aten


class Layer(nn.Module):
    """A layer of a transformer, which drops out in four places, one of them in its attention; and dropped paths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.25, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * x.new_empty(x.shape[0], 1, 1).bernoulli_(0.5) / 0.5


def drawn(x: Tensor) -> tuple[Tensor, ...]:
    """Calls of all kinds about which no data decides, one after the other."""
    y = F.dropout(x.cos() @ x, 0.3) @ x
    noisy = y + torch.randn_like(y).t() + torch.rand(6) * torch.randint_like(y, 2, 9)
    return (
        *(F.alpha_dropout(noisy, 0.4), F.dropout1d(noisy.view(2, 3, 6), 0.5), F.gumbel_softmax(noisy, dim=-1)),
        *(torch.empty_like(y).uniform_() * noisy, torch.normal(0.0, 2.0, (6,)) + y[torch.randperm(6)]),
        *(
            F.dropout(y.float(), 0.1),
            F.dropout((y * 2).expand(2, 6, 6), 0.2),
            F.dropout(noisy.t(), 0.9),
            F.dropout(y, 1.0),
            torch.rand(2) + x[0, :2],
        ),
    )


def data_decides(x: Tensor) -> tuple[Tensor, ...]:
    """A draw of the probabilities that the program computes, between others."""
    first = F.dropout(x.sin(), 0.3)
    middle = torch.bernoulli(first.sigmoid())
    return first, middle, F.dropout(x + middle, 0.5), torch.rand(3) + x[0, :3]


def check(program: Callable[[Tensor], Any], run: Callable[[Tensor], Any], x: Tensor) -> None:
    """The same results and gradients for the same seed, and the same numbers after them."""
    found: list[list[Tensor]] = []
    for function in (program, run):
        torch.manual_seed(1)
        results = function(x)
        results = [results] if isinstance(results, Tensor) else [*results]
        if x.requires_grad:
            results += torch.autograd.grad(torch.cat([value.double().flatten() for value in results]).sin().sum(), x)
        found.append([*results, torch.rand(2)])
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("error:deplodock leaves")
@pytest.mark.parametrize("learns", [False, True])
def test_draws_cut_no_program(runners: list[PartsRunner], learns: bool) -> None:
    # In float64, since gradients make errors of it larger.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 6, generator=generator, dtype=torch.float64).requires_grad_(learns)
    check(drawn, torch.compile(drawn, backend="deplodock"), x)
    assert [(len(runner.parts), runner.left) for runner in runners] == [(1, 0)] * (1 + learns)


@pytest.mark.filterwarnings("error:deplodock leaves")
def test_a_transformer_in_training_is_one_program(runners: list[PartsRunner]) -> None:
    torch.manual_seed(0)
    layer, x = Layer(), torch.randn(2, 3, 8, requires_grad=True)
    check(layer, torch.compile(layer, backend="deplodock"), x)
    assert [(len(runner.parts), runner.left) for runner in runners] == [(1, 0), (1, 0)]


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_what_data_decides_keeps_its_place(runners: list[PartsRunner]) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    check(data_decides, torch.compile(data_decides, backend="deplodock"), x)
    assert [list(runner.reasons) for runner in runners] == [["aten.bernoulli.default"]]


def test_many_shapes(runners: list[PartsRunner]) -> None:
    def program(x: Tensor) -> Tensor:
        return F.dropout(x.cos(), 0.3) + torch.rand_like(x)

    run = torch.compile(program, backend="deplodock", dynamic=True)
    for rows in (3, 5):
        check(program, run, torch.ones(rows, 4))
    assert [(len(runner.parts), runner.left) for runner in runners] == [(1, 0), (1, 0)]


def test_the_mask_is_that_of_a_tensor_which_lies_alike() -> None:
    """On a GPU it depends on type, strides and alignment; of what starts elsewhere only the tensor itself tells."""
    memory = torch.zeros(40, dtype=torch.float16)
    for start, is_replaced in ((0, True), (1, False), (8, True)):
        value = memory.as_strided((4, 3), (1, 5), start)
        graph = make_fx(lambda x: torch.native_dropout(x, 0.5, True), tracing_mode="fake")(value).graph
        draw_in_front(graph)
        (draw,) = graph.find_nodes(op="call_function", target=_ATEN.native_dropout.default)
        assert is_in_front(draw) == is_replaced
        if is_replaced:
            made = draw.args[0].meta["val"]
            assert (made.shape, made.stride(), made.dtype) == ((4, 3), (1, 5), torch.float16)
