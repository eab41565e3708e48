"""What a program is run on, and what should come out: from PyTorch, or from the evaluator of IR text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType

from deplodock.analysis.host.arguments import entry_function
from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.dialects.precision import HIGHEST, coarsest_precision
from deplodock.errors import Error, InvalidInputError
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import evaluate, input_types
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, level_of
from deplodock.runtime.compare import Verdict, compare, equal, nan_of_infinities
from deplodock.runtime.exact import exact_results
from deplodock.runtime.simulated import EVALUATOR_STEP_LIMIT
from deplodock.tools.cli.program import Program, Session

if TYPE_CHECKING:
    from deplodock.frontend.program import CapturedProgram


_LARGE = 1 << 24
"""The elements of a tensor that the evaluator holds whole."""


@dataclass(frozen=True)
class RunTask:
    """A program before it is lowered: what it is run on, and what should come out.

    `reference` holds the outputs in float64 and `eager` those of another run in the program's own types, both from
    `source`; neither exists for a program at kernel level. `sensitivity` gives how far errors would move each output,
    where PyTorch can say. `source_on` gives the reference and the other run on other inputs, or says why there is none.
    `module` is the program that it was given as, lowered to tensor level at most, and `precision` the coarsest one of
    its products. `may_be_nan` says which elements of each output may be NaN whatever the reference has, `is_exact` that
    outputs must be equal to the reference, which is in their own types then.
    """

    inputs: list[Array]
    reference: list[Array] | None
    eager: list[Array] | None
    source: str
    rounded: Roundings
    sensitivity: Callable[[], list[Array]] | None = None
    source_on: Callable[[list[Array]], tuple[list[Array], list[Array]] | str] | None = None
    module: ModuleOp | None = None
    precision: str = HIGHEST
    may_be_nan: list[Array] | None = None
    is_exact: bool = False

    def exactly_on(self, inputs: list[Array]) -> RunTask | str:
        """The same program on inputs on which it is exact, or why it is not."""
        assert self.module is not None
        results = exact_results(self.module, inputs)
        if isinstance(results, str):
            return results
        return replace(self, inputs=inputs, reference=results, eager=results, sensitivity=None, is_exact=True)

    def on(self, inputs: list[Array]) -> RunTask | str:
        """The same program on other inputs, or why it cannot be compared there.

        Inputs count on which the source's own run, in the program's types, is right by the bar.
        """
        assert self.source_on is not None
        found = self.source_on(inputs)
        if isinstance(found, str):
            return found
        reference, eager = found
        for own, wanted in zip(eager, reference, strict=True):
            if not self._compared(own, wanted, None).passed:
                return "roundings or overflows decide the result"
        if self.captured_differs(inputs, reference, eager):
            return "the program that was captured differs from PyTorch there, too"
        unsure = None if self.precision == HIGHEST else nan_of_infinities(inputs, self._reference_on)
        return replace(self, inputs=inputs, reference=reference, eager=eager, sensitivity=None, may_be_nan=unsure)

    def _reference_on(self, inputs: list[Array]) -> list[Array] | None:
        """The reference on other inputs, None if there is none."""
        assert self.source_on is not None
        found = self.source_on(inputs)
        return None if isinstance(found, str) else found[0]

    def captured_differs(self, inputs: list[Array], reference: list[Array], eager: list[Array]) -> bool:
        """Whether the program that was captured gives something else, as where PyTorch's formulas make NaN of inf."""
        assert self.module is not None
        try:
            outputs = evaluate(self.module, inputs, contracts=True, most_steps=EVALUATOR_STEP_LIMIT)
        except Error:
            return True
        pairs = zip(outputs, reference, eager, strict=True)
        return not all(self._compared(got, wanted, own).passed for got, wanted, own in pairs)

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
        if self.may_be_nan is not None:
            where = ~(np.isnan(got) & self.may_be_nan[position]) & (True if where is None else where)
        return self._compared(got, self.reference[position], self.eager[position], sensitivity, where)

    def _compared(
        self,
        got: Array,
        reference: Array,
        eager: Array | None,
        sensitivity: Callable[[], Array] | None = None,
        where: Array | None = None,
    ) -> Verdict:
        """`compare` by the bar of the program."""
        if self.is_exact:
            return equal(got, reference, where)
        return compare(got, reference, eager, self.rounded, sensitivity, where)


