"""The scheduling rules that have a place in the order but are not there yet: a pipeline that names one fails.

t:011 tma-copy                    shared slabs are filled by the tensor memory accelerator
t:012 split-inner-for-swizzle     rows of slabs fit the swizzle of the tensor memory accelerator
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException


class PlannedPass(ModulePass):
    """A rule that is not there yet."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException(f"{self.name} is not there yet")


@dataclass(frozen=True)
class TmaCopyPass(PlannedPass):
    """Not there yet: fill shared slabs by the tensor memory accelerator."""

    name = "tma-copy"


@dataclass(frozen=True)
class SplitInnerForSwizzlePass(PlannedPass):
    """Not there yet: fit the rows of slabs to the swizzle of the tensor memory accelerator."""

    name = "split-inner-for-swizzle"
