"""How a tool starts: interrupts while modules are imported, and the import of PyTorch, which takes longest."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

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
