"""The heuristic schedule of a kernel, by its kind: a contraction, windows, rows, columns, or points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.affine.linear import extent_of, known_points
from deplodock.analysis.machine.targets import target_at
from deplodock.analysis.shape.nest import Nest, nests, side_by_side
from deplodock.analysis.shape.roles import Contraction, contraction
from deplodock.analysis.shape.streaming import streamed_product
from deplodock.dialects import loop
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.columns import column_options, column_schedule
from deplodock.schedule.choose.contraction import contraction_alternatives, contraction_options
from deplodock.schedule.choose.depthwise import depthwise_schedule
from deplodock.schedule.choose.flight import steps_in_flight
from deplodock.schedule.choose.long_rows import fold_steps
from deplodock.schedule.choose.pointwise import apart_schedule, early_options, free_width
from deplodock.schedule.choose.rows import row_options, rows_together
from deplodock.schedule.choose.shared_sums import shared_sums
from deplodock.schedule.choose.sizes import CTA_THREADS, VECTOR
from deplodock.schedule.choose.streaming import stream_alternatives, stream_options
from deplodock.schedule.choose.tensor_cores import tensor_alternatives, tensor_options
from deplodock.schedule.choose.windows import window_schedule
from deplodock.schedule.steps import (
    ATTRIBUTE,
    Options,
    Schedule,
    format_schedule,
    options_for_all,
    parse_schedule,
    steps,
)

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
    found = [(nest, product) for nest in several if (product := contraction(nest)) is not None]
    if not found:
        nest, *_ = nests(function)
        if (streamed := streamed_product(nest)) is not None:
            yield from ((options, None) for options in stream_alternatives(streamed, nest, target))
        return
    nest, product = found[0]
    tensor = list(tensor_alternatives(product, nest, target)) if len(several) == 1 else []
    for rules, time in tensor or contraction_alternatives(product, target):
        yield _beside(rules, rules.get("split-matmul-k", {}), nest, several, target), time


def _folding(function: func.FuncOp, rules: Mapping[str, Options]) -> Schedule:
    """The schedule of some rules, with what folds the parts of a row."""
    if (split := rules.get("split-stream")) is None:
        return steps(rules)
    nest, *_ = nests(function)
    stores = [op for op in nest.body.walk() if isinstance(op, loop.StoreOp)]
    if (output := stores[0].destination.name_hint) is None:
        return steps({rule: options for rule, options in rules.items() if rule != "split-stream"})
    return (*steps(rules), *fold_steps(output, int(split["s"])))


def _rules(function: func.FuncOp, given: Schedule | None) -> Mapping[str, Options]:
    """The rules of the heuristic schedule, each with its options for all launches."""
    target, several = target_at(function), side_by_side(function)
    for nest in several:
        if (found := contraction(nest)) is not None:
            return _contraction_rules(found, nest, several, target, given)
    nest, *_ = nests(function)
    sms = target.fact("sms")
    streamed = streamed_product(nest)
    if streamed is not None and (options := stream_options(streamed, nest, target)) is not None:
        return options
    if (depthwise := depthwise_schedule(nest, sms)) is not None:
        return depthwise
    if (windows := window_schedule(nest, sms)) is not None:
        return windows
    if (rows := row_options(nest, target)) is not None:
        return _row_schedule(nest, rows, target)
    if (columns := column_options(nest, sms)) is not None:
        return column_schedule(nest, columns)
    vector = free_width(nest, sms)
    apart = apart_schedule(nest, sms) if vector == 1 else None
    cta = _cta(CTA_THREADS * vector, steps_in_flight(nest, width=vector), vector)
    return {**(apart or {"tileify": {}, **cta}), **early_options(nest, target)}


def _contraction_rules(
    found: Contraction, nest: Nest, several: Sequence[Nest], target: TargetAttr, given: Schedule | None
) -> Mapping[str, Options]:
    """The rules of a contraction, on tensor cores where they take it, and of the launches beside it."""

    def takes(rule: str) -> bool:
        return given is None or any(step.rule == rule for step in given)

    is_alone = len(several) == 1
    rules = tensor_options(found, nest, target) if is_alone and takes("tensor-tile") else None
    if not rules and is_alone and takes("cooperative-reduce"):
        rules = shared_sums(found, target)
    if not rules:
        chunk = options_for_all(given or (), "chunk-matmul-k")
        bk = int(chunk["bk"]) if "bk" in chunk else None
        rules = contraction_options(found, target, takes("register-tile"), bk)
    split = {**rules.get("split-matmul-k", {}), **options_for_all(given or (), "split-matmul-k")}
    return _beside(rules, split if takes("split-matmul-k") else {}, nest, several, target)


def _row_schedule(nest: Nest, rows: dict[str, int | str], target: TargetAttr) -> Mapping[str, Options]:
    """A CTA for a row or a few short ones, or for neighbouring rows that share elements."""
    together, width = rows_together(nest, target), int(rows["vector"])
    if together > 1:
        rows["threads"] = min(CTA_THREADS, int(rows["threads"]))
    threads = int(rows["threads"]) * int(rows.get("outer", 1))
    steps = steps_in_flight(nest, int(rows["threads"]) * width, width * together)
    schedule = {
        "tileify": {},
        "cooperative-reduce": rows,
        **_cta(max(CTA_THREADS, threads * together), steps, together),
    }
    return schedule | ({"stage-inputs": {"memory": "register"}} if together > 1 else {})


def _cta(threads: int, steps: int, vector: int = 1) -> Mapping[str, Options]:
    """The rules of a CTA of so many threads, each with steps of its loops in flight and neighbouring outputs."""
    schedule: dict[str, Options] = {"blockify-launch": {"threads": threads}}
    if steps > 1:
        schedule["chunk-reduce"] = {"size": steps}
    schedule["stage-inputs"] = {}
    if vector > 1:
        schedule["register-tile"] = {"vector": vector}
    if steps:
        schedule["mark-unroll"] = {}
    return schedule


def _beside(
    schedule: Mapping[str, Options], split: Options, nest: Nest, several: Sequence[Nest], target: TargetAttr
) -> Mapping[str, Options]:
    """The schedule of a contraction, with what other launches take, such as the one that adds its parts."""
    if split.get("over") != "block" and all(contraction(other) is not None for other in several):
        return schedule
    outputs = known_points(nest.axes)
    is_wide = (extent_of(nest.axes[-1]) or 1) % VECTOR == 0 and outputs >= target.fact("sms") * CTA_THREADS * VECTOR
    vector = VECTOR if is_wide and "register-tile" in schedule else 1
    added: Mapping[str, Options] = {
        "blockify-launch": {"threads": CTA_THREADS * vector},
        "register-tile": {"vector": vector},
    }
    return {rule: {**options, **added.get(rule, {})} for rule, options in schedule.items()}
