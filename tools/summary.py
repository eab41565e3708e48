"""What a compiled program amounts to: launches, kernels, bytes and operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp

from deplodock.passes.driver import Level
from deplodock.runtime.plan import ProgramPlan, TensorMapPlan, program_plan
from deplodock.tools.cli.program import Program, Session

if TYPE_CHECKING:
    from deplodock.frontend.program import CapturedProgram


def lower_with_summary(session: Session, program: Program, level: Level) -> None:
    """Lower a program to kernel level or the text of it, and note what it amounts to."""
    module = program.module
    session.lower(module, Level.LOOP)
    called = [op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)]
    session.lower(module, level)
    for line in summary(module, called, program.captured):
        session.note(line)


def summary(module: ModuleOp, called: Sequence[str], captured: CapturedProgram | None) -> list[str]:
    """Lines about a program at kernel level.

    `called` names the kernels at loop level, each of which may take several launches. The bytes are those of the
    buffers of each launch. Operations are those of the matrix products as PyTorch counts them, a multiplication and an
    addition each, those that causal masks hide included; IR text alone does not say them.
    """
    plan = program_plan(module)
    lines = [
        f"{_count(len(called), 'kernel')}, {len(set(called))} unique, in {_count(len(plan.launches), 'launch')}",
        f"{_size(sum(_bytes(plan)))} read and written by the launches, {_size(plan.scratch)} of scratch memory",
    ]
    if captured is not None:
        state = [value for value, path in zip(captured.inputs, captured.paths, strict=True) if path is not None]
        stored = sum(value.numel() * value.element_size() for value in state)
        lines.append(f"{_size(stored)} of parameters, {_flops(captured):.3g} FLOP in products")
    return lines


def _bytes(plan: ProgramPlan) -> Iterator[int]:
    for launch in plan.launches:
        numbers = (given.buffer if isinstance(given, TensorMapPlan) else given for given in launch.arguments)
        yield from (plan.buffers[number].bytes for number in dict.fromkeys(numbers))


def _flops(captured: CapturedProgram) -> int:
    """The operations of matrix products, counted on tensors without values."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    program = captured.on("meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        program.graph(*program.arguments(program.inputs))
    return int(counter.get_total_flops())


def _count(number: int, noun: str) -> str:
    ending = "es" if noun.endswith("h") else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"


def _size(size: int) -> str:
    """A number of bytes, in units of 1000."""
    amount, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.3g} {units[0]}"
