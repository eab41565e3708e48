"""Decompositions of operations on lists of tensors, such as `_foreach_add`: optimizers call them on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensor = torch.Tensor

_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma"),
    *("log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh"),
    *("sqrt", "tan", "tanh", "trunc", "clone"),
)
_BINARY = ("add", "sub", "mul", "div", "clamp_min", "clamp_max", "maximum", "minimum", "pow", "lerp")
_TERNARY = ("addcmul", "addcdiv")

_NAMES = {"clone": torch.clone, "maximum": torch.clamp_min, "minimum": torch.clamp_max}
"""Functions that are called by another name than the operation, also because these take numbers."""


def _each(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """A function of the elements of lists in their order; what is no list belongs to each call."""

    def compute(*args: Any, **kwargs: Any) -> list[Tensor]:
        count = next(len(arg) for arg in args if isinstance(arg, list | tuple))
        return [
            function(*(arg[number] if isinstance(arg, list | tuple) else arg for arg in args), **kwargs)
            for number in range(count)
        ]

    return compute


def _with_scalars(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """A function of three tensors and a factor, which stands in a tensor of all factors."""

    def compute(x: Sequence[Tensor], one: Sequence[Tensor], other: Sequence[Tensor], scalars: Tensor) -> list[Tensor]:
        zeros = [torch.zeros_like(value) for value in x]
        parts = [function(*given, value=1) for given in zip(zeros, one, other, strict=True)]
        return [value + part * scalars[number] for number, (value, part) in enumerate(zip(x, parts, strict=True))]

    return compute


def _ternary(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, one, other, value=1: function(x, one, other, value=value)


def _overloads(name: str) -> list[Any]:
    """The overloads of an operation on lists that give new tensors; none where this PyTorch lacks the operation."""
    packet = getattr(ATEN, f"_foreach_{name}", None)
    return [getattr(packet, own) for own in packet.overloads() if not own.endswith("out")] if packet else []


def _norm(x: Tensor, order: float = 2, dtype: torch.dtype | None = None) -> Tensor:
    return torch.linalg.vector_norm(x, order, dtype=dtype)


LISTS: Decompositions = {
    **{
        overload: _each(_NAMES.get(name) or getattr(torch, name))
        for name in (*_UNARY, *_BINARY)
        for overload in _overloads(name)
    },
    **{
        overload: (_with_scalars if overload._overloadname == "Tensor" else _each)(
            getattr(torch, name) if overload._overloadname == "Tensor" else _ternary(getattr(torch, name))
        )
        for name in _TERNARY
        for overload in _overloads(name)
    },
    **{overload: _each(_norm) for overload in _overloads("norm")},
    **{overload: _each(torch.amax) for overload in _overloads("max")},
    **{overload: _each(lambda x, source, *_: source.to(x.dtype).expand(x.shape)) for overload in _overloads("copy")},
    **{overload: _each(torch.zeros_like) for overload in _overloads("zero")},
}
