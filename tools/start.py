"""How a tool starts: interrupts while modules are imported, and the import of PyTorch, which takes longest."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_TORCH = ("torch", "torch.export", "torch.fx.experimental.symbolic_shapes")
"""The parts of PyTorch that the frontend imports."""


def import_torch() -> None:
    """Import what the frontend needs of PyTorch. Raises ImportError where it is not installed."""
    for name in _TORCH:
        importlib.import_module(name)


@contextmanager
def interruptible() -> Generator[None]:
    """End the process at once, and without a word, where Ctrl-C comes: modules may take its exception for their own."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Terminated(KeyboardInterrupt):
    """SIGTERM has come. What lets Ctrl-C pass lets this pass, too."""


@contextmanager
def terminable() -> Generator[None]:
    """End what the body does where SIGTERM comes, as where Ctrl-C does, with what `finally` says; the exit code is 143.

    It is for the main thread.
    """

    def terminate(number: int, _: FrameType | None) -> NoReturn:
        raise Terminated(number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except Terminated:
        sys.exit(128 + signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
