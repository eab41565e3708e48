"""The user's Python text: positions in it, and errors that point at them."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass, field
from types import TracebackType

from deplodock.errors import Error


@dataclass(frozen=True)
class Position:
    """A stretch of one source line; lines and columns count from 1, `end` is the column after its last character."""

    line: int
    column: int
    end: int


@dataclass
class Source:
    """A Python text with a file name, known to `linecache` under it.

    PyTorch records source lines of the operations it traces, but no columns. `mark` therefore gives every node of a
    syntax tree a line number of its own, beyond the lines of the text, which `position` translates back.
    """

    text: str
    filename: str
    marks: list[Position] = field(default_factory=list[Position])

    def __post_init__(self) -> None:
        self._register()

    @property
    def lines(self) -> list[str]:
        """The lines of the text."""
        return self.text.split("\n")

    def mark(self, tree: ast.AST) -> None:
        """Give each node below `tree` its own line number."""
        for node in ast.walk(tree):
            if isinstance(node, ast.expr | ast.keyword | ast.arg):
                self.marks.append(self.position_of(node))
                node.lineno = node.end_lineno = len(self.lines) + len(self.marks)
        self._register()

    def position_of(self, node: ast.stmt | ast.expr | ast.keyword | ast.arg) -> Position:
        """Where an unmarked node of the text starts, and where it or its first line ends."""
        return self._position(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def position(self, line: int) -> Position:
        """The position that a line number in code compiled from this text stands for."""
        if line > len(self.lines):
            return self.marks[line - len(self.lines) - 1]
        content = self.lines[line - 1]
        return Position(line, len(content) - len(content.lstrip()) + 1, len(content) + 1)

    def position_of_traceback(self, traceback: TracebackType | None) -> Position | None:
        """Where the innermost frame of this text stood, or None if none is of this text."""
        found = None
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code.co_filename == self.filename:
                line, end_line, column, end_column = list(code.co_positions())[traceback.tb_lasti // 2]
                if line is None or column is None or line > len(self.lines):
                    found = self.position(traceback.tb_lineno)
                else:
                    found = self._position(line, column, end_line, end_column)
            traceback = traceback.tb_next
        return found

    def error(self, kind: type[Error], message: str, position: Position | None) -> Error:
        """An error of class `kind` whose message points at `position` with a caret."""
        if position is None:
            return kind(f"{self.filename}: error: {message}")
        line = self.lines[position.line - 1]
        indent = "".join(char if char == "\t" else " " for char in line[: position.column - 1])
        pointer = indent + "^" + "~" * (position.end - position.column - 1)
        where = f"{self.filename}:{position.line}:{position.column}"
        return kind(f"{where}: error: {message}\n{line}\n{pointer}")

    def _position(self, line: int, column: int, end_line: int | None, end_column: int | None) -> Position:
        """The position for columns in bytes from 0, as Python counts them (wrongly inside an f-string, before 3.12)."""
        line = min(line, len(self.lines))
        content = self.lines[line - 1].encode()
        end = len(content) if end_line != line or end_column is None else end_column
        start, stop = (len(content[:offset].decode(errors="ignore")) + 1 for offset in (column, end))
        return Position(line, start, stop)

    def _register(self) -> None:
        lines = [*self.lines, *(self.lines[mark.line - 1] for mark in self.marks)]
        linecache.cache[self.filename] = (len(self.text), None, [line + "\n" for line in lines], self.filename)
