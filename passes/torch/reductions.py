"""Reductions over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import i1
from xdsl.dialects.utils import FastMathFlag

from deplodock.dialects.elements import ui8
from deplodock.dialects.shapes import wrap_dims
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.tensors import Tensor, sqrt

Dims: TypeAlias = int | tuple[int, ...] | None

_OPERATIONS = {
    **{"sum": "add", "prod": "mul"},
    **dict.fromkeys(("max", "amax", "any"), "maximum"),
    **dict.fromkeys(("min", "amin", "all"), "minimum"),
}

_OF_BOOLEANS = {"sum": "any", "prod": "all"}
"""What a sum or product in the type bool is."""


@lowers("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "max", "amax", "min", "amin")
def reduction(self: Tensor, name: str, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Fold the dimensions `dim`, all if there are none; `keepdim` leaves them as ones."""
    dims = dims_of(self, dim)
    if name in ("max", "amax", "min", "amin") and any(self.shape[dim] == 0 for dim in dims):
        raise ValueError("the maximum of no elements is not defined")
    kind = _OF_BOOLEANS.get(name, name) if self.element == i1 else name
    value = self.mean(dims) if kind == "mean" else self.reduce(_OPERATIONS[kind], dims, kind)
    return with_dims(value, dims, self, keepdim)


@lowers("any", "any.dim", "any.dims", "all", "all.dim", "all.dims", widens=False)
def any_or_all(self: Tensor, name: str, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any or all elements along `dim` are not 0: a boolean, but 0 or 1 in ui8 of elements of ui8."""
    dims = [] if dim == () else dims_of(self, dim)
    value = self.cast(i1).reduce(_OPERATIONS[name], dims, name)
    value = with_dims(value, dims, self, keepdim)
    return value.cast(ui8) if self.element == ui8 else value


@lowers("var", "var.dim", "var.correction", "std", "std.dim", "std.correction", "var_mean.correction")
def variance(
    self: Tensor,
    name: str,
    dim: Dims = None,
    unbiased: bool = True,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`sum((x - mean)^2) / max(0, n - correction)` from deviations, so that large means and values cost no digits."""
    dims = dims_of(self, dim)
    mean = self.mean(dims)
    total = squared_deviations(self, mean, dims).sum(dims)
    count = prod(self.shape[dim] for dim in dims) - (int(unbiased) if correction is None else correction)
    value = (total / max(0, count)).named("var")
    if name == "std":
        value = sqrt(value).named("std")
    value = with_dims(value, dims, self, keepdim)
    return (value, with_dims(mean, dims, self, keepdim)) if name == "var_mean" else value


def squared_deviations(x: Tensor, mean: Tensor, dims: Sequence[int]) -> Tensor:
    """`(x - mean)^2` for a mean over `dims`; their sum may be taken in parts, each from a mean of its own."""
    centred = (x - mean.spread(dims, x.shape)).named("centred")
    return (centred * centred).named("sq").allowing(FastMathFlag.REASSOC)


def dims_of(x: Tensor, dim: Dims) -> list[int]:
    """The dimensions that a parameter `dim` names, counted from the front; all if there is none or it is None."""
    if dim is None or dim == ():
        return list(range(x.rank))
    return wrap_dims([dim] if isinstance(dim, int) else dim, x.rank)


def with_dims(value: Tensor, dims: Sequence[int], x: Tensor, keepdim: bool) -> Tensor:
    """The result of reducing `dims` of `x`, with ones for them if the operation keeps them."""
    return value.spread(dims, [1 if dim in dims else n for dim, n in enumerate(x.shape)]) if keepdim else value
