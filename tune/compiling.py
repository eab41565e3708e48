"""The processes that lower candidates, one on each core: a schedule that takes too long costs its process alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.host.arguments import Role, argument_roles, entry_function, parameters
from deplodock.analysis.machine.targets import nvcc_arch
from deplodock.analysis.shape.derived import derived_buffers
from deplodock.analysis.shape.roundings import roundings
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.dialects.loop import memref_of
from deplodock.errors import UnsupportedError
from deplodock.interpreters.values import dtype_of
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.cubins import compiled_text
from deplodock.runtime.plan import BufferPlan
from deplodock.runtime.planned import PlannedProgram, planned_program
from deplodock.tune.candidate import Candidate
from deplodock.tune.floor import moved_bytes
from deplodock.tune.lowering import Lowered, Tiles, Trunk
from deplodock.tune.requests import Begin
from deplodock.tune.task import Task
from deplodock.tune.widened import rounds_inside, widen

_MOST_TASKS = 16
"""The tasks that a process keeps at tile level; each takes some megabytes."""


@dataclass(frozen=True)
class ToTiles:
    """Lower a task by a schedule to tile level. The answer is the digest of that, or a `Lowered` that is refused."""

    task: Task
    schedule: str


class ToKernel:
    """Go on with the last task. The answer is what `Trunk.kernel` gives."""


@dataclass(frozen=True)
class ToRun:
    """Call a function. The answer is a `Returned`, or the exception, if it raises one of what is wrong with input."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Returned:
    """What a function has returned."""

    value: Any


class ToStart:
    """Say that the process has started."""


Request: TypeAlias = ToTiles | ToKernel | ToRun | ToStart
"""What a process that lowers is asked."""


def serve(connection: Connection) -> None:
    """Answer requests."""
    worker = _Worker()
    while True:
        connection.send(worker.answer(connection.recv()))


class _Worker:
    """Lowers schedules of the last tasks that it was asked for."""

    def __init__(self) -> None:
        self._trunks: dict[str, Trunk] = {}
        self._last: tuple[Trunk, Tiles] | None = None

    def answer(self, request: Request) -> Any:
        """The answer to a request."""
        match request:
            case ToTiles(task, schedule):
                return self._tiles(task, schedule)
            case ToKernel():
                assert self._last is not None
                (trunk, tiles), self._last = self._last, None
                return trunk.kernel(tiles)
            case ToRun(function, args):
                return _returned(function, args)
            case ToStart():
                return None

    def _tiles(self, task: Task, schedule: str) -> str | Lowered:
        if (trunk := self._trunks.pop(task.key, None)) is None:
            while len(self._trunks) >= _MOST_TASKS:
                self._trunks.pop(next(iter(self._trunks)))
            try:
                trunk = Trunk(task)
            except DiagnosticException as error:
                return Lowered(Candidate(task.key, schedule, ""), "", " ".join(str(error).split()))
        self._trunks[task.key] = trunk
        if isinstance(tiles := trunk.tiles(schedule), Lowered):
            return tiles
        self._last = trunk, tiles
        return tiles.digest


def _returned(function: Callable[..., Any], args: Sequence[Any]) -> Returned | DiagnosticException:
    try:
        return Returned(function(*args))
    except DiagnosticException as error:
        return error


def beginning(task: Task) -> Begin:
    """What a device needs to know of a task, without machine code.

    Raises UnsupportedError, or what `driver.lower` raises, where it cannot be measured.
    """
    context = new_context()
    module = FloatLiteralsParser(context, task.text).parse_module()
    function = entry_function(module)
    roles = argument_roles(function)
    if Role.INOUT in roles:
        raise UnsupportedError("it writes into a buffer that it reads, so a second run gives something else")
    order = [number for role in (Role.IN, Role.OUT) for number, own in enumerate(roles) if own is role]
    buffers = tuple(_buffer(parameters(function)[number]) for number in order)
    inputs, outputs = buffers[: (count := roles.count(Role.IN))], buffers[count:]
    assert isinstance(function, func.FuncOp)
    derived = {
        order.index(number): replace(own, source=order.index(own.source))
        for number, own in derived_buffers(function).items()
    }
    rounded, moved, narrow = roundings(module), moved_bytes(module), None
    if rounds_inside(module):
        narrow = _widened(module.clone(), context, rounds=True)
    reference = _widened(module, context)
    return Begin(task.key, inputs, outputs, derived, reference, narrow, rounded, moved)


def _widened(module: ModuleOp, context: Context, *, rounds: bool = False) -> PlannedProgram:
    """The kernel of a module in float64, see `widen`."""
    widen(module, rounds=rounds)
    lower(module, context, Level.KERNEL)
    return planned_program(module)


def _buffer(value: SSAValue) -> BufferPlan:
    type = memref_of(value)
    return BufferPlan(tuple(type.get_shape()), dtype_of(type.element_type))


def machine_code(program: PlannedProgram, limit: float) -> tuple[PlannedProgram, int]:
    """A program with its machine code, and the bytes that its kernels spill.

    Raises CompileError where nothing compiles CUDA, the text is rejected, or takes more than `limit` seconds.
    """
    kernel = compiled_text(program.text, nvcc_arch(program.arch), limit=limit)
    spilled = sum(report.spill_stores + report.spill_loads for report in kernel.reports.values())
    return replace(program, cubin=kernel.cubin), spilled
