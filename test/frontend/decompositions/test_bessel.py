"""Bessel's functions, Airy's and Chebyshev's polynomials are PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from deplodock.frontend.decompositions.bessel import BESSEL
from deplodock.frontend.decompositions.polynomials import POLYNOMIALS

EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 2.09, -2.09, 5.0, 8.4, 103.9, 1e3, 1e-8, float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("overload", BESSEL, ids=str)
def test_functions(overload: Any) -> None:
    x = torch.cat([torch.linspace(-20, 20, 801, dtype=torch.float64), torch.tensor(EDGES, dtype=torch.float64)])
    torch.testing.assert_close(BESSEL[overload](x), overload(x), rtol=1e-11, atol=1e-12, equal_nan=True)
    for dtype in (torch.float32, torch.int64):
        given = torch.arange(1, 5).to(dtype)
        torch.testing.assert_close(BESSEL[overload](given), overload(given), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("overload", POLYNOMIALS, ids=str)
def test_polynomials(overload: Any) -> None:
    x = torch.cat([torch.linspace(-9, 9, 97, dtype=torch.float64), torch.tensor([1.0, -1.0, 0.0, 0.5])])
    n = torch.arange(-2, 12)
    cases: list[tuple[Any, Any]] = [(x[:, None], n), (x[:, None], n + 0.75)]
    if overload._overloadname == "x_scalar":
        cases = [(0.3, n.double()), (2, n.double())]
    if overload._overloadname == "n_scalar":
        cases = [(x, 3), (x, 2)]
    for given in cases:
        torch.testing.assert_close(POLYNOMIALS[overload](*given), overload(*given), rtol=1e-9, atol=1e-9)


def test_types_of_polynomials() -> None:
    overload = torch.ops.aten.special_chebyshev_polynomial_u.default
    x, n = torch.linspace(-3, 3, 13), torch.arange(-2, 11)
    for given in ((x, n), (n, n), (n > 0, n), (x, n.double()), (n, n.float())):
        assert POLYNOMIALS[overload](*given).dtype == overload(*given).dtype
