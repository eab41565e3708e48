"""The entries of the tools. They collect no garbage while everything is imported: that takes a third of the start."""

import gc
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from deplodock.tools.clock import Clock
from deplodock.tools.streams import replace_closed

TORCH = ("torch", "torch.export", "torch.fx.experimental.symbolic_shapes")
"""The parts of PyTorch that the frontend imports."""


def main() -> NoReturn:
    """Run `deplodock` on the command line's arguments; the clock of `-v` starts here, the command collects again."""
    clock = Clock()
    replace_closed()
    gc.disable()
    with _interruptible():
        if _is_python(sys.argv[1:]) and importlib.util.find_spec("torch") is not None:
            # First, so that what PyTorch imports for itself is counted as its own.
            with clock.part("import torch"):
                for name in TORCH:
                    importlib.import_module(name)
        tool = importlib.import_module("deplodock.tools.cli.app")
    tool.main(clock)
    raise AssertionError("the command line exits")


def optimizer() -> NoReturn:
    """Run `deplodock-opt` on the command line's arguments."""
    replace_closed()
    gc.disable()
    with _interruptible():
        tool = importlib.import_module("deplodock.tools.opt")
    gc.freeze()
    gc.enable()
    tool.main()
    raise AssertionError("the tool exits")


@contextmanager
def _interruptible() -> Generator[None]:
    """End the process at once, and without a word, where Ctrl-C comes: modules may take its exception for their own."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_python(arguments: list[str]) -> bool:
    """Whether the command is about a program in Python, which PyTorch captures."""
    return any(argument == "-c" or argument.endswith(".py") for argument in arguments)
