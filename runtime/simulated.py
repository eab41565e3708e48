"""How much work simulating a program is, so that the simulator is not started on what it cannot finish."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.affine.linear import forms_of
from deplodock.analysis.host.arguments import Call, callee
from deplodock.dialects import kernel, loop

LANE_STEP_LIMIT = 500_000_000
"""The lane steps that are simulated where there is a choice: half a minute, at 10 to 30 million a second."""

MOST_LANE_STEPS = 4 * LANE_STEP_LIMIT
"""The lane steps after which a simulation is given up: more than `lane_steps` counts only where bounds are values."""

EVALUATOR_STEP_LIMIT = 10_000_000_000
"""The iterations, of all loops at all points, that are evaluated: a few minutes."""


def lane_steps(module: ModuleOp) -> int:
    """About how many lane steps (one op run by one thread) the launches of a module at kernel level take.

    Guards are taken to hold for all threads, and loops to run to the largest value of their bound.
    """
    launched = [(callee(op), repeats(op)) for op in module.walk() if isinstance(op, Call)]
    kernels = launched or [(op, 1) for op in module.ops]
    return sum(
        times * function.num_blocks * steps_of_cta(function)
        for function, times in kernels
        if isinstance(function, kernel.FuncOp)
    )


def repeats(op: Operation) -> int:
    """How often an operation of a host function runs, in one of the function's."""
    above = op.parent_op()
    inner = 1 if above is None else repeats(above)
    return inner * above.trips if isinstance(above, loop.RepeatOp) else inner


def steps_of_cta(function: kernel.FuncOp) -> int:
    """About how many lane steps a CTA of a kernel takes, counted as `lane_steps` does."""
    return function.num_threads * _steps(function.body.block)


def _steps(block: Block) -> int:
    steps = 0
    for op in block.ops:
        inner = sum(_steps(block) for region in op.regions for block in region.blocks)
        trips = _trips(op.bound.data, op.bound_operands) if isinstance(op, loop.ForOp) else 1
        steps += 1 + trips * inner
    return steps


def _trips(bound: AffineMap, operands: Sequence[SSAValue]) -> int:
    ranges = [form.range() for form in forms_of(bound, operands)]
    return max(0, min((high for _, high in filter(None, ranges)), default=1))
