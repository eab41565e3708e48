"""Pass pipelines as mlir-opt spells them: `builtin.module(..)` around the passes, and spaces between them."""

from __future__ import annotations

import re

from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from deplodock.errors import InvalidInputError
from deplodock.tools.diagnostics import located

_ANCHOR = re.compile(r"\s*(?:builtin\.)?module\s*\(")
_NAME = re.compile(r"[\w.-]*\s*$")
_HELD = re.compile(r'"(?:\\.|[^"\\])*"|\{[^{}]*\}|\[[^\[\]]*\]')
"""What may hold parentheses, commas and spaces of its own: strings, options, and the pipelines of other tools."""


def plain_pipeline(text: str) -> str:
    """A pipeline as xDSL takes it: `a,b{x=1 y=2}`.

    Raises:
        InvalidInputError: the text is no pipeline, or a nested one; the message has its place in `text`.
    """
    plain, columns = _flatten(text)
    try:
        list(parse_pipeline(plain))
    except ArgSpecParseError as error:
        *_, message = str(error).rstrip().splitlines()
        match = re.search(r"^pass-pipeline:1:(\d+)", str(error), re.MULTILINE)
        column = int(match[1]) - 1 if match else 0
        raise _error(text, columns[min(column, len(plain))], message.strip()) from None
    return plain


def _flatten(text: str) -> tuple[str, list[int]]:
    """The passes without the anchor and spaces between them, and where each character and the end stand in the text."""
    anchor = _ANCHOR.match(text)
    start, end = anchor.end() if anchor else 0, len(text.rstrip())
    columns: list[int] = []
    position, closed = start, None
    while position < end:
        if closed is not None and not text[position].isspace():
            raise _error(text, position, "the pipeline ends before this")
        if held := _HELD.match(text, position):
            columns.extend(range(position, held.end()))
            position = held.end()
            continue
        character = text[position]
        if character == "(":
            name = _NAME.search(text, start, position)
            raise _error(
                text,
                position if name is None else name.start(),
                "nested pipelines are not supported: all passes run on the module; write what is in the parentheses "
                "alone",
            )
        if character == ")":
            if anchor is None:
                raise _error(text, position, "no parenthesis is open here")
            closed = position
        elif not (character.isspace() and _is_between(text, position, start)):
            columns.append(position)
        position += 1
    if anchor is not None and closed is None:
        raise _error(text, anchor.end() - 1, "this parenthesis is not closed")
    return "".join(text[column] for column in columns), [*columns, end if closed is None else closed]


def _is_between(text: str, position: int, start: int) -> bool:
    """Whether a space is next to a comma, a parenthesis or an end, and so separates nothing else."""
    before, after = text[start:position].rstrip(), text[position:].lstrip()
    return before[-1:] in ("", ",") or after[:1] in ("", ",", ")")


def _error(text: str, position: int, message: str) -> InvalidInputError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    context = f"{text.splitlines()[line - 1] if text else ''}\n{' ' * (column - 1)}^"
    return InvalidInputError(located(f"pass-pipeline:{line}:{column}", message, context))
