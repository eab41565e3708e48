"""The programs that are tuned, and a process that reads the programs of a table."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp

from deplodock.errors import Error
from deplodock.passes.driver import Level, level_of
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tools.bench.report import short
from deplodock.tools.bench.rows import Row
from deplodock.tools.cli.options import Options
from deplodock.tools.cli.program import Session
from deplodock.tools.clock import Clock
from deplodock.tune.parts import TunedProgram, parts_of

_LIMIT = 300.0
"""The seconds that a program may take to read and lower, with the start of the process and the import of PyTorch."""


Programs: TypeAlias = Generator[tuple[str, Callable[[], TunedProgram]], None, None]
"""Programs: the name of each, empty for one alone, and what reads it and gives its kernels."""


def program_alone(session: Session, module: ModuleOp) -> Programs:
    """A program above tile level."""
    yield "", lambda: program_of(session, module)


def programs_of(rows: Sequence[Row], options: Options) -> Programs:
    """The programs of rows, read in a process of its own: what one takes of memory, or ends, it does not take along."""
    process = Process(_serve, options)
    try:
        for row in rows:
            yield row.name, partial(_read, process, row)
    finally:
        process.kill()


def program_of(session: Session, module: ModuleOp) -> TunedProgram:
    """A program with its kernels, for which it is lowered to loops.

    Raises InvalidInputError if there are none, and what lowering raises.
    """
    text = session.text(module, Level.TORCH) if level_of(module) is Level.TORCH else ""
    session.lower(module, Level.LOOP)
    return TunedProgram(parts_of(module), text)


def _read(process: Process, row: Row) -> TunedProgram:
    """The program of a row. Raises Error, with what is wrong in one line, where there are none."""
    try:
        found: TunedProgram | str = process.ask(row, _LIMIT)
    except TooLate:
        raise Error(f"it takes more than {_LIMIT:g} s to read") from None
    except Ended as error:
        raise Error(f"where it is read, {error}") from None
    if isinstance(found, str):
        raise Error(found)
    return found


def _serve(connection: Connection, options: Options) -> None:
    """Answer rows by their programs, or why there are none."""
    while True:
        connection.send(_program_or_reason(connection.recv(), options))
        gc.unfreeze()
        gc.collect()


def _program_or_reason(row: Row, options: Options) -> TunedProgram | str:
    try:
        session = Session(replace(options, precision=row.precision), Clock())
        return program_of(session, session.read_expression(row.text).module)
    except Exception as error:
        return short(error)
