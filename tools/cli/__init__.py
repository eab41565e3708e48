"""The entries of the tools. They collect no garbage while everything is imported: that takes a third of the start."""

import gc
import importlib.util
import sys
from typing import NoReturn

from deplodock.tools.clock import Clock
from deplodock.tools.start import import_torch, interruptible
from deplodock.tools.streams import replace_closed


def main() -> NoReturn:
    """Run `deplodock` on the command line's arguments; the clock of `-v` starts here, the command collects again."""
    clock = Clock()
    replace_closed()
    gc.disable()
    with interruptible():
        if _is_python(sys.argv[1:]) and importlib.util.find_spec("torch") is not None:
            # First, so that what PyTorch imports for itself is counted as its own.
            with clock.part("import torch"):
                import_torch()
        from deplodock.tools.cli import app as tool
    tool.main(clock)
    raise AssertionError("the command line exits")


def optimizer() -> NoReturn:
    """Run `deplodock-opt` on the command line's arguments."""
    replace_closed()
    gc.disable()
    with interruptible():
        from deplodock.tools import opt as tool
    gc.freeze()
    gc.enable()
    tool.main()
    raise AssertionError("the tool exits")


def _is_python(arguments: list[str]) -> bool:
    """Whether the command is about a program in Python, which PyTorch captures."""
    return any(argument == "-c" or argument.endswith(".py") for argument in arguments)
