"""What a compiled program amounts to: launches, kernels, bytes and operations."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from deplodock.runtime.plan import ProgramPlan, TensorMapPlan, program_plan

if TYPE_CHECKING:
    from deplodock.frontend.program import CapturedProgram


def summary(module: ModuleOp, captured: CapturedProgram | None) -> list[str]:
    """Lines about a program at kernel level.

    The bytes are those of the buffers of each launch. Operations are those of the matrix products as PyTorch counts
    them, a multiplication and an addition each, without what causal masks save; IR text alone does not say them.
    """
    plan = program_plan(module)
    kernels = dict.fromkeys(launch.kernel for launch in plan.launches)
    lines = [
        f"{_count(len(plan.launches), 'launch')} of {_count(len(kernels), 'unique kernel')}",
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
    counting = importlib.import_module("torch.utils.flop_counter")
    program = captured.on("meta")
    with counting.FlopCounterMode(display=False) as counter, importlib.import_module("torch").no_grad():
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
