"""The kernels of a program, each with what tuning needs to know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp

from deplodock.analysis.shape.nest import kernels, launches
from deplodock.errors import InvalidInputError
from deplodock.runtime.simulated import repeats
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.steps import format_schedule
from deplodock.tune.task import Task, task_of


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


@dataclass(frozen=True)
class TunedProgram:
    """A program: its kernels, and its text before any lowering, empty where it has its kernels already."""

    parts: Sequence[TunedPart]
    text: str = ""


def parts_of(module: ModuleOp, known: Mapping[str, str] = MappingProxyType({})) -> list[TunedPart]:
    """The kernels of a module at loop level, equal ones once; `known` has heuristics' schedules of some, by their keys.

    Raises InvalidInputError if there are none.
    """
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
        heuristic = known.get(task.key) or format_schedule(choose(function))
        found[task.key] = TunedPart(task, count, _buffers(function), heuristic)
    if not found:
        raise InvalidInputError("there is no kernel to tune, above tile level")
    return list(found.values())


def _buffers(function: FuncOp) -> str:
    types = [type for type in function.function_type.inputs if isinstance(type, MemRefType)]
    return ", ".join("x".join(map(str, (*type.get_shape(), type.element_type))) for type in types)
