"""Compares the backend of torch.compile with PyTorch in all that a caller sees of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

Tensor = torch.Tensor
Make = Callable[[], tuple[Any, ...]]


def ramp(*shape: int, gradient: bool = False) -> Tensor:
    return (torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 7 - 1).requires_grad_(gradient)


def same(got: Any, wanted: Any) -> None:
    if not isinstance(wanted, Tensor):
        assert got == wanted
        return
    for what in ("dtype", "shape", "requires_grad", "is_leaf"):
        assert getattr(got, what) == getattr(wanted, what)
    assert (got.stride(), got.storage_offset()) == (wanted.stride(), wanted.storage_offset())
    torch.testing.assert_close(got.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)


def run(function: Callable[..., Any], make: Make) -> tuple[list[Any], list[Any]]:
    """All results and arguments of a call."""
    args = make()
    results = pytree.tree_leaves(function(*args))
    return results, [*results, *pytree.tree_leaves(args)]


def gradients(results: list[Any], args: list[Any]) -> list[Tensor]:
    outputs = [value for value in results if isinstance(value, Tensor) and value.requires_grad]
    inputs = [value for value in args if value.requires_grad]
    return list(torch.autograd.grad([value.square().sum() for value in outputs], inputs)) if inputs else []


def written(value: Tensor) -> str:
    """Write into a tensor; whether autograd refuses that."""
    try:
        value.add_(3)
    except RuntimeError:
        return "refused"
    return "written"


def check_like_eager(program: Callable[..., Any], make: Make) -> None:
    """Run a program in PyTorch and through the backend; then write into each result, and compare all again."""
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="deplodock")
    wanted, all_wanted = run(program, make)
    got, all_got = run(compiled, make)
    for one, other in zip(all_got, all_wanted, strict=True):
        same(one, other)
    for one, other in zip(
        gradients(got, all_got[len(got) :]), gradients(wanted, all_wanted[len(wanted) :]), strict=True
    ):
        same(one, other)
    for number, value in enumerate(wanted):
        if isinstance(value, Tensor):
            (results, all_wanted), (own, all_got) = run(program, make), run(compiled, make)
            assert written(own[number]) == written(results[number])
            for one, other in zip(all_got, all_wanted, strict=True):
                same(one, other)
