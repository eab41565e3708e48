"""What is asked again and again of one kernel while barriers are placed in it."""

from __future__ import annotations

from xdsl.ir import Operation

from deplodock.analysis.access.shared_accesses import conditions_of, ordered_accesses
from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.order.meetings import Meetings
from deplodock.analysis.order.phases import phase_forms
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import Landing, accesses_of
from deplodock.dialects.kernel.order import UsesPhase, order_of


class KernelFacts:
    """What the operations of a kernel access and order, and which accesses meet.

    It stays true where barriers and fences come and go, each of which is told to `add`; it holds for no other change.
    """

    def __init__(self, function: kernel.FuncOp) -> None:
        self.function = function
        self.meetings = Meetings(function)
        ops = list(function.walk())
        self.orders = {op: found for op in ops if (found := order_of(op)) is not None}
        products = [access for op in ops for access in accesses_of(op) if access.lands is Landing.PRODUCT]
        self.sums = {access.buffer for access in products if access.memory is Memory.REGISTER}
        """The accumulators of products, and the factors that threads hold."""
        self.accesses = {op: found for op in ops if (found := ordered_accesses(op, self.orders.get(op), self.sums))}
        boxes = [op for op, accesses in self.accesses.items() if any(access.by_proxy for access in accesses)]
        self.boxed = {access.buffer for op in boxes for access in self.accesses[op]}
        """The memory that copies of boxes use."""
        self._conditions: dict[loop.GuardOp, list[Linear]] = {}
        self._phase_forms: dict[Operation, list[Linear]] = {}

    def conditions(self, guard: loop.GuardOp) -> list[Linear]:
        """The conditions of a guard as forms that are below 0 where they hold."""
        if guard not in self._conditions:
            self._conditions[guard] = conditions_of(guard)
        return self._conditions[guard]

    def phase_forms(self, op: Operation, use: UsesPhase) -> list[Linear]:
        """The slot of the barrier that an operation uses, and the parity that it waits for."""
        if op not in self._phase_forms:
            self._phase_forms[op] = phase_forms(use)
        return self._phase_forms[op]

    def add(self, op: Operation) -> None:
        """Note a barrier or fence that has come since."""
        if (order := order_of(op)) is not None:
            self.orders[op] = order
