"""The heuristic schedule of a kernel, by its kind: a contraction, windows, rows, columns, or points.

What chooses for a kind that folds elements has a file, which is imported where a kernel does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.machine.targets import target_at
from deplodock.analysis.shape.nest import Nest, nests, side_by_side
from deplodock.analysis.shape.roles import Contraction, contraction
from deplodock.dialects import loop
from deplodock.loading import loaded
from deplodock.schedule.choose.pointwise import point_rules
from deplodock.schedule.steps import (
    ATTRIBUTE,
    Options,
    Schedule,
    format_schedule,
    parse_schedule,
    steps,
)

_CHOOSERS = (
    "streaming:stream_rules",
    "windows:depthwise_rules",
    "windows:window_rules",
    "rows:row_rules",
    "rows:column_rules",
)
"""What chooses the rules of kernels that fold elements and hold no contraction, in the order in which it is asked: each
takes a nest and a target, and gives None for a nest of another kind."""

_COUNTED = {"split-matmul-k": ("s", "over"), "chunk-matmul-k": ("bk",)}
"""The options of a given schedule that count for the others: how k is split, and how long its chunks are."""


def schedule_of(function: func.FuncOp) -> Schedule:
    """The schedule on a kernel function, or the one the heuristics choose.

    Raises VerifyException if the attribute is malformed.
    """
    attribute = function.attributes.get(ATTRIBUTE)
    if attribute is None:
        return choose(function)
    if not isinstance(attribute, StringAttr):
        raise VerifyException(f"{ATTRIBUTE} must be a string that holds a pass pipeline, got {attribute}")
    return parse_schedule(attribute.data)


def choose(function: func.FuncOp, given: Schedule | None = None) -> Schedule:
    """The heuristic schedule of a kernel at loop level or just after tileify, as far as it suits one given in part."""
    return _folding(function, _rules(function, None if given is None else counted(given)))


def counted(given: Schedule) -> Schedule:
    """What of a given schedule counts for what is chosen beside it: its rules, and what it does to k of a product."""
    found = [(step, _COUNTED.get(step.rule, ())) for step in given]
    return tuple(
        replace(step, options={n: step.options[n] for n in names if n in step.options}) for step, names in found
    )


def alternatives(function: func.FuncOp) -> dict[str, float | None]:
    """What the heuristics weigh for a kernel at loop level: the schedule that they choose first, then the others.

    Each is text, with the nanoseconds that a model gives it, or None where there is no model.
    """
    chosen = format_schedule(choose(function))
    others = {format_schedule(_folding(function, rules)): time for rules, time in _weighed(function)}
    return {chosen: others.get(chosen)} | others


def _weighed(function: func.FuncOp) -> Iterator[tuple[Mapping[str, Options], float | None]]:
    """The rules that the heuristics weigh, with the time of a model, where there is more than one way."""
    target, several = target_at(function), side_by_side(function)
    if (found := _contraction(several)) is not None:
        yield from _chooser("contraction:weighed_rules")(*found, several, target)
    elif (nest := _whole(function)).reductions():
        yield from _chooser("streaming:weighed_rules")(nest, target)


def _folding(function: func.FuncOp, rules: Mapping[str, Options]) -> Schedule:
    """The schedule of some rules, with what folds the parts of a row."""
    if (split := rules.get("split-stream")) is None:
        return steps(rules)
    stores = [op for op in _whole(function).body.walk() if isinstance(op, loop.StoreOp)]
    if (output := stores[0].destination.name_hint) is None:
        return steps({rule: options for rule, options in rules.items() if rule != "split-stream"})
    return (*steps(rules), *_chooser("long_rows:fold_steps")(output, int(split["s"])))


def _rules(function: func.FuncOp, given: Schedule | None) -> Mapping[str, Options]:
    """The rules of the heuristic schedule, each with its options for all launches."""
    target, several = target_at(function), side_by_side(function)
    if (found := _contraction(several)) is not None:
        return _chooser("contraction:contraction_rules")(*found, several, target, given)
    nest = _whole(function)
    for place in _CHOOSERS if nest.folds() else ():
        if (rules := _chooser(place)(nest, target)) is not None:
            return rules
    return point_rules(nest, target)


def _chooser(place: str) -> Callable[..., Any]:
    """The function of a name in a file of this folder."""
    return loaded(f"deplodock.schedule.choose.{place}")


def _contraction(several: Sequence[Nest]) -> tuple[Contraction, Nest] | None:
    """The first contraction of nests side by side, and its nest."""
    return next(((found, nest) for nest in several if (found := contraction(nest)) is not None), None)


def _whole(function: func.FuncOp) -> Nest:
    """The nest of a kernel's loops, that of its first launch where it has launches."""
    return next(nests(function))
