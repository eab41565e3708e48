"""Long recurrent layers that learn are left to PyTorch as they are, and what lies between them is compiled."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from deplodock.pytorch import pieces
from deplodock.pytorch.partition import PartsRunner

Tensor = torch.Tensor
MOST_CELLS = 40
STEPS = MOST_CELLS + 1


@pytest.fixture(autouse=True)
def recurrent(runners: list[PartsRunner]) -> Iterator[None]:
    """TorchDynamo takes recurrent layers into its graphs; few cells are long already."""
    with torch._dynamo.config.patch(allow_rnn=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MOST_CELLS", MOST_CELLS)
        yield


class Layers(nn.Module):
    """A recurrent layer between others, which draws random numbers in training if it drops out."""

    def __init__(self, kind: Callable[..., nn.Module], dropout: float = 0.0) -> None:
        super().__init__()
        self.recurrent = kind(4, 3, 2, batch_first=True, dropout=dropout)
        self.last = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.recurrent(torch.relu(x) * 2)[0][:, -1])


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """The result of a function through the backend, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        result = torch.compile(function, backend="deplodock")(*args)
    return result, [str(each.message) for each in caught if "deplodock" in str(each.message)]


@pytest.mark.parametrize(("kind", "dropout"), [(nn.LSTM, 0.5), (nn.GRU, 0.0)])
def test_results_and_gradients_are_those_of_eager(runners: list[PartsRunner], kind: Any, dropout: float) -> None:
    model, x = Layers(kind, dropout), torch.randn(2, STEPS, 4)
    twin = copy.deepcopy(model)
    result, told = compiled(model, x)
    name = kind.__name__.lower()
    assert told == [
        f"deplodock leaves to PyTorch: aten.{name}.input ({STEPS} steps are {2 * STEPS} cells one after the other, "
        f"the most are {MOST_CELLS})"
    ]
    assert [runner.left for runner in runners] == [0, 0]
    torch.manual_seed(0)
    expected = twin(x)
    torch.testing.assert_close(result, expected)
    result.sum().backward()
    expected.sum().backward()
    for own, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_writes_keep_their_order(runners: list[PartsRunner]) -> None:
    layer = nn.RNN(3, 3)

    def run(x: Tensor) -> Tensor:
        x.add_(1)
        y, _ = layer(x)
        x.mul_(2)
        z, _ = layer(x)
        return y + z + x

    x = torch.randn(STEPS, 1, 3)
    twin = x.clone()
    result, _ = compiled(run, x)
    torch.testing.assert_close(result, run(twin))
    torch.testing.assert_close(x, twin)
    assert len(runners) == 3


def test_without_gradients_they_are_compiled(runners: list[PartsRunner]) -> None:
    model, x = Layers(nn.GRU), torch.randn(2, 40, 4)
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MOST_CELLS", 2)
        result, told = compiled(model, x)
        torch.testing.assert_close(result, model(x))
    assert told == []
    assert [(runner.compiled, runner.left) for runner in runners] == [(5, 0)]


def test_short_ones_are_compiled(runners: list[PartsRunner]) -> None:
    model, x = Layers(nn.GRU), torch.randn(2, 2, 4)
    with torch.no_grad():
        result, told = compiled(model, x)
        torch.testing.assert_close(result, model(x))
    assert told == []
    assert [runner.left for runner in runners] == [0]
