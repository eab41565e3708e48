"""What cannot be captured is refused by one message of ours: the user's line, the operation, and what to do."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deplodock.errors import Error, UnsupportedError
from deplodock.frontend.capture import export

Tensor = torch.Tensor
IN_PLACE = "changes the shape, the strides or the memory of an input in place, .* use an operation that returns a new"
READ = "depends on the values of a tensor, which are known only when the program runs; use operations of tensors"
TRANSFORM = r"transforms of functions \(torch.func\) cannot be captured here; torch.compile"


def assigns_data(x: Tensor) -> Tensor:
    x.data = torch.zeros(2, 2)
    return x + 1


def branches(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def loops(x: Tensor) -> Tensor:
    while x.sum() > -100:
        x = x - 50
    return x


def catches(x: Tensor) -> Tensor:
    try:
        x.unsqueeze_(0)
    except Exception:
        return x + 1
    return x


def writes_data(x: Tensor) -> Tensor:
    x.data.add_(1)
    return x * 2


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "t_": (lambda x: x.t_() + 1, rf"t_ {IN_PLACE}"),
    "unsqueeze_": (lambda x: x.unsqueeze_(0) + 1, rf"unsqueeze_ {IN_PLACE}"),
    "transpose_": (lambda x: x.transpose_(0, 1) + 1, rf"transpose_ {IN_PLACE}"),
    "squeeze_": (lambda x: x.unsqueeze_(0).squeeze_() + 1, rf"unsqueeze_ {IN_PLACE}"),
    "resize_": (lambda x: x.resize_(2, 2) + 1, rf"resize_ {IN_PLACE}"),
    "as_strided_": (lambda x: x.as_strided_((2, 2), (1, 1)) + 1, rf"as_strided_ {IN_PLACE}"),
    "set_": (lambda x: x.set_(torch.zeros(2, 2)) + 1, rf"set_ {IN_PLACE}"),
    "an assignment to data": (assigns_data, rf"an assignment to \.data {IN_PLACE}"),
    "a write through data": (writes_data, r"writes through \.data cannot be captured; use \.detach\(\)"),
    "grad": (lambda x: torch.func.grad(lambda v: v.sin().sum())(x), TRANSFORM),
    "vjp": (lambda x: torch.func.vjp(torch.sin, x)[1](x)[0], TRANSFORM),
    "jacrev": (lambda x: torch.func.jacrev(torch.sin)(x), TRANSFORM),
    "hessian": (lambda x: torch.func.hessian(lambda v: v.sin().sum())(x[0]), TRANSFORM),
    "a branch": (branches, READ),
    "a loop": (loops, READ),
    "a size": (lambda x: x.new_zeros(int(x.abs().max())), READ),
    "a comparison": (lambda x: x if torch.equal(x, x * 1) else x + 1, READ),
    "a close comparison": (lambda x: x if torch.allclose(x, x) else x + 1, READ),
    "item": (
        lambda x: x * x.sum().item(),
        "aten.item.default .* reads a number from a tensor, .* use the tensor itself",
    ),
    "nonzero": (lambda x: x.nonzero(), "aten.nonzero.default is not supported: its result has a shape that depends"),
    "numpy": (lambda x: torch.from_numpy(x.numpy() * 2), "a tensor becomes a numpy array, which cannot be captured"),
    "random numbers": (
        lambda x: x + torch.rand(4),
        "aten.rand.default .* draws random numbers; pass them as an argument",
    ),
    "dropout": (lambda x: F.dropout(x), r"aten.dropout.default .* draws random numbers; call \.eval\(\)"),
    "rrelu": (lambda x: F.rrelu(x, training=True), r"aten.rrelu.default .* draws random numbers; call \.eval\(\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_line_and_the_operation(name: str) -> None:
    program, message = REFUSED[name]
    _, first = inspect.getsourcelines(program)
    with pytest.raises(UnsupportedError, match=message) as caught:
        export(program, (torch.arange(12.0).reshape(3, 4),), is_called=True)
    place = re.match(r"(.*):(\d+): error: ", str(caught.value))
    assert place is not None
    assert place[1] == __file__
    assert first <= int(place[2]) <= first + 3
    assert "\n" not in str(caught.value)


def test_a_change_whose_error_is_caught_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=IN_PLACE):
        export(catches, (torch.ones(3),), is_called=True)


def test_no_message_points_into_a_library() -> None:
    def program(x: Tensor) -> Tensor:
        return functools.reduce(lambda one, other: one + float(other.sum()), [x, x])

    with pytest.raises(Error, match=re.escape(f"{__file__}:") + r"\d+: error: a branch, a number"):
        export(program, (torch.ones(3),))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: F.rrelu(x, training=False),
        nn.RReLU(0.1, 0.5).eval(),
        lambda x: F.alpha_dropout(x, 0.5, False),
        lambda x: F.feature_alpha_dropout(x[None], 0.5, False),
        lambda x: F.dropout2d(x[None], 0.5, False),
        nn.Sequential(nn.Dropout(), nn.AlphaDropout()).eval(),
        lambda x: (x * 2).t_().unsqueeze_(0),
        lambda x: torch.vmap(lambda row: row.sin().sum())(x),
        pytest.param(
            lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
            marks=pytest.mark.skipif(torch.__version__ < (2, 13), reason="torch.export does not take it"),
        ),
    ],
)
def test_what_draws_nothing_and_changes_no_input_is_captured(program: Any) -> None:
    x = torch.arange(12.0).reshape(3, 4) - 5
    captured = export(program, (x,))
    wanted = program(x)
    for got, expected in zip(captured.eager(), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(got, expected)


def test_packed_sequences_are_refused_for_their_sizes() -> None:
    sizes, weights = torch.ones(3, dtype=torch.int64), [value.detach() for value in nn.GRU(2, 3).parameters()]

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.gru(x, sizes, torch.zeros(1, 1, 3), weights, True, 1, 0.0, False, False)[0]

    with pytest.raises(UnsupportedError, match="a size depends on the values of a tensor"):
        export(program, (torch.ones(3, 2),))


@pytest.mark.parametrize("layer", [nn.RNN(2, 3), nn.LSTM(2, 3, 2), nn.GRU(2, 3, bidirectional=True)])
def test_recurrent_layers_are_one_operation_however_many_steps_there_are(layer: nn.Module) -> None:
    with torch.device("meta"):
        captured = export(layer.to("meta").eval(), (torch.empty(40, 1, 2),))
    calls = [op.name for op in captured.module.walk() if op.name.endswith(".input")]
    assert len(calls) == 1
