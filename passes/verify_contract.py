"""verify-contract: check that engines find the factors and results of contracts in the lanes that they want.

    tile.launch (%g = 8 : thread, %t = 4 : thread, ..., %k = 4 : lane %t, %n = 8 : lane %g) {
      %c = tile.contract mma %a * %b over (%k, %v) at (%n = %t + %r * 4) : bf16, bf16 -> f32

is refused: a lane of the tensor core holds two columns that are neighbours, `%t * 2 + %r`. That no value varies along
two axes of one carrier is checked for every launch with lane axes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.atoms import NoAtomError, atom_of
from deplodock.analysis.shape.dependence import Dependence, engine_faults, lane_faults
from deplodock.dialects import tile
from deplodock.passes.options import CheckPass
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class VerifyContractPass(CheckPass):
    """Check that the axes of contracts lie in the lanes of their engines, and the values along lane axes."""

    name = "verify-contract"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for launch in (inner for inner in op.walk() if isinstance(inner, tile.LaunchOp)):
            dependence = Dependence()
            for contract in (inner for inner in launch.body.walk() if isinstance(inner, tile.ContractOp)):
                try:
                    atom_of(launch, contract, dependence)
                except NoAtomError as error:
                    raise failure(contract, str(error)) from error
            for fault in (*lane_faults(launch), *engine_faults(launch)):
                raise failure(fault.op, fault.reason)
