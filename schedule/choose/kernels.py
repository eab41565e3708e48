"""The heuristic schedule of a kernel, by its kind: a contraction, windows, rows, columns, or points.

A kernel whose outputs are independent of each other is chosen for here. What chooses for another kind has a file, which
is imported where a kernel folds elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.access.alignment import address, aligned_width
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import WARP, has_feature, target_at
from deplodock.analysis.shape.nest import Nest, nests, side_by_side
from deplodock.analysis.shape.roles import Contraction, contraction
from deplodock.dialects import loop, math_ext
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.loading import loaded
from deplodock.schedule.choose.sizes import CTA_THREADS, VECTOR, cta_rules, holds_row, is_read_again, steps_in_flight
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


APART = 4
"""Outputs of a thread, a CTA's threads apart, where no access takes several neighbours: a GPU starts a CTA each 0.6 ns,
and one of 256 threads with an output each moves too little in that time. Measured on an H200 on the batch norm of
24 x 100 x 37 x 37, of images of 37 x 37: 54.1, 20.8 and 14.4 us in CTAs of 37, 111 and 222 outputs, 9.5 in CTAs of 703,
four of a thread."""

SM_CTAS = 8
"""The CTAs of `CTA_THREADS` that an SM holds."""

LOW_WIDTH = 2
"""The least width where a low part is stored: on an H200 that of 256x2048 takes 0.1 us less in all threads that the
SMs hold, 2 elements each, than in half as many, and 1.2 us more in twice as many."""


def point_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options]:
    """The rules of a nest whose outputs have a thread each, or several of a thread."""
    sms = target.fact("sms")
    vector = free_width(nest, sms)
    apart = apart_schedule(nest, sms) if vector == 1 else None
    cta = cta_rules(CTA_THREADS * vector, steps_in_flight(nest, width=vector), vector)
    return {**(apart or {"tileify": {}, **cta}), **early_options(nest, target)}


def early_options(nest: Nest, target: TargetAttr) -> dict[str, dict[str, int | str]]:
    """That a kernel starts early which stores the low part of a factor: the product behind it does, too.

    On an H200 32x2048x2048 in parts of FP32 takes 11.9 us without and 10.6 us with that.
    """
    is_early = _stores_low_part(nest) and has_feature(target, Feature.EARLY_LAUNCHES)
    return {"start-early": {}} if is_early else {}


def free_width(nest: Nest, sms: int) -> int:
    """The widest access that suits all accesses of a nest along its last free axis.

    It is over `VECTOR` where a thread for so many outputs fills the GPU, and 1 where the nest has loops and not even
    one for every `VECTOR` does. Low parts are stored in as many threads as SMs hold. Columns that are read again, and
    that a thread holds in registers, stay there: so many of them as it holds.
    """
    if not nest.axes:
        return 1
    axis = nest.axes[-1]
    fill = known_points(nest.axes) // (sms * CTA_THREADS)
    if nest.row_loops() and fill < VECTOR:
        return 1
    widths: list[int] = []
    for op in nest.body.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            buffer = op.source if isinstance(op, loop.LoadOp) else op.destination
            forms = subscripts_of(op)
            if any(form.depends_on(axis) for form in forms):
                widths.append(aligned_width(loop.memref_of(buffer), forms, axis, extent_or_one(axis)))
    width = min(widths, default=VECTOR)
    most = max(LOW_WIDTH, -(-fill // SM_CTAS)) if _stores_low_part(nest) else max(VECTOR, fill)
    while width > most:
        width //= 2
    if is_read_again(nest) and holds_row(nest):
        while not holds_row(nest, width=width):
            width //= 2
    return width


def apart_schedule(nest: Nest, sms: int) -> Mapping[str, Options] | None:
    """The schedule of a nest without loops whose threads have `APART` outputs each, or None where they do not.

    Those fill the GPU, a row has a warp's outputs, and all accesses that depend on the last free axis walk contiguous
    memory along it. So the L1 cache has what rows share, such as a bias, and nothing is staged.
    """
    fill = known_points(nest.axes) // (sms * CTA_THREADS)
    if not nest.axes or nest.row_loops() or fill < APART or extent_or_one(nest.axes[-1]) < WARP:
        return None
    accesses = [op for op in nest.body.walk() if isinstance(op, loop.LoadOp | loop.StoreOp)]
    buffers = [op.source if isinstance(op, loop.LoadOp) else op.destination for op in accesses]
    places = [address(loop.memref_of(buffer), subscripts_of(op)) for op, buffer in zip(accesses, buffers, strict=True)]
    if any(place.depends_on(nest.axes[-1]) and place.coefficient(nest.axes[-1]) != 1 for place in places):
        return None
    return {
        "tileify": {},
        "blockify-launch": {"threads": CTA_THREADS * APART},
        "register-tile": {"vector": APART},
        "permute-register-tile": {"n": "strided"},
    }


def _stores_low_part(nest: Nest) -> bool:
    """Whether a nest computes what TF32 leaves of a factor."""
    return any(isinstance(op, math_ext.LowPartOp) for op in nest.body.walk())
