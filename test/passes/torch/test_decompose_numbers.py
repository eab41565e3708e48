"""Numbers among the arguments: those that integers truncate, calls on numbers alone, and sums over an ellipsis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

i, m = torch.arange(-3, 4), torch.arange(-4, 5).reshape(3, 3)
x, y = (torch.randn(*shape, generator=torch.Generator().manual_seed(3)) for shape in ((2, 3, 4), (2, 5)))

INTEGERS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "hardtanh": lambda: (lambda i: (F.hardtanh(i, -0.6, 0.6), F.hardtanh(i, -1.5, 2.9), F.relu6(i)), (i,)),
    "masked_fill": lambda: (lambda i: (i.masked_fill(i > 0, 0.6), i.masked_fill(i < 0, -2.9)), (i,)),
    "masked_fill int8": lambda: (lambda i: i.masked_fill(i > 0, 7.5), (i.to(torch.int8),)),
    "addmm": lambda: (lambda m: (m.addmm(m, m, beta=0.6, alpha=2.9), m.addmm(m, m, beta=-1.5, alpha=0.2)), (m,)),
    "addmv": lambda: (lambda m: m[0].addmv(m, m[1], beta=2.5, alpha=-1.5), (m,)),
    "baddbmm": lambda: (lambda m: torch.baddbmm(m[None], m[None], m[None], beta=1.9, alpha=0.9), (m,)),
    "baddbmm uint8": lambda: (
        lambda m: torch.baddbmm(m[None], m[None], m[None], beta=1.9, alpha=3.5),
        (m.abs().to(torch.uint8),),
    ),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_truncate_numbers(check_with_torch: Callable[..., set[str]], name: str) -> None:
    function, args = INTEGERS[name]()
    check_with_torch(function, *args, exact=True)


def test_bounds_that_promote_are_not_truncated(check_with_torch: Callable[..., set[str]]) -> None:
    check_with_torch(lambda i: (i.clamp(-0.6, 0.6), i.clamp(max=1.5), i.clip(0.5)), i, exact=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda: (torch.add(2.0, 3.0), torch.add(2, 3, alpha=2), torch.add(2, 3.5), torch.add(True, 2)),
        lambda: (torch.mul(2, 3), torch.mul(True, False), torch.mul(2.5, True)),
        lambda: (torch.div(2, 3), torch.div(7, -2, rounding_mode="floor"), torch.true_divide(1.0, 3)),
        lambda: (torch.floor_divide(7, 2), torch.sub(1, 3), torch.sub(1.5, 3, alpha=2)),
    ],
)
def test_calls_on_numbers_alone(check_with_torch: Callable[..., set[str]], function: Callable[[], Any]) -> None:
    check_with_torch(function, exact=True)


@pytest.mark.parametrize(
    ("equation", "operands"),
    [
        ("...ik, ...j -> ij", (x, y)),
        ("...i -> i", (x,)),
        ("i... -> i", (x,)),
        ("... ->", (x,)),
        ("ij..., jk... -> ik", (x, x.permute(1, 0, 2))),
        ("...ij, ...jk -> ...ik", (x, x.mT)),
    ],
)
def test_einsum_sums_over_an_ellipsis_that_the_output_lacks(
    check_with_torch: Callable[..., set[str]], equation: str, operands: tuple[Any, ...]
) -> None:
    assert "einsum" in check_with_torch(lambda *values: torch.einsum(equation, *values), *operands)


def test_positions_of_any_type_where_there_are_none(check_with_torch: Callable[..., set[str]]) -> None:
    none = torch.zeros(0, 3, dtype=torch.uint8)
    other = torch.zeros(2, 0, dtype=torch.int64)
    check_with_torch(lambda m, none: (m.gather(0, none), m.gather(0, none.float().bool())), m, none, exact=True)
    check_with_torch(lambda i, other: (i.gather(0, other), i.gather(0, other[0])), i, other, exact=True)


def test_bounds_of_booleans(check_with_torch: Callable[..., set[str]]) -> None:
    check_with_torch(lambda b, c: (b.clamp_min(c), b.clamp_max(c), torch.maximum(b, c)), m > 0, m.T > 1, exact=True)
