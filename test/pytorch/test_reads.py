"""What a function or module reads beside its arguments: a compiled one gives what it would give at the call."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import deplodock
from deplodock.pytorch.function import CompiledFunction
from deplodock.pytorch.reads import Reads

Tensor = torch.Tensor
assert_close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=1e-3)
SHIFT = 1.0
TABLE = torch.arange(4.0)


@dataclass
class Settings:
    """Numbers of a model, in an object."""

    power: int = 2


def count(compiled: object) -> int:
    """How many programs a function was compiled to."""
    assert isinstance(compiled, CompiledFunction)
    return len(compiled.programs)


class Scaled(nn.Module):
    """Reads attributes of all kinds."""

    bias = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.steps = [1.0, {"inner": 3.0}]
        self.settings, self.names = Settings(), SimpleNamespace(extra=0.0)
        self.kinds = {"a"}
        self.held = torch.ones(4)
        self.act: nn.Module = nn.Softplus(1.0)
        self.norm: nn.Module = nn.LayerNorm(4)
        self.maybe: nn.Module | None = None

    def inner(self, x: Tensor) -> Tensor:
        """A method that `forward` calls."""
        return x + self.bias + SHIFT

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.act(self.inner(x))) * self.scale * self.steps[0] * self.steps[1]["inner"]  # type: ignore
        x = x**self.settings.power + self.names.extra + len(self.kinds) + self.held
        return x if self.maybe is None else self.maybe(x)


def rescaled(module: nn.Module, args: Any, result: Tensor) -> Tensor:
    return result * 7


def set_class(value: float) -> None:
    Scaled.bias = value


def set_global(value: float) -> None:
    globals()["SHIFT"] = value


CHANGES: dict[str, Callable[[Any], object]] = {
    "an attribute": lambda m: setattr(m, "scale", 5.0),
    "the type of a number": lambda m: setattr(m.settings, "power", 3),
    "an entry of a list": lambda m: m.steps.__setitem__(0, 4.0),
    "an entry of a nested dict": lambda m: m.steps[1].update(inner=9.0),
    "an attribute of a namespace": lambda m: setattr(m.names, "extra", 1.0),
    "a set": lambda m: m.kinds.add("b"),
    "a tensor replaced": lambda m: setattr(m, "held", torch.zeros(4)),
    "the memory of a tensor": lambda m: setattr(m.held, "data", torch.zeros(4)),
    "an attribute of a submodule": lambda m: setattr(m.norm, "eps", 1.0),
    "other settings": lambda m: setattr(m, "act", nn.Softplus(5.0)),
    "another kind": lambda m: setattr(m, "norm", nn.RMSNorm(4)),
    "a submodule added": lambda m: setattr(m, "maybe", nn.Sigmoid()),
    "a parameter left out": lambda m: setattr(m, "norm", nn.LayerNorm(4, bias=False)),
    "a hook": lambda m: m.act.register_forward_hook(rescaled),
    "a hook in front": lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
    "a method of one object": lambda m: setattr(m, "forward", lambda x: m.act(x)),
    "an attribute of a class": lambda m: set_class(8.0),
    "a global": lambda m: set_global(6.0),
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Any:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(Scaled, "bias", 0.5)
    yield
    set_global(1.0)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("change", CHANGES.values(), ids=[*CHANGES])
def test_what_changes_a_module_is_found(change: Callable[[Any], object]) -> None:
    model = Scaled().eval().requires_grad_(False)
    reads = Reads(model)
    before = reads.facts()
    assert reads.facts() is before
    change(model)
    after = reads.facts()
    assert after != before
    assert after.change_from(before)


def test_the_type_of_new_tensors() -> None:
    compiled = deplodock.compile(lambda x: x + torch.arange(4.0))
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        assert compiled(torch.ones(4, dtype=torch.float32)).dtype is dtype
    assert count(compiled) == 2


@pytest.mark.parametrize("name", ["an attribute", "other settings", "a hook", "a global"])
def test_a_changed_module_is_compiled_anew(name: str, caplog: pytest.LogCaptureFixture) -> None:
    model, x = Scaled().eval().requires_grad_(False), torch.randn(2, 4)
    compiled = deplodock.compile(model)
    assert_close(compiled(x), model(x))
    CHANGES[name](model)
    with caplog.at_level(logging.INFO, "deplodock"):
        assert_close(compiled(x), model(x))
    if name == "an attribute":
        assert "scale was 2.0" in caplog.text


def test_what_is_as_before_is_not_compiled_again() -> None:
    model, x = Scaled().eval().requires_grad_(False), torch.randn(2, 4)
    compiled = deplodock.compile(model)
    for scale in (2.0, 5.0, 2.0, 5.0):
        model.scale = float(str(scale))
        model.norm.weight = nn.Parameter(torch.randn(4), requires_grad=False)
        assert_close(compiled(x), model(x))
    assert count(compiled) == 2


def scaled_by(value: Any) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        return helper(x) * value["scale"]

    return run


def helper(x: Tensor, most: float = 9.0) -> Tensor:
    return x.clamp(max=most) + SHIFT + TABLE


def test_a_function_changes_with_what_it_names() -> None:
    values, x = {"scale": 2.0}, torch.randn(4)
    run = scaled_by(values)
    for function in (run, functools.partial(run), torch.no_grad()(run), deplodock.compile(run)):
        compiled = deplodock.compile(function)
        for change in (
            lambda: None,
            lambda: values.update(scale=values["scale"] + 1),
            lambda: set_global(SHIFT + 1),
            lambda: setattr(helper, "__defaults__", (helper.__defaults__[0] - 9.0,)),  # type: ignore
        ):
            change()
            assert_close(compiled(x), run(x))
        assert count(compiled) == 4
    helper.__defaults__ = (9.0,)


def test_a_module_in_a_closure_has_the_weights_of_the_call() -> None:
    layer, x = nn.Linear(4, 4).requires_grad_(False), torch.randn(2, 4)
    compiled = deplodock.compile(lambda x: layer(x).relu())
    for _ in range(2):
        assert_close(compiled(x), layer(x).relu())
        layer.weight.data = torch.randn(4, 4)
    layer.weight = nn.Parameter(torch.randn(4, 4), requires_grad=False)
    assert_close(compiled(x), layer(x).relu())


class Tied(nn.Module):
    """Two layers of one weight, and two buffers of one memory."""

    def __init__(self, is_tied: bool = True) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        low = torch.ones(4)
        self.register_buffer("low", low)
        self.register_buffer("high", low if is_tied else torch.ones(4) * 2)
        if is_tied:
            self.other.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.one(x) * self.low) + self.high


UNTIED: dict[str, Callable[[Tied], object]] = {
    "a parameter": lambda m: setattr(m.other, "weight", nn.Parameter(torch.randn(4, 4), requires_grad=False)),
    "its module": lambda m: setattr(m, "other", nn.Linear(4, 4).requires_grad_(False)),
    "a buffer": lambda m: setattr(m, "high", torch.randn(4)),
}


@pytest.mark.parametrize("untie", UNTIED.values(), ids=[*UNTIED])
def test_untied(untie: Callable[[Tied], object]) -> None:
    """Compiled anew without examples; with examples, refused."""
    model, x = Tied().requires_grad_(False), torch.randn(2, 4)
    compiled, fixed = deplodock.compile(model), deplodock.compile(model, (x,))
    model.one.weight.data = torch.randn(4, 4)
    for run in (compiled, fixed):
        assert_close(run(x), model(x))
    untie(model)
    assert_close(compiled(x), model(x))
    with pytest.raises(deplodock.InvalidInputError, match=r"(other.weight and one.weight|high and low) of the module"):
        fixed(x)


def test_memory_that_parts_is_seen() -> None:
    """`.data` of one of two parameters that were tied by their memory."""
    model, x = Tied().requires_grad_(False), torch.randn(2, 4)
    model.other.weight = nn.Parameter(model.one.weight.data, requires_grad=False)
    compiled = deplodock.compile(model)
    assert_close(compiled(x), model(x))
    model.other.weight.data = torch.randn(4, 4)
    assert_close(compiled(x), model(x))


def test_a_file_of_a_tied_model_refuses_weights_that_are_not(tmp_path: Any) -> None:
    model, x, path = Tied().requires_grad_(False), torch.randn(2, 4), tmp_path / "tied.ddk"
    wanted = model(x)
    deplodock.compile(model, (x,)).save(path)
    for weights in (model, model.state_dict(), {name: own.clone() for name, own in model.state_dict().items()}):
        assert_close(deplodock.load(path, weights)(x), wanted)
    for left_out in ("one.weight", "other.weight"):
        single = {name: own for name, own in model.state_dict().items() if name != left_out}
        assert_close(deplodock.load(path, single)(x), wanted)
    other = Tied(is_tied=False).requires_grad_(False)
    for weights in (other, other.state_dict()):
        with pytest.raises(deplodock.InvalidInputError, match=r"tied.ddk: other.weight and one.weight"):
            deplodock.load(path, weights)
