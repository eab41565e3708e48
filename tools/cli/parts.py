"""The kernels of programs that are tuned, and a process that reads the programs of a table."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import TypeAlias

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp

from deplodock.analysis.shape.nest import kernels, launches
from deplodock.errors import Error, InvalidInputError
from deplodock.passes.driver import Level
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.runtime.simulated import repeats
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.steps import format_schedule
from deplodock.tools.bench.report import short
from deplodock.tools.bench.rows import Row
from deplodock.tools.cli.options import Options
from deplodock.tools.cli.program import Session
from deplodock.tools.clock import Clock
from deplodock.tune.task import Task, task_of

_LIMIT = 300.0
"""The seconds that a program may take to read and lower, with the start of the process and the import of PyTorch."""


@dataclass(frozen=True)
class TunedPart:
    """A kernel of a program: how often a run launches it, what its buffers are, and the heuristics' schedule."""

    task: Task
    count: int
    buffers: str
    heuristic: str

    @property
    def what(self) -> str:
        """A name for people: the function and the types of its buffers."""
        return f"{self.task.name} {self.buffers}"


Programs: TypeAlias = Generator[tuple[str, Callable[[], Sequence[TunedPart]]], None, None]
"""Programs: the name of each, empty for one alone, and what reads it and gives its kernels."""


def program_alone(session: Session, module: ModuleOp) -> Programs:
    """A program above tile level."""
    yield "", lambda: parts_of(session, module)


def programs_of(rows: Sequence[Row], options: Options) -> Programs:
    """The programs of rows, read in a process of its own: what one takes of memory, or ends, it does not take along."""
    process = Process(_serve, options)
    try:
        for row in rows:
            yield row.name, partial(_read, process, row)
    finally:
        process.kill()


def parts_of(session: Session, module: ModuleOp) -> list[TunedPart]:
    """The kernels of a program, which is lowered to loops, equal ones once.

    Raises InvalidInputError if there are none, and what lowering raises.
    """
    session.lower(module, Level.LOOP)
    counts = Counter[str]()
    for op in module.walk():
        if isinstance(op, CallOp):
            counts[op.callee.string_value()] += repeats(op)
    found: dict[str, TunedPart] = {}
    for function in kernels(module):
        if launches(function):
            continue
        task, count = task_of(function, module), counts[function.sym_name.data] or 1
        count += found[task.key].count if task.key in found else 0
        found[task.key] = TunedPart(task, count, _buffers(function), format_schedule(choose(function)))
    if not found:
        raise InvalidInputError("there is no kernel to tune, above tile level")
    return list(found.values())


def _buffers(function: FuncOp) -> str:
    types = [type for type in function.function_type.inputs if isinstance(type, MemRefType)]
    return ", ".join("x".join(map(str, (*type.get_shape(), type.element_type))) for type in types)


def _read(process: Process, row: Row) -> list[TunedPart]:
    """The kernels of a row. Raises Error, with what is wrong in one line, where there are none."""
    try:
        found: list[TunedPart] | str = process.ask(row, _LIMIT)
    except TooLate:
        raise Error(f"it takes more than {_LIMIT:g} s to read") from None
    except Ended as error:
        raise Error(f"where it is read, {error}") from None
    if isinstance(found, str):
        raise Error(found)
    return found


def _serve(connection: Connection, options: Options) -> None:
    """Answer rows by their kernels, or why there are none."""
    while True:
        connection.send(_parts_or_reason(connection.recv(), options))
        gc.unfreeze()
        gc.collect()


def _parts_or_reason(row: Row, options: Options) -> list[TunedPart] | str:
    try:
        session = Session(replace(options, precision=row.precision), Clock())
        return parts_of(session, session.read_expression(row.text).module)
    except Exception as error:
        return short(error)
