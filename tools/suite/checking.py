"""Whether what a problem gives is what PyTorch gives: by KernelBench's bar, else by PyTorch in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from deplodock.runtime.compare import EAGER, SPREAD
from deplodock.tools.suite.building import SEED
from deplodock.tools.suite.state import ModuleState, attributes

_TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 1e-2}
_TOLERANCE = 1e-4
"""The differences that KernelBench allows, relative and absolute: `get_tolerance_for_precision` in its eval.py."""

_CHUNK = 1 << 26
"""The elements that are compared at a time, so that comparing takes little memory."""


def seeded(function: Callable[..., Any], args: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that a call gives, which draws the same random numbers each time."""
    torch.manual_seed(SEED)
    return [leaf for leaf in pytree.tree_leaves(function(*args)) if isinstance(leaf, torch.Tensor)]


def wrong(
    got: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    precise: Callable[[], Sequence[torch.Tensor]],
) -> str:
    """What is wrong with the results of a problem; empty if they are right.

    A result is right if each element is within 1e-4 (half precision: 1e-2) of PyTorch's, relative to it or absolute,
    as KernelBench asks; else if the norm of its differences from the results in float64 is at most 4 times that of
    PyTorch's own, and each is at most 8 times their mean or 4 times PyTorch's largest: roundings decide there.

    Args:
        got: our results.
        expected: PyTorch's.
        precise: gives PyTorch's in float64; called where they are needed.
    """
    if not (reason := differences(got, expected)) or _is_other(got, expected):
        return reason
    try:
        exact = precise()
    except Exception as error:
        return f"{reason}; PyTorch does not run in float64: {next(iter(str(error).splitlines()), '')}"
    pairs = enumerate(zip(got, expected, exact, strict=True))
    worse = [number for number, values in pairs if _outside(*values[:2]) and _is_worse(*values)]
    return f"{reason}; result {worse[0]} is further from float64 than PyTorch's" if worse else ""


def differences(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
    """The first result that is outside of KernelBench's bar, and how; empty if none is."""
    if len(got) != len(expected):
        return f"{len(got)} results, not {len(expected)}"
    reasons = (
        f"result {number}: {reason}"
        for number, pair in enumerate(zip(got, expected, strict=True))
        if (reason := _outside(*pair))
    )
    return next(reasons, "")


def _is_other(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Whether results are not even of the same number, shapes and types, or differ in numbers that are not rounded."""
    if len(got) != len(expected):
        return True
    pairs = list(zip(got, expected, strict=True))
    return any(
        one.shape != other.shape
        or one.dtype != other.dtype
        or (not other.is_floating_point() and bool(_outside(one, other)))
        for one, other in pairs
    )


def in_double(module: nn.Module, args: Sequence[Any]) -> list[torch.Tensor]:
    """What a module gives in float64, and then its state. Raises what it raises if it does not run so."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        double = copy.deepcopy(module).double()
        for part in double.modules():
            vars(part).update(pytree.tree_map_only(torch.Tensor, _doubled, attributes(part)))
        results = seeded(double, pytree.tree_map_only(torch.Tensor, _doubled, list(args)))
        return [*results, *ModuleState(double).tensors]
    finally:
        torch.set_default_dtype(default)


def _outside(got: torch.Tensor, expected: torch.Tensor) -> str:
    """How a result is outside of KernelBench's bar; empty if it is not."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype} of shape {tuple(got.shape)}, not {expected.dtype} of shape {tuple(expected.shape)}"
    if not expected.dtype.is_floating_point:
        count = sum(int((one != other).sum()) for one, other in _chunks(got, expected))
        return f"{count} of {got.numel()} elements differ" if count else ""
    bar, count, largest = _TOLERANCES.get(expected.dtype, _TOLERANCE), 0, 0.0
    for one, other in _chunks(got, expected):
        bad = torch.isclose(one, other, bar, bar, equal_nan=True).logical_not_()
        if (found := int(bad.sum())) > 0:
            count += found
            largest = max(largest, float((one - other).abs_().nan_to_num_(math.inf)[bad].max()))
    return (
        f"{count} of {got.numel()} elements are not within {bar:g}, the largest difference is {largest:.3g}"
        if count
        else ""
    )


def _is_worse(got: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether a result is further from that in float64 than PyTorch's own, by far."""
    (own, own_largest), (eager, eager_largest) = _error(got, exact), _error(expected, exact)
    allowed = EAGER * eager
    largest = max(SPREAD * allowed / math.sqrt(max(1, got.numel())), EAGER * eager_largest)
    return not (own <= allowed and own_largest <= largest)


def _error(got: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
    """The norm of the differences, and the largest; NaN and infinities that are the same count as none."""
    squares, largest = 0.0, 0.0
    for one, other in _chunks(got, exact):
        rounded = other.to(one.dtype)
        same = (one == rounded) | (one.isnan() & rounded.isnan())
        difference = torch.where(same, 0.0, one.double() - other).abs_()
        squares += float(difference.square().sum())
        largest = max(largest, float(difference.nan_to_num_(math.inf).max()))
    return math.sqrt(squares) if squares == squares else math.inf, largest


def _chunks(*values: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Parts of tensors of the same shape, element by element."""
    yield from map(list, zip(*(value.reshape(-1).split(_CHUNK) for value in values), strict=True))


def _doubled(value: torch.Tensor) -> torch.Tensor:
    return value.double() if value.is_floating_point() else value
