"""The schedules of a kernel below the one that the heuristics choose, each simpler than those before it.

They are for kernels whose chosen schedule a pass refuses: slower, as a rule, but they ask for less.

    what was chosen, with as many CTAs on an SM as there fit
    the same with ever fewer threads in a CTA
    of each other form that the heuristics weigh, the one that they take for the fastest
    what they choose without tensor cores
    the loops of what was chosen, without slabs on chip and what belongs to them
    a thread for each output, in CTAs of ever fewer threads
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from xdsl.dialects import func

from deplodock.analysis.shape.nest import side_by_side
from deplodock.analysis.shape.roles import contraction
from deplodock.schedule.choose.kernels import alternatives, choose
from deplodock.schedule.steps import RuleStep, Schedule, parse_schedule, steps

_ENGINES = ("tensor-tile", "split-factors")
"""The rules that are for tensor cores."""

_LOOPS = ("tileify", "flatten-contraction", "chunk-matmul-k", "cooperative-reduce", "blockify-launch", "chunk-reduce")
"""The rules that say which loops there are, and what runs them."""

_SIDES = ((16, 16), (8, 8), (8, 4))
"""Rows and columns of a CTA with a thread for each output."""

_FEWER_THREADS = (512, 256, 128, 64, 32)
"""The most threads of a CTA, in turn."""


def _roomy(function: func.FuncOp) -> Iterator[Schedule]:
    yield _without_occupancy(choose(function))


def _with_fewer_threads(function: func.FuncOp) -> Iterator[Schedule]:
    chosen = _without_occupancy(choose(function))
    for most in _FEWER_THREADS:
        yield tuple(map(partial(_with_threads, most), chosen))


def _of_each_form(function: func.FuncOp) -> Iterator[Schedule]:
    found = sorted(alternatives(function).items(), key=lambda pair: pair[1] or 0.0)
    forms: dict[tuple[str, ...], Schedule] = {}
    for text, _ in found:
        schedule = parse_schedule(text)
        forms.setdefault(tuple(map(_form, schedule)), schedule)
    for schedule in forms.values():
        yield from (schedule, _without_occupancy(schedule))


def _without_engines(function: func.FuncOp) -> Iterator[Schedule]:
    given = tuple(step for step in choose(function) if step.rule not in _ENGINES)
    schedule = choose(function, given)
    yield from (schedule, _without_occupancy(schedule))


def _loops_alone(function: func.FuncOp) -> Iterator[Schedule]:
    yield _without_occupancy(tuple(step for step in choose(function) if step.rule in _LOOPS))


def _threads_alone(function: func.FuncOp) -> Iterator[Schedule]:
    is_product = any(contraction(nest) is not None for nest in side_by_side(function))
    for rows, columns in _SIDES:
        of_product, of_others = {"m": rows, "n": columns}, {"threads": rows * columns}
        for options in (of_product, of_product | of_others) if is_product else (of_others,):
            yield steps({"tileify": {}, "blockify-launch": options})


LADDER: tuple[Callable[[func.FuncOp], Iterator[Schedule]], ...] = (
    _roomy,
    _with_fewer_threads,
    _of_each_form,
    _without_engines,
    _loops_alone,
    _threads_alone,
)
"""What gives schedules for a kernel at loop level, in order; a schedule may come more than once."""


def _form(step: RuleStep) -> str:
    """What a step does, whatever the sizes."""
    words = (f"{name}={value}" for name, value in step.options.items() if isinstance(value, str))
    return " ".join((step.name, *words))


def _with_threads(most: int, step: RuleStep) -> RuleStep:
    """A step that asks for so many threads at most."""
    threads = step.options.get("threads")
    fewer = {"threads": min(threads, most)} if isinstance(threads, int) else {}
    return replace(step, options={**step.options, **fewer})


def _without_occupancy(schedule: Schedule) -> Schedule:
    """A schedule that asks for no number of CTAs on an SM."""
    return tuple(
        replace(step, options={name: value for name, value in step.options.items() if name != "occupancy"})
        for step in schedule
    )
