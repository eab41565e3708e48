"""`torch.compile(..., backend="deplodock")` on a CPU: parts, what is left to PyTorch, shapes, gradients and writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from deplodock.pytorch import backend as backend_module
from deplodock.pytorch.parts import PartsRunner

Tensor = torch.Tensor


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PartsRunner]]:
    """The graphs in parts that the backend makes."""
    made: list[PartsRunner] = []

    def make(*args: Any) -> PartsRunner:
        made.append(PartsRunner(*args))
        return made[-1]

    monkeypatch.setattr(backend_module, "PartsRunner", make)
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="deplodock", **options)


def messages(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught if "deplodock" in str(warning.message)]


def test_a_whole_graph_is_one_part(runners: list[PartsRunner]) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.RMSNorm(8)).eval(), torch.randn(3, 8)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(compiled(model)(x), model(x))
    assert [len(runner.parts) for runner in runners] == [1]
    assert not messages(caught)


class WithEigenvalues(nn.Module):
    """Supported operations before and after one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x))
        values, vectors = torch.linalg.eigh(hidden @ hidden.t())
        return self.second(values) * 2 + vectors.abs().sum()


def test_what_is_not_supported_is_left_to_pytorch(runners: list[PartsRunner]) -> None:
    model, x = WithEigenvalues(), torch.randn(3, 8)
    run = compiled(model)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(run(x), model(x))
        torch.testing.assert_close(run(x + 1), model(x + 1))
    assert [len(runner.parts) for runner in runners] == [2]
    (message,) = messages(caught)
    assert message.startswith("deplodock leaves to PyTorch: aten.linalg_eigh.default (")
    assert "test_backend.py" in message


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_gradients(runners: list[PartsRunner]) -> None:
    model, x = WithEigenvalues(), torch.randn(3, 8, requires_grad=True)
    inputs = [x, *model.parameters()]
    got = torch.autograd.grad(compiled(model)(x).square().sum(), inputs)
    wanted = torch.autograd.grad(model(x).square().sum(), inputs)
    assert len(runners) == 1
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_gradients_of_random_programs_are_those_of_pytorch(runners: list[PartsRunner]) -> None:
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Dropout()), torch.randn(3, 64, requires_grad=True)
    y = compiled(model)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    kept = (y != 0).float() * 2
    torch.testing.assert_close(gradient, kept @ model[0].weight)
    assert [runner.draws for runner in runners] == [True]


def test_new_shapes_are_compiled_anew(runners: list[PartsRunner]) -> None:
    run = compiled(lambda x: x.softmax(0) * x.shape[0])
    for extent in (3, 4, 5, 4):
        x = torch.randn(extent, 2)
        torch.testing.assert_close(run(x), x.softmax(0) * extent)
    assert len(runners) == 3


def test_no_thread_traces_while_another_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.convert_frame import compile_lock

    free: list[bool] = []
    export = torch.export.export

    def watched(*args: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            free.append(pool.submit(compile_lock.acquire, blocking=False).result())
        return export(*args)

    monkeypatch.setattr(torch.export, "export", watched)
    torch.testing.assert_close(compiled(torch.sin)(torch.ones(3)), torch.ones(3).sin())
    assert free == [False]


def test_writes(runners: list[PartsRunner]) -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    x, y = torch.zeros(3), torch.arange(3.0)
    torch.testing.assert_close(compiled(step)(x, y), y)
    torch.testing.assert_close(x, torch.ones(3))
    assert [len(runner.parts) for runner in runners] == [1]


def test_writes_into_shared_memory_are_left_to_pytorch(runners: list[PartsRunner]) -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    run, memory = compiled(step), torch.zeros(4)
    torch.testing.assert_close(run(torch.zeros(3), torch.zeros(3)), torch.zeros(3))
    torch.testing.assert_close(run(memory[:3], memory[1:]), torch.tensor([2.0, 2.0, 0.0]))
    torch.testing.assert_close(memory, torch.tensor([1.0, 1.0, 1.0, 0.0]))
    assert [len(runner.parts) for runner in runners] == [1]


def test_strides_that_a_program_reads_leave_it_to_pytorch(runners: list[PartsRunner]) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.as_strided((x * 2).t() + 1, (6,), (1,))

    x = torch.arange(6.0).view(2, 3)
    with pytest.warns(UserWarning, match=r"leaves to PyTorch: aten.as_strided.default"):
        torch.testing.assert_close(compiled(program)(x), program(x))
    assert [len(runner.parts) for runner in runners] == [0]


def test_views_alone_are_no_part(runners: list[PartsRunner]) -> None:
    x = torch.arange(6.0).view(2, 3)
    torch.testing.assert_close(compiled(lambda x: x.t()[1:])(x), x.t()[1:])
    assert [len(runner.parts) for runner in runners] == [0]


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_numbers_that_change(runners: list[PartsRunner]) -> None:
    run, x = compiled(lambda x, n: (x.sin() * n).cos()), torch.arange(3.0)
    for number in (2.0, 3.0, -0.0):
        torch.testing.assert_close(run(x, number), (x.sin() * number).cos())
    assert [len(runner.parts) for runner in runners] == [1, 2]


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_results_may_be_none(runners: list[PartsRunner]) -> None:
    none, values, other, number = compiled(lambda x: (None, torch.linalg.eigvalsh(x) + 1, None, 3))(torch.zeros(2, 2))
    assert (none, values.tolist(), other, number) == (None, [1, 1], None, 3)
    assert [len(runner.parts) for runner in runners] == [1]


def test_gradients_of_gradients(runners: list[PartsRunner]) -> None:
    x = torch.arange(1.0, 4.0, requires_grad=True)
    (first,) = torch.autograd.grad(compiled(lambda x, y: (x**3 * y).sum())(x, x * 2), x, create_graph=True)
    torch.testing.assert_close(first, 8 * x**3)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 24 * x**2)


def test_results_without_a_gradient_have_none(runners: list[PartsRunner]) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            y = x * 2
        return x + y, y, x.argmax()

    results = compiled(program)(torch.ones(3, requires_grad=True))
    assert [result.requires_grad for result in results] == [True, False, False]


def test_gradients_are_those_of_the_autocast_mode_of_the_call(runners: list[PartsRunner]) -> None:
    x, weight = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    program = lambda x: x.bfloat16() @ weight  # noqa: E731
    with torch.autocast("cpu", torch.bfloat16):
        got, wanted = compiled(program)(x), program(x)
    torch.testing.assert_close(torch.autograd.grad(got.sum(), x), torch.autograd.grad(wanted.sum(), x))
