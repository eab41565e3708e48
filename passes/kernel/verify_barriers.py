"""verify-barriers: check that barriers order all accesses of shared memory, and that all threads reach each barrier."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.barriers import divergent, first_hazard
from deplodock.dialects import kernel

_COLLECTIVE = (kernel.BarrierOp, kernel.ShuffleXorOp, kernel.CommitGroupOp, kernel.WaitGroupOp)


@dataclass(frozen=True)
class VerifyBarriersPass(ModulePass):
    """Check that barriers order the accesses of shared memory and are reached by all threads."""

    name = "verify-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, kernel.FuncOp):
                verify_barriers(function)


def verify_barriers(function: kernel.FuncOp) -> None:
    """Raises DiagnosticException at the first barrier or shuffle in divergent code, and at the first hazard."""
    name = function.sym_name.data
    for op in function.walk():
        if isinstance(op, _COLLECTIVE) and (around := divergent(op, function)) is not None:
            raise DiagnosticException(
                f"verify-barriers: @{name}: {op.name} stands in a {around.name} that not all threads run alike; "
                "move it out"
            )
    if (hazard := first_hazard(function)) is not None:
        missing = "with no kernel.barrier between them; add one"
        if hazard.is_in_flight:
            missing = "with no kernel.wait_group between them; wait for its group"
        raise DiagnosticException(f"verify-barriers: @{name}: {hazard} {missing}")
