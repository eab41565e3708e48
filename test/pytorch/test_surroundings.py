"""The backend and compiled programs inside PyTorch's modes, and on several streams and threads of a GPU."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import deplodock
from deplodock.runtime.device import missing

Tensor = torch.Tensor
Compiler = Callable[[nn.Module], Callable[[Tensor], Tensor]]


class Feed(nn.Module):
    """Projections and an activation."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.up = nn.Parameter(torch.randn(16, 8, generator=generator))
        self.down = nn.Parameter(torch.randn(8, 16, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.silu(nn.functional.linear(x, self.up)), self.down)


def draw(seed: int) -> Tensor:
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))


def by_backend(model: nn.Module) -> Callable[[Tensor], Tensor]:
    torch.compiler.reset()
    return torch.compile(model, backend="deplodock", fullgraph=True)


@pytest.mark.parametrize("compile", [by_backend, deplodock.compile])
def test_inference_mode(compile: Compiler) -> None:
    """Results are inference tensors, as eager's, and go into the program; it runs outside of the mode, too."""
    model, x = Feed().requires_grad_(False), draw(0)
    compiled = compile(model)
    with torch.inference_mode():
        inside = compiled(x)
        assert inside.is_inference()
        torch.testing.assert_close(compiled(inside), model(inside))
    outside = compiled(x)
    assert not outside.is_inference()
    torch.testing.assert_close(outside, model(x))
    torch.testing.assert_close(inside, outside)


def test_autocast() -> None:
    """Products are in bfloat16 where autocast is on at the call, in turn with calls where it is off."""
    model, x = Feed().requires_grad_(False), draw(0)
    compiled = by_backend(model)
    for turn in range(4):
        with torch.autocast("cpu", torch.bfloat16, enabled=turn % 2 == 0):
            got, wanted = compiled(x), model(x)
        assert got.dtype is wanted.dtype
        torch.testing.assert_close(got, wanted)


def test_training_under_autocast() -> None:
    """Gradients are in the types of the parameters."""
    models = [Feed(), Feed()]
    for run, model in ((by_backend(models[0]), models[0]), (models[1], models[1])):
        with torch.autocast("cpu", torch.bfloat16):
            loss = run(draw(0)).float().square().mean()
        loss.backward()
        assert all(value.grad is not None and value.grad.dtype is torch.float32 for value in model.parameters())
    for own, wanted in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(own.grad, wanted.grad, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dynamic", [False, True])
def test_modes_of_the_call(dynamic: bool) -> None:
    """A function is compiled for each mode in which PyTorch runs it otherwise, and once for each."""
    model, x = nn.Sequential(Feed(), nn.BatchNorm1d(8)).requires_grad_(False), draw(0)
    compiled = deplodock.compile(model, dynamic=dynamic)
    for is_training, is_low in [(False, False), (False, True), (True, False), (False, False), (False, True)]:
        model.train(is_training)
        with torch.autocast("cpu", torch.bfloat16, enabled=is_low):
            got, wanted = compiled(x), model(x)
        assert got.dtype is wanted.dtype
        bar = {"rtol": 0.04, "atol": 0.01} if is_low else {}
        torch.testing.assert_close(got, wanted, **bar)
    assert len(compiled.programs) == 3


@pytest.mark.gpu
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("compile", [by_backend, deplodock.compile])
def test_streams_and_threads(compile: Compiler) -> None:
    """Threads with streams of their own call one program at once; each gets the results of its arguments."""
    model = Feed().requires_grad_(False).cuda()
    compiled, errors = compile(model), list[BaseException]()
    compiled(draw(0).cuda())

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(20):
                    x = draw(100 * number + turn).cuda()
                    torch.testing.assert_close(compiled(compiled(x)), model(model(x)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_tensors_of_tensors() -> None:
    """The backend compiles what they compute with those that they hold; deplodock.compile says that it does."""
    model, x, both = nn.Linear(8, 4, bias=False).requires_grad_(False), draw(0), TwoTensor(draw(0), draw(1))
    model.weight = nn.Parameter(TwoTensor(model.weight, model.weight * 2), requires_grad=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "deplodock")
        got = by_backend(model)(both)
    torch.testing.assert_close(got.a, both.a @ model.weight.a.t())
    torch.testing.assert_close(got.b, both.b @ model.weight.b.t())
    for function, argument, name in ((model, x, "weight"), (torch.sin, both, "the input x")):
        with pytest.raises(deplodock.UnsupportedError, match=f"{name} is a TwoTensor, which torch.compile"):
            deplodock.compile(function, (argument,))
