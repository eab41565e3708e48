"""The rows of `deplodock bench`, read from `bench/table.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import deplodock
from deplodock.dialects.precision import PRECISIONS
from deplodock.errors import InvalidInputError

_TABLE = Path(deplodock.__file__).parent / "bench" / "table.toml"


@dataclass(frozen=True)
class Row:
    """A program to measure: the text that `-c` takes, and the kind, model and sequence length that it stands for.

    `precision` is that of its products of FP32.
    """

    name: str
    kind: str
    model: str
    s: int | None
    text: str
    precision: str = PRECISIONS[0]


def read_models() -> dict[str, dict[str, int]]:
    """The widths of the models by name, with 1 for `bias` where queries, keys and values have one."""
    return _table()["models"]


def read_rows(path: Path | None = None) -> list[Row]:
    """All rows, in the order of the table, which is the benchmark's or that of a file of the same form.

    In the file `[rows]` may be all there is.

    Raises:
        OSError: the file cannot be read.
        InvalidInputError: it is no such file.
    """
    table = _table(path or _TABLE)
    return [*_of_models(table), *_alone(table)]


def chosen(
    rows: Sequence[Row],
    names: Sequence[str],
    models: Sequence[str],
    lengths: Sequence[int],
    listed: Container[str] | None = None,
    precision: str | None = None,
) -> list[Row]:
    """The rows that one of `names` is part of, or is a glob of, of these models and sequence lengths.

    An empty list allows all; `listed`, if given, has the names of all that count, `precision` is theirs. Raises
    InvalidInputError if no row is left.
    """
    found = [
        row
        for row in rows
        if (not names or any(name in row.name or fnmatchcase(row.name, name) for name in names))
        and (not models or row.model in models)
        and (not lengths or row.s in lengths)
        and (listed is None or row.name in listed)
        and (precision is None or row.precision == precision)
    ]
    if not found:
        raise InvalidInputError("no row of the benchmark is like that; `deplodock bench --list` shows them")
    return found


def read_names(path: Path, rows: Sequence[Row]) -> set[str]:
    """The names of rows in a file, one a line; empty lines and those that begin with # do not count.

    Raises:
        OSError: the file cannot be read.
        InvalidInputError: a line is no name of a row.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    known = {row.name for row in rows}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#") and line.strip() not in known:
            raise InvalidInputError(f"{path}:{number}: error: there is no row {line.strip()}; --list shows them")
    return {line.strip() for line in lines} & known


def _table(path: Path = _TABLE) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: error: no table of programs: {error}") from None
    if not isinstance(table.get("rows"), dict):
        raise InvalidInputError(f"{path}: error: no table of programs: [rows] has an expression for each name")
    return table


def _of_models(table: dict[str, Any]) -> Iterator[Row]:
    for model, sizes in table.get("models", {}).items():
        kinds = {**table["kinds"], **table["kinds_of"][model]}
        known = {**kinds, **table.get("products", {})}
        for precision, kind, template in _at_precisions(kinds, known, table.get("precisions", {})):
            for s in table["s_of"].get(kind, table["s"]):
                yield Row(f"{model}/{kind}/{s}", kind, model, s, template.format(s=s, **sizes), precision)


def _alone(table: dict[str, Any]) -> Iterator[Row]:
    for precision, name, text in _at_precisions(table["rows"], table["rows"], table.get("precisions", {})):
        yield Row(name, name, "", None, text, precision)


def _at_precisions(
    highest: dict[str, str], known: dict[str, str], precisions: dict[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """The precision, the name and the text of what is measured at the highest precision, then of what is at others."""
    yield from ((PRECISIONS[0], name, text) for name, text in highest.items())
    for precision, names in precisions.items():
        yield from ((precision, f"{precision}/{name}", known[name]) for name in names if name in known)
