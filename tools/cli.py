"""The entry of `deplodock`: starts the clock of `-v` before anything else is imported."""

import gc
import importlib
import importlib.util
import sys
from typing import NoReturn

from deplodock.tools.clock import Clock

TORCH = ("torch", "torch.export", "torch.fx.experimental.symbolic_shapes")
"""The parts of PyTorch that the frontend imports."""


def main() -> NoReturn:
    """Run `deplodock` on the command line's arguments."""
    clock = Clock()
    # What is imported stays; looking for garbage in it takes a third of the start. The command turns it on again.
    gc.disable()
    if _is_python(sys.argv[1:]) and importlib.util.find_spec("torch") is not None:
        # First, so that what PyTorch imports for itself is counted as its own.
        with clock.part("import torch"):
            for name in TORCH:
                importlib.import_module(name)
    importlib.import_module("deplodock.tools.cli_app").main(clock)
    raise AssertionError("the command line exits")


def _is_python(arguments: list[str]) -> bool:
    """Whether the command is about a program in Python, which PyTorch captures."""
    return any(argument == "-c" or argument.endswith(".py") for argument in arguments)


if __name__ == "__main__":
    main()
