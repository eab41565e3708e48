"""`deplodock-gui`: the interactive tool of xDSL with the dialects and passes of all installed packages.

xDSL's own `xdsl-gui` has only what is in xDSL. Its parser, which has no aliases before their lines, reads the text.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from deplodock.errors import Error
from deplodock.passes.packages import packages, with_added
from deplodock.passes.pipeline import PASSES
from deplodock.tools.diagnostics import decode, run_tool

if TYPE_CHECKING:
    from xdsl.interactive.app import InputApp


def dialects() -> tuple[tuple[str, Callable[[], Dialect]], ...]:
    """The dialects that the tool reads, by name."""
    return tuple(packages().universe.all_dialects.items())


def passes() -> tuple[tuple[str, type[ModulePass]], ...]:
    """The passes that the tool offers, by name: those of the pipeline in its order, then the others."""
    others = sorted(packages().universe.all_passes.items())
    offered = {stage.name: stage.load for stage in with_added(PASSES)} | dict(others)
    return tuple((name, load()) for name, load in offered.items())


def new_app(file: str | None) -> InputApp:
    """The tool with the text of a file, or with an example.

    Raises:
        OSError, InvalidInputError: the file cannot be read, or is no text.
        Error: the tool is not installed.
    """
    text = None if file is None else decode(Path(file).read_bytes(), file)
    try:
        from xdsl.interactive.app import InputApp
    except ModuleNotFoundError as error:
        raise Error(f"{error.name} is not installed: pip install 'deplodock[gui]'") from None
    return InputApp(dialects(), passes(), file, text)


def main() -> NoReturn:
    """Run `deplodock-gui` on the command line's arguments."""
    parser = argparse.ArgumentParser("deplodock-gui", description="Try passes on IR text in the terminal.")
    parser.add_argument("file", nargs="?", metavar="FILE", help="IR text of any level; an example if it is missing")
    file = parser.parse_args().file
    run_tool("deplodock-gui", lambda: new_app(file).run())
