"""t:000 choose-schedule: write the schedule of each kernel on it, so that the rules after it have nothing to decide.

func.func @k(..) {..}
  ->  func.func @k(..) attributes {deplodock.schedule = "tileify,blockify-launch{threads=256},.."} {..}
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from deplodock.analysis.nest import kernels, launches
from deplodock.analysis.schedule import ATTRIBUTE, choose, format_schedule
from deplodock.passes import remarks


@dataclass(frozen=True)
class ChooseSchedulePass(ModulePass):
    """Write the schedule that the heuristics choose on each kernel that has none."""

    name = "choose-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            if ATTRIBUTE in function.attributes:
                remarks.skip(self.name, function.sym_name.data, "the kernel has a schedule")
            elif launches(function):
                remarks.skip(self.name, function.sym_name.data, "the kernel is a launch already")
            else:
                function.attributes[ATTRIBUTE] = StringAttr(format_schedule(choose(function)))
