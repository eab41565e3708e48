"""`torch.compile(..., backend="deplodock")` on a CPU: parts, what is left to PyTorch, shapes, gradients and writes."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import deplodock
from deplodock.frontend import retrace
from deplodock.pytorch import backend as backend_module
from deplodock.pytorch import partition
from deplodock.pytorch.partition import PartsRunner

Tensor = torch.Tensor


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
    assert message.startswith("deplodock leaves to PyTorch: aten._linalg_eigh.default (")
    assert "test_backend.py" in message


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_gradients(runners: list[PartsRunner]) -> None:
    # In float64, since gradients of eigenvectors make errors larger.
    model, x = WithEigenvalues().double(), torch.randn(3, 8, requires_grad=True, dtype=torch.float64)
    inputs = [x, *model.parameters()]
    got = torch.autograd.grad(compiled(model)(x).square().sum(), inputs)
    wanted = torch.autograd.grad(model(x).square().sum(), inputs)
    # A graph of the results, and one of the gradients.
    assert [bool(runner.parts) for runner in runners] == [True, True]
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_random_programs_draw_what_pytorch_draws(runners: list[PartsRunner]) -> None:
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Dropout()), torch.randn(3, 64, requires_grad=True)
    results: list[Tensor] = []
    for run in (model, compiled(model)):
        torch.manual_seed(1)
        y = run(x)
        results += [y, *torch.autograd.grad(y.sum(), x), torch.rand(2)]
    for wanted, got in zip(results[:3], results[3:], strict=True):
        torch.testing.assert_close(got, wanted)
    assert [bool(runner.parts) for runner in runners] == [True, True]


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_random_numbers_are_drawn_in_the_order_of_the_program(runners: list[PartsRunner]) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        first = torch.bernoulli((x + 1).sigmoid())
        return first, torch.rand(3), F.dropout(x.cos(), 0.3), torch.randperm(5), first.sin()

    results: list[tuple[Tensor, ...]] = []
    for run in (program, compiled(program)):
        torch.manual_seed(1)
        results.append(run(torch.arange(6.0)))
    for wanted, got in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted)


def test_new_shapes_are_compiled_anew(runners: list[PartsRunner]) -> None:
    run = compiled(lambda x: x.softmax(0) * x.shape[0])
    for extent in (3, 4, 5, 4):
        x = torch.randn(extent, 2)
        torch.testing.assert_close(run(x), x.softmax(0) * extent)
    assert len(runners) == 3


def test_constants_of_a_graph_of_many_shapes(runners: list[PartsRunner]) -> None:
    """A cache of transformers starts as an empty constant; others are scalars, and numbers are read from some."""

    def program(x: Tensor) -> Tensor:
        scale = torch.tensor(3.0) * torch.tensor([1.0, 2.0], dtype=x.dtype)
        return F.elu(torch.cat([torch.tensor([], dtype=x.dtype), x * 2]) + scale) * torch.tensor([2, 3]).max()

    run = compiled(program, dynamic=True)
    for rows in (4, 5):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(run(x), program(x))
    assert [(len(runner.parts), runner.left) for runner in runners] == [(1, 0), (1, 0)]


def test_no_thread_traces_while_another_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.convert_frame import compile_lock

    free: list[bool] = []

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            with ThreadPoolExecutor(1) as pool:
                free.append(pool.submit(compile_lock.acquire, blocking=False).result())
            return original(*args, **options)

        return call

    monkeypatch.setattr(torch.export, "export", watched(torch.export.export))
    monkeypatch.setattr(retrace, "make_fx", watched(retrace.make_fx))
    torch.testing.assert_close(deplodock.compile(torch.sin, (torch.ones(3),))(torch.ones(3)), torch.ones(3).sin())
    torch.testing.assert_close(compiled(F.elu)(torch.ones(3)), F.elu(torch.ones(3)))
    assert free == [False, False]


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
    torch.testing.assert_close(run(torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))
    assert [len(runner.parts) for runner in runners] == [1]


def test_what_reads_strides_is_left_to_pytorch(runners: list[PartsRunner]) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.as_strided((x * 2).t() + 1, (6,), (1,))

    x = torch.arange(6.0).view(2, 3)
    with pytest.warns(UserWarning, match=r"leaves to PyTorch: aten.as_strided.default"):
        torch.testing.assert_close(compiled(program)(x), program(x))
    assert [len(runner.parts) for runner in runners] == [1]


def test_views_alone_are_no_part(runners: list[PartsRunner]) -> None:
    x = torch.arange(6.0).view(2, 3)
    torch.testing.assert_close(compiled(lambda x: x.t()[1:])(x), x.t()[1:])
    assert [len(runner.parts) for runner in runners] == [0]


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_numbers_that_change(runners: list[PartsRunner]) -> None:
    run, x = compiled(lambda x, n: (x.sin() * n).cos()), torch.arange(3.0)
    for number in (2.0, 3.0, -0.0):
        torch.testing.assert_close(run(x, number), (x.sin() * number).cos())
    assert [len(runner.parts) for runner in runners] == [1, 1]


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_results_may_be_none(runners: list[PartsRunner]) -> None:
    none, values, other, number = compiled(lambda x: (None, torch.linalg.eigvalsh(x) + 1, None, 3))(torch.zeros(2, 2))
    assert (none, values.tolist(), other, number) == (None, [1, 1], None, 3)
    assert [len(runner.parts) for runner in runners] == [1]


def test_gradients_of_gradients_are_refused_by_pytorch(runners: list[PartsRunner]) -> None:
    x = torch.arange(1.0, 4.0, requires_grad=True)
    (first,) = torch.autograd.grad(compiled(lambda x, y: (x**3 * y).sum())(x, x * 2), x, create_graph=True)
    torch.testing.assert_close(first, 8 * x**3)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(first.sum(), x)


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


def test_arguments_are_not_kept(runners: list[PartsRunner]) -> None:
    run, x = compiled(lambda x, y: (x.sin() @ y).t()), torch.randn(3, 3)
    result = run(x, x + 1)
    kept = [weakref.ref(x), weakref.ref(result)]
    del x, result
    gc.collect()
    assert [found() for found in kept] == [None, None]


def test_what_autograd_does_not_take_is_left_to_pytorch(
    runners: list[PartsRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError("this graph")

    monkeypatch.setattr(backend_module, "aot_autograd", lambda **options: refuse)
    with pytest.warns(
        UserWarning, match="leaves to PyTorch: the graph .AOTAutograd .* NotImplementedError: this graph"
    ):
        torch.testing.assert_close(compiled(torch.sin)(torch.ones(3)), torch.ones(3).sin())


def broken(*_: object) -> None:
    raise IndexError("tuple index out of range")


@pytest.mark.parametrize(
    "place", ["deplodock.passes.torch.decompose.DecomposePass.apply", "deplodock.pytorch.partition.make_runner"]
)
def test_a_fault_of_the_compiler_leaves_its_calls_to_pytorch(
    runners: list[PartsRunner], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(place, broken)
    program, x = (lambda x: F.elu(x.sin())), torch.randn(3)
    with pytest.raises(Exception, match="tuple index out of range"):
        compiled(program)(x)
    torch._dynamo.reset()
    runners.clear()
    monkeypatch.delenv("DEPLODOCK_DEBUG")
    calls: list[object] = []

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    run = compiled(program)
    fault = r"aten.elu.default.* \(a fault of deplodock at .*, please report it: IndexError: tuple index"
    with pytest.warns(UserWarning, match=fault):
        torch.testing.assert_close(run(x), program(x))
    with Calls():
        torch.testing.assert_close(runners[0](x), (program(x),))
    # What is left is what the program called, not what it is decomposed into.
    assert calls[:2] == [torch.ops.aten.sin.default, torch.ops.aten.elu.default]
    assert not runners[0].parts


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_calls_in_an_order_may_be_left_to_pytorch(runners: list[PartsRunner], monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, F.scaled_dot_product_attention(x, x, x), x)

    monkeypatch.setattr("deplodock.pytorch.partition.make_runner", broken)
    monkeypatch.delenv("DEPLODOCK_DEBUG")
    x = torch.randn(1, 2, 3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(program)(x), program(x))
    assert [runner.left for runner in runners] == [2]


def test_equal_calls_are_looked_at_once(runners: list[PartsRunner], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(node: fx.Node) -> Any:
        asked.append(str(node.target))
        return ask(node)

    ask = partition._asked
    monkeypatch.setattr(partition, "_asked", counted)
    layers, x = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ELU()) for _ in range(3))), torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(layers)(x), layers(x))
    assert len(asked) == len(set(asked)) == 2
    assert [runner.compiled for runner in runners] == [6]


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_compiler_ends_the_program(
    runners: list[PartsRunner], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.delenv("DEPLODOCK_DEBUG")
    monkeypatch.setattr("deplodock.pytorch.partition.make_runner", fail)
    with pytest.raises(type(error)):
        compiled(torch.sin)(torch.ones(3))


class Tied(nn.Module):
    """Batch norm that writes its buffers, and one weight used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.norm(x)).relu())


@pytest.mark.filterwarnings("ignore:deplodock leaves")
def test_training(runners: list[PartsRunner]) -> None:
    torch.manual_seed(0)
    models, data = [Tied(), Tied()], torch.randn(3, 8, 4)
    models[1].load_state_dict(models[0].state_dict())
    for model, run in ((models[0], models[0]), (models[1], compiled(models[1]))):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x in data:
            optimizer.zero_grad()
            run(x).square().sum().backward()
            optimizer.step()
    wanted, got = (model.state_dict() for model in models)
    assert all(runner.parts for runner in runners)
    torch.testing.assert_close(dict(got), dict(wanted))


def test_inference_mode_and_threads(runners: list[PartsRunner]) -> None:
    run = compiled(lambda x: (x.sin(), x.t()))
    with torch.inference_mode():
        result, view = run(torch.ones(2, 3))
    assert result.is_inference()
    assert view.shape == (3, 2)
    inputs = [torch.full((2, 3), float(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for x, (result, _) in zip(inputs, pool.map(run, inputs), strict=True):
            torch.testing.assert_close(result, x.sin())
