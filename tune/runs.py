"""Functions that take long: called here, or by whoever has other processes for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Call(Protocol):
    """Calls a function of a module, whose arguments and results other processes can be given, and waits for it."""

    def __call__(self, function: Callable[..., T], *args: Any) -> T:
        """What the function returns, or raises."""
        ...


def direct(function: Callable[..., T], *args: Any) -> T:
    """Call it here."""
    return function(*args)
