"""Decompositions of Chebyshev's polynomials of the four kinds, whose degree is in a tensor, by their closed forms.

They are computed in float64, with angles where the argument is at most 1, and hyperbolic ones beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensor = torch.Tensor

_Kind: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def _first(x: Tensor, n: Tensor) -> Tensor:
    """`cos(n * a)` of `x = cos(a)`."""
    size, angle = _outside(x), _angle(x)
    return torch.where(x.abs() <= 1, torch.cos(n * angle), _sign(x, n) * torch.cosh(n * size))


def _second(x: Tensor, n: Tensor) -> Tensor:
    """`sin((n + 1) * a) / sin(a)` of `x = cos(a)`."""
    size, angle = _outside(x), _angle(x)
    inside = torch.where(x.abs() == 1, _sign(x, n) * (n + 1), torch.sin((n + 1) * angle) / torch.sin(angle))
    return torch.where(x.abs() <= 1, inside, _sign(x, n) * torch.sinh((n + 1) * size) / torch.sinh(size))


def _third(x: Tensor, n: Tensor) -> Tensor:
    """`cos((n + 1/2) * a) / cos(a / 2)` of `x = cos(a)`."""
    size, angle, half = _outside(x), _angle(x), n + 0.5
    inside = torch.where(x == -1, _sign(x, n) * (2 * n + 1), torch.cos(half * angle) / torch.cos(angle / 2))
    above = torch.cosh(half * size) / torch.cosh(size / 2)
    below = _sign(x, n) * torch.sinh(half * size) / torch.sinh(size / 2)
    return torch.where(x.abs() <= 1, inside, torch.where(x > 0, above, below))


def _fourth(x: Tensor, n: Tensor) -> Tensor:
    """`sin((n + 1/2) * a) / sin(a / 2)` of `x = cos(a)`: the third kind of `-x`, with the sign of the degree."""
    return (1 - 2 * _odd(n)) * _third(-x, n)


def _angle(x: Tensor) -> Tensor:
    return torch.acos(x.clamp(-1, 1))


def _outside(x: Tensor) -> Tensor:
    """The angle of `|x| = cosh(a)`, for `|x|` above 1."""
    return torch.acosh(x.abs().clamp(min=1))


def _odd(n: Tensor) -> Tensor:
    return n - 2 * torch.floor(n / 2)


def _sign(x: Tensor, n: Tensor) -> Tensor:
    """The sign of `x^n`."""
    return torch.where(x < 0, 1 - 2 * _odd(n), 1)


def _of(kind: _Kind, *, is_shifted: bool) -> Callable[..., Tensor]:
    """A kind for tensors and numbers; a shifted one is of `2 * x - 1`. Of a degree below zero it is 0."""

    def compute(x: Tensor | float, n: Tensor | float) -> Tensor:
        dtype = torch.result_type(x, n)
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        # A number stands beside a tensor.
        device = next(side.device for side in (x, n) if isinstance(side, Tensor))
        x, n = (_double(side, device) for side in (x, n))
        n = n.trunc()
        x = 2 * x - 1 if is_shifted else x
        return torch.where(n > 0, kind(x, n), torch.where(n == 0, 1, 0).double()).to(dtype)

    return compute


def _double(value: Tensor | float, device: torch.device) -> Tensor:
    if isinstance(value, Tensor):
        return value.double()
    return torch.full((), value, dtype=torch.float64, device=device)


POLYNOMIALS: Decompositions = {
    getattr(getattr(ATEN, f"special_{shifted}chebyshev_polynomial_{letter}"), overload): _of(
        kind, is_shifted=bool(shifted)
    )
    for letter, kind in (("t", _first), ("u", _second), ("v", _third), ("w", _fourth))
    for shifted in ("", "shifted_")
    for overload in ("default", "x_scalar", "n_scalar")
}
