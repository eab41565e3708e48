"""What the scheduling rules share: the walk over kernels, options, and the reason of a skip.

A rule is a pass whose fields are its options, all None by default. An option comes from the pass, else from the
kernel's `deplodock.schedule` attribute, else from the heuristic of `analysis/schedule.py`. A kernel whose attribute
leaves a rule out is skipped. An option given to the pass that no kernel of the module can take is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.nest import kernels, launches
from deplodock.analysis.schedule import Options, schedule_of
from deplodock.dialects import tile
from deplodock.passes import remarks


class Skip(Exception):
    """The rule does not apply to a kernel, for the reason in its text."""


def apply_rule(rule: ModulePass, module: ModuleOp, rewrite: Callable[[func.FuncOp, Options], None]) -> None:
    """Run `rewrite` on every kernel function with its options; it raises Skip, before any change, where it cannot.

    Raises PassFailedException if an option was given and no kernel takes the rule.
    """
    given = {f.name: value for f in fields(rule) if f.name != "name" and (value := getattr(rule, f.name)) is not None}
    refusals: list[str] = []
    found = kernels(module)
    for function in found:
        symbol = function.sym_name.data
        try:
            rewrite(function, _options(rule.name, function, given, [f.name for f in fields(rule)]))
        except Skip as skip:
            remarks.skip(rule.name, symbol, str(skip))
            refusals.append(f"@{symbol}: {skip}")
    if given and len(refusals) == len(found):
        options = " ".join(f"{name}={value}" for name, value in given.items())
        reasons = "; ".join(refusals) or "the module has no kernel"
        raise PassFailedException(f"{rule.name}{{{options}}} applies to no kernel: {reasons}")


def each_launch(function: func.FuncOp, rewrite: Callable[[tile.LaunchOp], None]) -> None:
    """Run `rewrite` on every launch of a function; Skip with the first reason if all of them raise Skip."""
    if not (found := launches(function)):
        raise Skip("no launch; run tileify first")
    refusals: list[str] = []
    for launch in found:
        try:
            rewrite(launch)
        except Skip as skip:
            refusals.append(str(skip))
    if len(refusals) == len(found):
        raise Skip(refusals[0])


def staged(launch: tile.LaunchOp) -> bool:
    """Whether the launch copies slabs of its inputs on chip."""
    return any(isinstance(op, tile.StageOp) for op in launch.body.walk())


def positive(options: Options, name: str, default: int) -> int:
    """An option that must be a positive integer. Raises PassFailedException otherwise."""
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PassFailedException(f"the option {name} must be a positive integer, got {value}")
    return value


def _options(name: str, function: func.FuncOp, given: Mapping[str, int | str], known: Collection[str]) -> Options:
    scheduled = schedule_of(function)
    for option in scheduled.get(name, {}):
        if option not in known:
            raise PassFailedException(
                f"the schedule of @{function.sym_name.data} gives {name} the unknown option {option}"
            )
    if given:
        return {**scheduled.get(name, {}), **given}
    if name not in scheduled:
        raise Skip("the kernel's schedule leaves it out")
    return scheduled[name]
