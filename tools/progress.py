"""What is being done, on stderr if that is a terminal: a line for each part of a command, a bar for many alike."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

T = TypeVar("T")

_DELAY = 0.5
"""The seconds after which a part is shown, and then its time again."""

_CLEAR = "\r\x1b[K"
"""Goes to the start of a terminal's line and clears it."""

_parts: list[str] = []
"""The parts that are being done: the last is done within those before it, and shown."""


@contextmanager
def working(what: str) -> Generator[Callable[[str], None]]:
    """Show what is done, and for how long, while the body runs, which is given a function that says it anew."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    _parts.append(what)
    done, place = threading.Event(), len(_parts) - 1
    thread = threading.Thread(target=_show, args=(place, done, sys.stderr), daemon=True)
    thread.start()
    try:
        yield lambda text: _parts.__setitem__(place, text)
    finally:
        done.set()
        thread.join()
        _parts.pop()


def _show(place: int, done: threading.Event, stream: TextIO) -> None:
    """Write the line of a part, while it is the innermost, again and again; clear it at the end."""
    start, is_shown = time.monotonic(), False
    while not done.wait(_DELAY):
        if len(_parts) == place + 1:
            stream.write(f"{_CLEAR}deplodock: {_parts[place]}, {time.monotonic() - start:.0f} s")
            stream.flush()
            is_shown = True
    if is_shown:
        stream.write(_CLEAR)
        stream.flush()


def tracked(items: Iterable[T], count: int, what: str) -> Iterator[T]:
    """The items, with a bar that says what is done with them; what is printed meanwhile stands above it."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as progress:
        yield from progress.track(items, count, description=what)
