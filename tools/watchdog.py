"""A limit for what waits on a GPU: a kernel that never ends is stopped by the end of its process alone."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def limited(seconds: float, what: str) -> Generator[None]:
    """End the process, with a message that says what does not end, if the body takes longer."""

    def end() -> None:
        print(f"deplodock: error: no end in {seconds:g} s: {what}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
