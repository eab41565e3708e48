"""What the tests of whole programs share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.dialects.kernel import FuncOp
from deplodock.frontend.arrays import to_array
from deplodock.frontend.capture import export
from deplodock.frontend.program import CapturedProgram
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.compare import compare

CONTEXT = new_context()


@pytest.fixture(scope="session")
def check_levels() -> Callable[..., int]:
    """A function that compares all levels of a program with PyTorch and gives the number of its kernels."""
    return _check_levels


def _sensitivity(captured: CapturedProgram, rounded: Roundings, place: int) -> Array:
    return to_array(captured.sensitivity(rounded)[place])


def _check_levels(program: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """Compare each level with PyTorch in float64 by the one error bar; the simulator must find nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captured = export(program, args)
    inputs = [to_array(value) for value in captured.inputs]
    reference = [to_array(value) for value in captured.reference()]
    eager = [to_array(value) for value in captured.eager()]
    module, rounded = captured.module, None
    for level in (Level.TENSOR, Level.LOOP, Level.TILE, Level.KERNEL):
        lower(module, CONTEXT, level)
        rounded = roundings(module) if rounded is None else rounded
        if level is Level.KERNEL:
            simulation = simulate(module, inputs, counts=False)
            assert not simulation.findings, f"{simulation.findings[0]}\n{module}"
            outputs = simulation.outputs
        else:
            outputs = evaluate(module, inputs)
        for place, (got, wanted, own) in enumerate(zip(outputs, reference, eager, strict=True)):
            assert np.asarray(got).dtype == own.dtype
            verdict = compare(np.asarray(got), wanted, own, rounded, partial(_sensitivity, captured, rounded, place))
            assert verdict.passed, f"{level} level: {verdict}\n{module}"
    return sum(isinstance(op, FuncOp) for op in module.ops)