def make_task(session: Session, program: Program, device: str) -> RunTask:
    """What a program is run on and what should come out. A program from Python is lowered to tensor level."""
    return _text_task(session, program.module) if program.captured is None else _captured_task(session, program, device)


def _captured_task(session: Session, program: Program, device: str) -> RunTask:
    """A program from Python, compared with PyTorch."""
    captured, module = program.captured, program.module
    assert captured is not None
    for name, value in zip(captured.names, captured.inputs, strict=True):
        if value.is_meta:
            raise InvalidInputError(f"{name} is on the device meta and has no values to run on; `compile` needs none")
    session.lower(module, Level.TENSOR)
    from deplodock.frontend.arrays import to_array

    with session.clock.part("PyTorch's result"):
        inputs = [to_array(value) for value in captured.inputs]
        on_device = captured.on("cuda") if device == "cuda" else captured
        reference = [to_array(value) for value in on_device.reference()]
        eager = [to_array(value) for value in on_device.eager()]

    @cache
    def sensitivity() -> list[Array]:
        return [to_array(value) for value in on_device.sensitivity(rounded)]

    rounded = roundings(module)
    source_on = partial(_pytorch_on, on_device)
    given, precision = _evaluable(session, module), coarsest_precision(module)
    return RunTask(inputs, reference, eager, "PyTorch in float64", rounded, sensitivity, source_on, given, precision)


def _evaluable(session: Session, module: ModuleOp) -> ModuleOp:
    """A copy of a program for the evaluator: at loop level if its tensors are too large to be held whole."""
    copy = module.clone()
    results = (result.type for op in copy.walk() for result in op.results)
    if any(isinstance(type, TensorType) and math.prod(type.get_shape()) > _LARGE for type in results):
        session.lower(copy, Level.LOOP)
    return copy


def _pytorch_on(program: CapturedProgram, inputs: list[Array]) -> tuple[list[Array], list[Array]] | str:
    """The results of PyTorch on other inputs, or why there are none."""
    from deplodock.frontend import arrays
    from deplodock.fuzz.stability import unstable

    given = tuple(
        arrays.to_tensor(np.array(value)).to(like.device) for value, like in zip(inputs, program.inputs, strict=True)
    )
    other = replace(program, inputs=given)
    try:
        reference, eager = other.reference(), other.eager()
        if (reason := unstable(other, eager, reference)) is not None:
            return reason
    except (RuntimeError, IndexError, ValueError, ArithmeticError) as error:
        return f"PyTorch refuses them: {str(error).splitlines()[0]}"
    return [arrays.to_array(value) for value in reference], [arrays.to_array(value) for value in eager]


def _text_task(session: Session, module: ModuleOp) -> RunTask:
    """A program in IR text, compared with the evaluator. Torch level is lowered to tensor level."""
    if level_of(module) is Level.TORCH:
        session.lower(module, Level.TENSOR)
    inputs = draw_inputs(input_types(entry_function(module)), session.options.seed, "normal", lowest=0)
    if level_of(module) is Level.KERNEL:
        return RunTask(inputs, None, None, "", Roundings())
    given = _evaluable(session, module)

    def evaluated(values: list[Array]) -> tuple[list[Array], list[Array]]:
        limits = {"contracts": True, "most_steps": EVALUATOR_STEP_LIMIT}
        return evaluate(given, values, precision="float64", **limits), evaluate(given, values, **limits)

    def source_on(others: list[Array]) -> tuple[list[Array], list[Array]] | str:
        try:
            return evaluated(others)
        except Error as error:
            return f"the evaluator refuses them: {error}"

    with session.clock.part("evaluator's result"):
        reference, eager = evaluated(inputs)
    rounded = roundings(module)
    precision = coarsest_precision(module)
    return RunTask(inputs, reference, eager, "the evaluator in float64", rounded, None, source_on, given, precision)
