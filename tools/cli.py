"""The entry of `deplodock`: starts the clock of `-v` before anything is imported."""

import importlib
import time
from typing import NoReturn


def main() -> NoReturn:
    """Run `deplodock` on the command line's arguments."""
    started = time.perf_counter()
    importlib.import_module("deplodock.tools.cli_app").main(started)
    raise AssertionError("the command line exits")


if __name__ == "__main__":
    main()
