"""Training through the backend: parameters are eager's, and the backward runs on compiled kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deplodock.analysis.shape.roundings import Roundings
from deplodock.frontend.arrays import to_array
from deplodock.pytorch.partition import PartsRunner
from deplodock.runtime.compare import compare

Tensor = torch.Tensor
Loss = Callable[[Callable[..., Any], torch.dtype], Tensor]
STEPS = 3
EXTENT = 256
"""More than the longest sum of a step has terms."""

pytestmark = pytest.mark.filterwarnings("ignore:deplodock leaves")


class Residual(nn.Module):
    """A block of ResNet: two convolutions with batch norms, around which the input is added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first_norm(self.first(x)).relu()
        return (self.second_norm(self.second(inner)) + x).relu()


def llama() -> tuple[nn.Module, Loss]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "vocab_size": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads, max_position_embeddings=16))
    ids = torch.randint(32, (2, 6))
    return model, lambda run, _: F.cross_entropy(
        run(ids, use_cache=False).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    )


def resnet_block() -> tuple[nn.Module, Loss]:
    x = torch.randn(2, 4, 5, 5)
    return Residual(4), lambda run, dtype: run(x.to(dtype)).square().mean()


def perceptron() -> tuple[nn.Module, Loss]:
    x = torch.randn(4, 8)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 4))
    return model, lambda run, dtype: run(x.to(dtype)).square().mean()


def trained(model: nn.Module, loss: Loss, dtype: torch.dtype, wrap: Callable[[Any], Any]) -> dict[str, Tensor]:
    """All parameters and buffers of a copy of the model after some steps of gradient descent."""
    model = copy.deepcopy(model).to(dtype)
    run, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(run, dtype).backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize(
    ("make", "dtype", "share"),
    [
        (llama, torch.float32, 0.9),
        (resnet_block, torch.float32, 0.9),
        (resnet_block, torch.bfloat16, 0.9),
        (perceptron, torch.float32, 0.9),
        (perceptron, torch.bfloat16, 0.9),
    ],
)
def test_three_steps_give_the_parameters_of_eager(
    make: Callable[[], tuple[nn.Module, Loss]], dtype: torch.dtype, share: float, runners: list[PartsRunner]
) -> None:
    torch.manual_seed(0)
    model, loss = make()
    exact = trained(model, loss, torch.float64, lambda model: model)
    eager = trained(model, loss, dtype, lambda model: model)
    got = trained(model, loss, dtype, lambda model: torch.compile(model, backend="deplodock"))
    for name, value in got.items():
        verdict = compare(to_array(value), to_array(exact[name]), to_array(eager[name]), Roundings(EXTENT))
        assert verdict.passed, f"{name}: {verdict}"
    forward, backward = runners
    own = backward.compiled / (backward.compiled + backward.left)
    print(f"{make.__name__}: {own:.0%} of {backward.compiled + backward.left} operations of the backward are compiled")
    assert forward.compiled
    assert own >= share


def test_attention_that_drops_out_draws_what_pytorch_draws(runners: list[PartsRunner]) -> None:
    query = torch.randn(1, 2, 4, 8, requires_grad=True)
    program = lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)  # noqa: E731
    found: list[tuple[Tensor, ...]] = []
    for run in (program, torch.compile(program, backend="deplodock")):
        torch.manual_seed(1)
        result = run(query)
        found.append((result, *torch.autograd.grad(result.square().sum(), query)))
    torch.testing.assert_close(*found)
    assert len(runners) == 2


def test_attention_is_differentiated_in_steps(runners: list[PartsRunner]) -> None:
    query = torch.randn(1, 2, 4, 8, requires_grad=True)
    program = lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)  # noqa: E731
    found = [
        torch.autograd.grad(run(query).square().sum(), query)
        for run in (program, torch.compile(program, backend="deplodock"))
    ]
    torch.testing.assert_close(*found)
    assert [(runner.reasons, len(runner.parts)) for runner in runners] == [({}, 1), ({}, 1)]


@pytest.mark.parametrize(
    ("make", "options"),
    [(torch.optim.AdamW, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.RMSprop, {"foreach": True})],
)
def test_a_step_of_an_optimizer_is_compiled_whole(
    make: Callable[..., torch.optim.Optimizer], options: dict[str, Any], runners: list[PartsRunner]
) -> None:
    torch.manual_seed(0)
    weights, grads = [torch.randn(4, 3), torch.randn(5)], [torch.randn(4, 3), torch.randn(5)]
    found: list[list[Tensor]] = []
    for wrap in (lambda step: step, lambda step: torch.compile(step, backend="deplodock")):
        parameters = [nn.Parameter(weight.clone()) for weight in weights]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad.clone()
        wrap(make(parameters, lr=0.01, **options).step)()
        found.append([parameter.detach() for parameter in parameters])
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=1e-6)
    assert sum(runner.compiled for runner in runners)
    assert not [runner.reasons for runner in runners if runner.reasons]
