"""A kernel that is tuned: its text at loop level, apart from the program that it is of, and its key."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from deplodock.analysis.machine.targets import ATTRIBUTE as TARGET
from deplodock.analysis.shape.kernel_identity import kernel_key
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.passes.driver import new_context
from deplodock.schedule.steps import ATTRIBUTE as SCHEDULE


@dataclass(frozen=True)
class Task:
    """A kernel that is tuned."""

    key: str
    """Hexadecimal digits, equal for kernels that compute the same for the same target, whatever their names."""
    name: str
    """The name of its function."""
    text: str
    """A module with this function alone, at loop level and without a schedule, and its target."""


def tasks(module: ModuleOp) -> list[Task]:
    """The kernels of a module at loop level that states its target, each once where several are equal."""
    found: dict[str, Task] = {}
    for function in kernels(module):
        if not launches(function):
            task = task_of(function, module)
            found.setdefault(task.key, task)
    return list(found.values())


def task_of(function: func.FuncOp, module: ModuleOp) -> Task:
    """A kernel function at loop level, of a module that states its target, as a task."""
    alone = function.clone()
    alone.attributes.pop(SCHEDULE, None)
    own = ModuleOp([alone], {TARGET: module.attributes[TARGET]})
    stream = StringIO()
    Printer(stream).print_op(own)
    return Task(kernel_key(alone), alone.sym_name.data, stream.getvalue() + "\n")


def module_of(task: Task) -> tuple[ModuleOp, Context]:
    """The module of a task, and a context that it may be lowered in."""
    context = new_context()
    return FloatLiteralsParser(context, task.text).parse_module(), context
