"""The processes that lower candidates, one on each core: a schedule that takes too long costs its process alone."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.connection import Connection

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.host.arguments import Role, argument_roles, entry_function, parameters
from deplodock.analysis.machine.targets import nvcc_arch
from deplodock.analysis.shape.reductions import longest_reduction
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.dialects.loop import memref_of
from deplodock.dialects.precision import coarsest_precision
from deplodock.errors import UnsupportedError
from deplodock.interpreters.values import dtype_of
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.cubins import compiled_text
from deplodock.runtime.plan import BufferPlan
from deplodock.runtime.planned import PlannedProgram, planned_program
from deplodock.tune.floor import moved_bytes
from deplodock.tune.lowering import lower_planned
from deplodock.tune.requests import Begin
from deplodock.tune.task import Task
from deplodock.tune.widened import widen


def serve(connection: Connection) -> None:
    """Answer requests: a task with a schedule by what `lower_planned` gives, a task alone by its `Begin`.

    The latter comes without machine code; the answer is the reason where there is none. None asks whether the process
    has started; the answer is None.
    """
    while True:
        if (request := connection.recv()) is None:
            connection.send(None)
            continue
        task, schedule = request
        connection.send(_begin_or_reason(task) if schedule is None else lower_planned(task, schedule))


def _begin_or_reason(task: Task) -> Begin | str:
    try:
        return beginning(task)
    except DiagnosticException as error:
        return " ".join(str(error).split())


def beginning(task: Task) -> Begin:
    """What a device needs to know of a task.

    Raises UnsupportedError, or what `driver.lower` raises, where it cannot be measured.
    """
    context = new_context()
    module = FloatLiteralsParser(context, task.text).parse_module()
    function = entry_function(module)
    roles = argument_roles(function)
    if Role.INOUT in roles:
        raise UnsupportedError("it writes into a buffer that it reads, so a second run gives something else")
    inputs, outputs = (
        tuple(_buffer(value) for value, own in zip(parameters(function), roles, strict=True) if own is role)
        for role in (Role.IN, Role.OUT)
    )
    extent, precision, moved = longest_reduction(module), coarsest_precision(module), moved_bytes(module)
    widen(module)
    lower(module, context, Level.KERNEL)
    return Begin(task.key, inputs, outputs, planned_program(module), extent, precision, moved)


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
