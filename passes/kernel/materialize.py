"""materialize: run expand-launch, lower-copies and outline, which turn launches into functions of hardware primitives.

    func.func @k(%x, %out) {                      kernel.func @k(%x, %out) blocks(%block = 32) threads(%thread = 256) {
      tile.launch (%row = 32 : block,               %row = loop.index [%block]
                   %t = 256 : thread) {        ->   %t = loop.index [%thread]
        ..                                          ..
      }                                           }
    }                                             func.func @main(..) { .. kernel.launch @k(%x, %out) .. }

It is the name of the sequence, for `-p materialize`; the pipeline lists the three.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from deplodock.passes.kernel.expand_launch import ExpandLaunchPass
from deplodock.passes.kernel.lower_copies import LowerCopiesPass
from deplodock.passes.kernel.outline import OutlinePass


@dataclass(frozen=True)
class MaterializePass(ModulePass):
    """Run expand-launch, lower-copies and outline."""

    name = "materialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ExpandLaunchPass().apply(ctx, op)
        LowerCopiesPass().apply(ctx, op)
        OutlinePass().apply(ctx, op)
