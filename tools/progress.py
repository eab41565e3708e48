"""A progress bar for long work, on stderr if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def tracked(items: Iterable[T], count: int, what: str) -> Iterator[T]:
    """The items, with a bar that says what is done with them; what is printed meanwhile stands above it."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as progress:
        yield from progress.track(items, count, description=what)
