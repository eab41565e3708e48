"""Records as text: JSON that somebody else may have written, an object, or one in each line of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from deplodock.runtime.files import check_size, opened

T = TypeVar("T")

_LONGEST_LINE = 1 << 20
"""The most bytes of a line; those that we write have some thousands."""

_LARGEST_FILE = 1 << 28
"""The most bytes of a file of lines; what is made of them takes a few times as much memory."""

_LONGEST_MESSAGE = 400

_MOST = 1 << 62
"""What no size, number or offset reaches."""

LEAST_US, MOST_US = 0.1, 1e10
"""The least and the most microseconds that a kernel can take: to start one takes longer than the first."""


def read_json(text: str) -> Any:
    """The value of a text of JSON. Raises ValueError for any other text, and for one that nests too deep."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def json_lines(
    path: Path, read: Callable[[Mapping[str, Any]], T], *, is_log: bool = False
) -> Iterator[tuple[int, T | ValueError]]:
    """What `read` makes of the object in each line of a file, or the error that says why it is none, by line numbers.

    Lines of spaces are left out, and of a log the last line if it has no end: its writer was killed. Raises OSError
    where the file cannot be read, is no regular file, or is too large.
    """
    with opened(path) as file:
        check_size(file, path, _LARGEST_FILE)
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                yield number, ValueError(f"the line has more than {_LONGEST_LINE} bytes")
                return
            if not line.isspace() and not (is_log and not line.endswith(b"\n")):
                yield number, _made(line, read)


def _made(line: bytes, read: Callable[[Mapping[str, Any]], T]) -> T | ValueError:
    try:
        value = read_json(line.decode())
        if not isinstance(value, Mapping):
            raise ValueError("not an object")
        return read(cast(Mapping[str, Any], value))
    except UnicodeDecodeError:
        return ValueError("it is not UTF-8 text")
    except ValueError as error:
        return error


def check_texts(fields: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ValueError where some fields are missing, or are no text."""
    if wrong := [name for name in names if not isinstance(fields.get(name), str)]:
        raise ValueError(f"{', '.join(wrong)} must be there, as text")


def is_time(value: Any) -> bool:
    """Whether a value is a number of microseconds that a kernel can take."""
    return type(value) in (int, float) and LEAST_US <= value <= MOST_US


def microseconds(value: Any) -> float:
    """A time of a kernel. Raises ValueError for what is no number, or no time that a kernel can take."""
    if not is_time(value):
        raise ValueError(f"a time must be a number of microseconds from {LEAST_US} to {MOST_US:g}, got {shown(value)}")
    return float(value)


def natural(value: Any) -> int:
    """A number of JSON that counts or numbers something. Raises ValueError for any other value."""
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError(f"a number must be 0 or more, got {shown(value)}")
    return value


def naturals(values: Any) -> tuple[int, ...]:
    """A list of such numbers. Raises ValueError for any other value."""
    if not isinstance(values, list):
        raise ValueError(f"numbers must be a list, got {shown(values)}")
    return tuple(natural(value) for value in cast(list[Any], values))


def shown(value: Any) -> str:
    """A value of JSON as a message shows it: in one line, not all of a long one."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deep nest"
    return text if len(text) <= 60 else f"{text[:57]}..."


def one_line(text: str) -> str:
    """A text that may hold anything as a part of a message: in one line, without signs that terminals take for more."""
    words = " ".join(text.split())
    plain = "".join(sign if sign.isprintable() else "?" for sign in words[: _LONGEST_MESSAGE + 1])
    return plain if len(plain) <= _LONGEST_MESSAGE else f"{plain[:_LONGEST_MESSAGE]}.."


def _refuse(name: str) -> float:
    """JSON has no such numbers, but Python reads them."""
    raise ValueError(f"{name} is no number of JSON")
