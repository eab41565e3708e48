"""choose-schedule: write the schedule of each kernel on it, so that the rules after it have nothing to decide.

    func.func @k(..) {..}
    ->
    func.func @k(..) attributes {deplodock.schedule = "tileify,blockify-launch{threads=256},.."} {..}

A given schedule is written on every kernel, also in place of the one that a kernel has. Options that it leaves out are
those that the heuristics choose, so what is written says all of them; a step with a target has the defaults of its rule
for those that it leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.shape.nest import kernels, launches
from deplodock.passes import remarks
from deplodock.passes.options import OptionsPass, Text, option
from deplodock.passes.tile.rule import read_schedule
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.steps import ATTRIBUTE, Schedule, completed, format_schedule, options_for_all


@dataclass(frozen=True)
class ChooseSchedulePass(OptionsPass):
    """Write the schedule that the heuristics choose on each kernel that has none."""

    name = "choose-schedule"
    schedule: str | None = option(None, Text("a pass pipeline"), "the schedule to write on every kernel instead")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        given = None if self.schedule is None else read_schedule(self.schedule)
        found = [function for function in kernels(op) if not launches(function)]
        if given is not None and not found:
            raise PassFailedException("the module has no kernel at loop level to write a schedule on")
        for function in kernels(op):
            if launches(function):
                remarks.skip(self.name, function.sym_name.data, "the kernel is a launch already")
            elif given is None and ATTRIBUTE in function.attributes:
                remarks.skip(self.name, function.sym_name.data, "the kernel has a schedule")
            else:
                write_schedule(function, given)


def write_schedule(function: func.FuncOp, given: Schedule | None) -> None:
    """Write the schedule that the heuristics choose on a kernel, or a given one with the options that it leaves out."""
    chosen = choose(function, given)
    function.attributes[ATTRIBUTE] = StringAttr(format_schedule(chosen if given is None else filled(given, chosen)))


def filled(given: Schedule, chosen: Schedule) -> Schedule:
    """A given schedule with the options that it leaves out as those that were chosen beside it."""
    return tuple(
        step if step.target else replace(step, options=completed(step.options, options_for_all(chosen, step.rule)))
        for step in given
    )
