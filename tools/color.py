"""Coloured text on the terminal: IR, CUDA and traces. Without colour, the text as it is."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.text import Text

Language = Literal["mlir", "cuda"]


class Color(StrEnum):
    """When to colour: `auto` is on a terminal, unless the environment sets NO_COLOR."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    def wanted(self) -> bool:
        """Whether stdout gets colours."""
        if self is not Color.AUTO:
            return self is Color.ALWAYS
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_MLIR_STYLES = {
    r'"[^"]*"': "green",
    r"%[\w$.-]+(#\d+)?": "cyan",
    r"@[\w$.-]+": "yellow",
    r"[#!]\w+(\.\w+)+": "magenta",
    r"(?<![\w%@#!.])[a-z_]\w*\.[a-z_][\w.]*": "bold",
    r"\b(memref|tensor|vector|index|[fi]\d+)\b": "blue",
}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_MARKERS = (">>> ", "<<< ", "--- ")


class Writer:
    """Writes to stdout; rich is imported when the first coloured text is written."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def code(self, text: str, language: Language) -> None:
        """Write the text of a program."""
        if not self._color:
            sys.stdout.write(text)
            return
        self._print(_highlight_cuda(text) if language == "cuda" else _highlight_mlir(text))

    def trace_line(self, line: str) -> None:
        """Write a line of a trace; markers are never coloured."""
        style = None if line.startswith(_MARKERS) else _DIFF_STYLES.get(line[:1])
        if not self._color or style is None:
            sys.stdout.write(line + "\n")
            return
        from rich.text import Text

        self._print(Text(line + "\n", style))

    def _print(self, text: Text) -> None:
        from rich.console import Console

        console = Console(file=sys.stdout, force_terminal=True, color_system="standard", highlight=False)
        console.print(text, soft_wrap=True, end="")


def _highlight_mlir(text: str) -> Text:
    from rich.text import Text

    result = Text(text)
    for pattern, style in _MLIR_STYLES.items():
        result.highlight_regex(pattern, style)
    return result


def _highlight_cuda(text: str) -> Text:
    from rich.syntax import Syntax
    from rich.text import Text

    highlighted = Syntax(text, "cuda", theme="ansi_dark").highlight(text)
    result = Text(text)
    result.spans.extend(highlighted.spans)
    return result
