"""What `--verify-diagnostics` compares: the diagnostics of a run, and those that comments of the file expect.

    %y = loop.nope              // expected-error {{operation loop.nope is not registered}}
    // expected-error@+1 {{is not registered}}
    // expected-remark@below {{skipped}}
    // expected-error-re@above {{got {{[0-9]+}} of them}}

A comment is about its own line, or about that of `@+N`, `@-N`, `@above` or `@below`, which leave out lines with such
comments alone; `@unknown` is about a diagnostic without a place. The text is a part of the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deplodock.errors import InvalidInputError
from deplodock.tools.diagnostics import located

KINDS = ("error", "warning", "remark", "note")

_MARK = re.compile(r"//\s*expected-")
_EXPECTED = re.compile(
    rf"//\s*expected-({'|'.join(KINDS)})(-re)?\s*(?:@([+-]\d+|above|below|unknown))?\s*\{{\{{(.*)\}}\}}\s*$"
)
_ALONE = re.compile(r"\s*//\s*expected-")
_DIAGNOSTIC = re.compile(rf"^(?:.*?:(\d+):\d+|[^:]*): ({'|'.join(KINDS)}): (.*)$|^(note): (.*)$")


@dataclass(frozen=True)
class Diagnostic:
    """What a tool says of a line, counted from 1, or of none in particular."""

    kind: str
    line: int | None
    message: str


@dataclass
class Expectation:
    """A comment in line `written` of the file: a diagnostic of this kind about a line holds this text."""

    kind: str
    line: int | None
    text: str
    is_pattern: bool
    written: int
    met: bool = field(default=False)

    def fits(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic is what the comment expects."""
        if (self.kind, self.line) != (diagnostic.kind, diagnostic.line):
            return False
        if not self.is_pattern:
            return self.text in diagnostic.message
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        pattern = "".join(f"(?:{part})" if place % 2 else re.escape(part) for place, part in enumerate(parts))
        return re.search(pattern, diagnostic.message) is not None


def has_expectations(source: str) -> bool:
    """Whether any comment of a file expects a diagnostic."""
    return _MARK.search(source) is not None


def expectations(source: str, file: str) -> list[Expectation]:
    """What the comments of a text expect.

    Raises:
        InvalidInputError: a comment is no expectation, though it starts as one.
    """
    lines = source.split("\n")
    found: list[Expectation] = []
    for number, line in enumerate(lines, 1):
        if (mark := _MARK.search(line)) is None:
            continue
        match = _EXPECTED.search(line)
        try:
            assert match is not None
            kind, pattern, place, text = match.groups()
            found.append(Expectation(kind, _line(lines, number, place), text, bool(pattern), number))
            found[-1].fits(Diagnostic(kind, found[-1].line, ""))
        except (AssertionError, IndexError, re.error):
            message = "an expectation is such as `// expected-error@+1 {{text}}`"
            raise InvalidInputError(located(f"{file}:{number}:{mark.start() + 1}", message)) from None
    return found


def _line(lines: Sequence[str], number: int, place: str | None) -> int | None:
    match place:
        case None:
            return number
        case "unknown":
            return None
        case "above" | "below":
            step = -1 if place == "above" else 1
            number += step
            while _ALONE.match(lines[number - 1]):
                number += step
            return number
        case _:
            return number + int(place)


def diagnostics_of(text: str) -> Iterator[Diagnostic]:
    """The diagnostics of a message as `describe` gives it, with its notes."""
    for line in text.splitlines():
        if match := _DIAGNOSTIC.match(line):
            number, kind, message, note, noted = match.groups()
            yield Diagnostic(kind or note, None if number is None else int(number), message or noted)


def differences(expected: Sequence[Expectation], found: Sequence[Diagnostic], file: str) -> list[str]:
    """A message for each error and warning that nobody expects, and for each expectation that nothing meets.

    Each expectation is met once. Remarks and notes may come unexpected.
    """
    messages: list[str] = []
    for diagnostic in found:
        comment = next((one for one in expected if not one.met and one.fits(diagnostic)), None)
        if comment is not None:
            comment.met = True
        elif diagnostic.kind in ("error", "warning"):
            place = file if diagnostic.line is None else f"{file}:{diagnostic.line}"
            messages.append(f"{place}: error: unexpected {diagnostic.kind}: {diagnostic.message}")
    missing = [one for one in expected if not one.met]
    return [*messages, *(f'{file}:{o.written}: error: expected {o.kind} "{o.text}" was not produced' for o in missing)]
