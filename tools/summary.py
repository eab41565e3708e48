"""What a compiled program amounts to: launches, kernels, bytes and operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp

from deplodock.passes.driver import Level
from deplodock.runtime.plan import ProgramPlan, TensorMapPlan, program_plan
from deplodock.tools.cli.model_store import size
from deplodock.tools.cli.program import Program, Session


def lower_with_summary(session: Session, program: Program, level: Level) -> None:
    """Lower a program to kernel level or the text of it, and note what it amounts to."""
    module = program.module
    session.lower(module, Level.LOOP)
    called = [op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)]
    session.lower(module, level)
    for line in summary(module, called, program.amounts):
        session.note(line)


def summary(module: ModuleOp, called: Sequence[str], amounts: str | None) -> list[str]:
    """Lines about a program at kernel level.

    `called` names the kernels at loop level, each of which may take several launches. The bytes are those of the
    buffers of each launch. `amounts` is what `model_store.amounts_of` says; IR text alone does not say it.
    """
    plan = program_plan(module)
    lines = [
        f"{_count(len(called), 'kernel')}, {len(set(called))} unique, in {_count(len(plan.launches), 'launch')}",
        f"{size(sum(_bytes(plan)))} read and written by the launches, {size(plan.scratch)} of scratch memory",
    ]
    if amounts is not None:
        lines.append(amounts)
    return lines


def _bytes(plan: ProgramPlan) -> Iterator[int]:
    for launch in plan.launches:
        numbers = (given.buffer if isinstance(given, TensorMapPlan) else given for given in launch.arguments)
        yield from (plan.buffers[number].bytes for number in dict.fromkeys(numbers))


def _count(number: int, noun: str) -> str:
    ending = "es" if noun.endswith("h") else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"
