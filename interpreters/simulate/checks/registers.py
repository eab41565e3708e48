"""Register arrays whose subscripts are no constants once loops are unrolled: they would not stay in registers."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import SSAValue

from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.simulate.nests import varying_index


class RegisterIndices(Check):
    """Reports them when a launch starts, whatever its values are."""

    def on_launch(self, buffers: Iterable[Buffer]) -> None:
        """Look at all accesses of the kernel."""
        accesses = (access for op in self.memory.ops for access in accesses_of(op))
        for access in accesses:
            if access.memory is Memory.REGISTER and (varying := varying_index(access)) is not None:
                self._report(access, varying)

    def _report(self, access: Access, varying: SSAValue) -> None:
        names = self.report.names
        self.report.add(
            kinds.DYNAMIC_REGISTER_INDEX,
            access.op,
            1,
            lambda: (
                f"a subscript of the register array {names.value(access.buffer)} depends on {names.value(varying)}, "
                "which is no constant after unrolling; unroll its loop or use shared memory"
            ),
        )
