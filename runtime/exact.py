"""Inputs on which all that a program computes is exact, so that its results must be equal, whatever rounds first.

The error bar says little of a sum that lacks a small part. On small integers sums round nowhere, and what rounds before
or after them rounds once, alike in every kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from deplodock.errors import Error
from deplodock.interpreters.evaluate import run
from deplodock.interpreters.values import Array, is_float
from deplodock.runtime.simulated import EVALUATOR_STEP_LIMIT

LARGEST = 2
"""The largest of the integers, and the least one with its sign."""

_ALIKE = (
    *(math.AbsFOp, math.AbsIOp, math.CeilOp, math.CopySignOp, math.FloorOp, math.RoundEvenOp),
    *(math.RoundOp, math.TruncOp, math.SqrtOp, math.FmaOp),
)
"""The functions that round to nearest wherever they are computed."""

_FREE = {FastMathFlag.REASSOC, FastMathFlag.ALLOW_RECIP, FastMathFlag.APPROX_FUNC}
"""What lets kernels compute the same in several ways."""


def exact_inputs(inputs: Sequence[Array], seed: int) -> list[Array]:
    """Inputs of the same shapes and types: integers from -2 to 2 for floats, the others as they are."""
    random = np.random.default_rng(seed)
    return [
        random.integers(-LARGEST, LARGEST, value.shape, endpoint=True).astype(value.dtype)
        if is_float(value.dtype)
        else value
        for value in inputs
    ]


def exact_results(module: ModuleOp, inputs: Sequence[Array]) -> list[Array] | str:
    """What every right kernel gives, number for number, or why that is not known.

    Args:
        module: the program at tensor, loop or tile level.
        inputs: such as `exact_inputs`.
    """
    if (op := next((op for op in module.walk() if _rounds_in_its_own_way(op)), None)) is not None:
        return f"{op.name} rounds there, in each library in its own way"
    if not any(is_float(value.dtype) for value in inputs):
        return "they are none of floats"
    try:
        result = run(module, inputs, contracts=True, most_steps=EVALUATOR_STEP_LIMIT)
    except Error as error:
        return f"the evaluator refuses them: {error}"
    return result.outputs if result.exact else "its reductions may depend on their order"


def _rounds_in_its_own_way(op: Operation) -> bool:
    """Whether kernels, or libraries, may round the result of an operation in several ways."""
    flags = getattr(op, "fastmath", None)
    is_free = flags is not None and not _FREE.isdisjoint(flags.data)
    return is_free or (op.name.startswith("math.") and not isinstance(op, _ALIKE))
