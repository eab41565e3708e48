"""Attention on the simulator, right beside float64 for some of the product of types, masks, heads and lengths."""

from __future__ import annotations

import numpy as np
import pytest
from attention_product import Combination, pairwise

from deplodock.analysis.shape.roundings import roundings
from deplodock.frontend.arrays import to_array
from deplodock.frontend.expression import read_expression
from deplodock.interpreters.simulate import simulate
from deplodock.passes import remarks
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.compare import compare

CONTEXT = new_context()


@pytest.mark.parametrize("one", pairwise(), ids=str)
def test_is_right(one: Combination) -> None:
    """Any two values of different factors come together in some program."""
    program = read_expression(one.text, seed=3)
    with remarks.collect():
        lower(program.module, CONTEXT, Level.TENSOR, stream="always")
        rounded = roundings(program.module)
        lower(program.module, CONTEXT, Level.KERNEL)
    simulation = simulate(program.module, [to_array(value) for value in program.inputs], counts=False, order=5)
    assert not simulation.findings
    (reference,), (eager,) = program.reference(), program.eager()
    verdict = compare(np.asarray(simulation.outputs[0]), to_array(reference), to_array(eager), rounded)
    assert verdict.passed, str(verdict)
