"""The entry of `deplodock`: starts the clock of `-v` before anything is imported."""

import gc
import importlib
import time
from typing import NoReturn


def main() -> NoReturn:
    """Run `deplodock` on the command line's arguments."""
    started = time.perf_counter()
    # What is imported stays; looking for garbage in it takes a third of the start. The command turns it on again.
    gc.disable()
    importlib.import_module("deplodock.tools.cli_app").main(started)
    raise AssertionError("the command line exits")


if __name__ == "__main__":
    main()
