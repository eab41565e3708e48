"""verify-rings: check that slots of rings are filled before they are read, and read before filled again.

That is proved for all steps at once (`analysis/order/rings.py`). On `%ring = tile.ring 3`, in

    tile.wait %ring[%i]
    %v = loop.load %xs[%i mod 2, %t] : memref<3x8xf32, #tile.memory<shared>>
    tile.release %ring[%i]

the load is refused: `it must read the slot of the step that is waited for, step mod 3`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.order.rings import faults, rings
from deplodock.passes.options import CheckPass
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class VerifyRingsPass(CheckPass):
    """Check the slots of rings: each filled before it is read, and released before it is filled again."""

    name = "verify-rings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for ring in rings(op):
            for fault in faults(ring):
                raise failure(fault.op, fault.reason)
