"""Quotients and remainders as atoms of forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

F = TypeVar("F", covariant=True)


@dataclass(frozen=True)
class Division(Generic[F]):
    """The floor quotient (`remainder` false) or the remainder of a form by a positive divisor."""

    form: F
    divisor: int
    remainder: bool
