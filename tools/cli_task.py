"""What a program is run on, and what should come out: from PyTorch, or from the evaluator of IR text."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.arguments import entry_function
from deplodock.analysis.reductions import longest_reduction
from deplodock.errors import Error, InvalidInputError
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import evaluate, input_types
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, level_of
from deplodock.runtime.compare import Verdict, compare
from deplodock.tools.cli_program import Program, Session


@dataclass(frozen=True)
class Task:
    """A program before it is lowered: what it is run on, and what should come out.

    `reference` holds the outputs in float64 and `eager` those of another run in the program's own types, both from
    `source`; neither exists for a program at kernel level. `sensitivity` gives how far errors would move each output,
    where PyTorch can say.
    """

    inputs: list[Array]
    reference: list[Array] | None
    eager: list[Array] | None
    source: str
    reduction_extent: int
    sensitivity: Callable[[], list[Array]] | None = None

    def verdicts(self, outputs: Sequence[Array]) -> list[Verdict]:
        """How each output compares with the reference; none at kernel level, where there is no reference."""
        if self.reference is None:
            return []
        if len(outputs) != len(self.reference):
            raise Error(f"the program has {len(outputs)} outputs, but {len(self.reference)} are expected")
        return [self.verdict(position, got) for position, got in enumerate(outputs)]

    def verdict(self, position: int, got: Array, where: Array | None = None) -> Verdict:
        """How an output compares with the reference, where a mask holds."""
        assert self.reference is not None
        assert self.eager is not None
        known = self.sensitivity
        sensitivity = None if known is None else lambda: known()[position]
        return compare(got, self.reference[position], self.eager[position], self.reduction_extent, sensitivity, where)


def make_task(session: Session, program: Program, device: str) -> Task:
    """What a program is run on and what should come out. A program from Python is lowered to tensor level."""
    return _text_task(session, program.module) if program.captured is None else _captured_task(session, program, device)


def _captured_task(session: Session, program: Program, device: str) -> Task:
    """A program from Python, compared with PyTorch."""
    captured, module = program.captured, program.module
    assert captured is not None
    for name, value in zip(captured.names, captured.inputs, strict=True):
        if value.is_meta:
            raise InvalidInputError(f"{name} is on the device meta and has no values to run on; `compile` needs none")
    session.lower(module, Level.TENSOR)
    to_array = importlib.import_module("deplodock.frontend.arrays").to_array
    with session.clock.part("PyTorch's result"):
        inputs = [to_array(value) for value in captured.inputs]
        on_device = captured.on("cuda") if device == "cuda" else captured
        reference = [to_array(value) for value in on_device.reference()]
        eager = [to_array(value) for value in on_device.eager()]

    @cache
    def sensitivity() -> list[Array]:
        return [to_array(value) for value in on_device.sensitivity()]

    return Task(inputs, reference, eager, "PyTorch in float64", longest_reduction(module), sensitivity)


def _text_task(session: Session, module: ModuleOp) -> Task:
    """A program in IR text, compared with the evaluator. Torch level is lowered to tensor level."""
    if level_of(module) is Level.TORCH:
        session.lower(module, Level.TENSOR)
    inputs = draw_inputs(input_types(entry_function(module)), session.options.seed, "normal", lowest=0)
    if level_of(module) is Level.KERNEL:
        return Task(inputs, None, None, "", 1)
    with session.clock.part("evaluator's result"):
        reference = evaluate(module, inputs, precision="float64")
        eager = evaluate(module, inputs)
    return Task(inputs, reference, eager, "the evaluator in float64", longest_reduction(module))
