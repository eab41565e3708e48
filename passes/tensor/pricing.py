"""Prices the two fates of an operation: computed in the kernels that need it, or stored once by a kernel of its own.

Either way the elementwise operations that it is computed from go with it, as far as the nearest reductions and
arguments: what stops halfway costs a launch as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import cast, get_args

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.operations import reached, users_of
from deplodock.analysis.shape.fusion import Demand, Index, TensorOp, bytes_of
from deplodock.dialects.tensor import ConcatOp, ReduceOp
from deplodock.passes.tensor.group import MAX_INDICES, Group

_MAX_CONE = 16
"""How many operations behind the one that is decided are looked at, so that a decision takes a bounded time."""

_LOOKED_THROUGH = frozenset(get_args(TensorOp)) - {arith.ConstantOp, ConcatOp}
"""The operations of a cone: constants cost nothing, concats are in memory."""

Frontier = dict[ReduceOp, list[Index]]
"""The reductions that a cone ends at, and the indices at which it needs them."""


@dataclass(frozen=True)
class Price:
    """Nanoseconds that the two fates of an operation add to the program."""

    joined: float
    stored: float

    def __str__(self) -> str:
        return f"computing it there costs {self.joined / 1000:.3f} us, storing it {self.stored / 1000:.3f} us"


class Pricing:
    """The prices of the operations of a block, whose `positions` are those in the text."""

    def __init__(self, demand: Demand, rates: Rates, positions: Mapping[Operation, int]) -> None:
        self._demand = demand
        self._rates = rates
        self._positions = positions
        self._alone: dict[ReduceOp, float] = {}

    def of(self, op: TensorOp, needs: Mapping[Group, Sequence[Index]], kept: bool = False) -> Price:
        """The price of `op`, which the kernels `needs` need at these indices; `kept` is whether it is stored anyway.

        A reduction behind it that does not join them takes a kernel in any case: one of its own, or that of `op`, where
        it need not go through memory.
        """
        joined, apart = self._moving_ns([op] if kept else []), dict[ReduceOp, None]()
        for group, indices in needs.items():
            trial = group.fork()
            frontier = self._extend(trial, op, indices)
            joined += trial.nanoseconds(self._rates) - group.nanoseconds(self._rates)
            apart |= dict.fromkeys(
                reduction
                for reduction, found in frontier.items()
                if len(needs) > 1 or not self._joins(trial, reduction, found)
            )
        own, frontier = self._around(op)
        stored = own.nanoseconds(self._rates)
        held = self._held(own, {each: at for each, at in frontier.items() if _is_needed_by(own, each, op)})
        left = [reduction for reduction in apart if reduction not in held]
        stored += self._rates.launch_ns * len(left)
        joined += self._rates.launch_ns * len(apart) + self._moving_ns(apart) - self._moving_ns(left)
        return Price(joined, stored - self._moving_ns(reduction for reduction in held if reduction in apart))

    def merging(
        self, op: TensorOp, needs: Mapping[Group, Sequence[Index]], values: Mapping[SSAValue, SSAValue]
    ) -> bool:
        """Whether one kernel costs no more than the two that need `op`, whose reductions are stored by others then.

        `values` are the axes of the first kernel that those of the second one are. They become its rows, so that it has
        as many CTAs as its reductions have results.
        """
        base, other = needs
        merged = base.fork()
        merged.absorb(other, values)
        held = self._held(merged, self._extend(merged, op, needs[base]))
        apart = 0.0
        for group, indices in needs.items():
            trial = group.fork()
            if not isinstance(op, ReduceOp):
                self._extend(trial, op, indices)
            apart += trial.nanoseconds(self._rates)
        stored = [*held, op] if isinstance(op, ReduceOp) else held
        return merged.nanoseconds(self._rates) <= apart + sum(map(self._alone_ns, stored))

    def alone(self, op: TensorOp) -> Group:
        """A kernel that stores `op`, with what it is computed from up to reductions and whatever is in memory."""
        return self._around(op)[0]

    def together(self, op: ReduceOp, other: ReduceOp) -> Group:
        """The kernel that stores `op` and computes a further reduction, of other elements of the same rows."""
        group = self.alone(op)
        if other not in group.indices:
            index = next(iter(group.outputs.values()))
            self._extend(group, other, [self._demand.normal(other.outputs[0], index)])
        return group

    def _around(self, op: TensorOp) -> tuple[Group, Frontier]:
        group = Group.around(len(self._positions), op, self._demand)
        index = next(iter(group.outputs.values()))
        return group, self._extend(group, op, [self._demand.normal(op.results[0], index)])

    def _joins(self, group: Group, op: ReduceOp, indices: Sequence[Index]) -> bool:
        """Whether a kernel that needs a reduction would compute it, too; one that has such rows already does."""
        if group.refusal(op, indices) is not None:
            return False
        if group.rows is not None:
            return True
        whole = group.fork()
        whole.add(op, indices)
        added = whole.nanoseconds(self._rates) - group.nanoseconds(self._rates)
        return added <= self._alone_ns(op)

    def _alone_ns(self, op: ReduceOp) -> float:
        """What a kernel costs that stores a reduction of what is in memory."""
        if op not in self._alone:
            self._alone[op] = Group.around(len(self._positions), op, self._demand).nanoseconds(self._rates)
        return self._alone[op]

    def _held(self, group: Group, frontier: Frontier) -> list[ReduceOp]:
        """The reductions at a frontier that a kernel would compute together."""
        held: list[ReduceOp] = []
        for reduction, indices in frontier.items():
            if self._joins(group, reduction, indices):
                group.add(reduction, indices)
                held.append(reduction)
        return held

    def _moving_ns(self, ops: Iterable[Operation]) -> float:
        """The time to move the results of operations to or from memory."""
        return self._rates.moving_ns(sum(bytes_of(value) for op in ops for value in op.results))

    def _extend(self, group: Group, op: TensorOp, indices: Sequence[Index]) -> Frontier:
        """Put `op` and what it is computed from into a kernel, up to reductions and whatever is in memory."""
        wanted: dict[Operation, dict[Index, None]] = {op: dict.fromkeys(indices)}
        pending: list[tuple[int, TensorOp]] = [(-self._positions[op], op)]
        frontier: Frontier = {}
        size = 0
        while pending and size < _MAX_CONE:
            _, current = heappop(pending)
            found = list(wanted[current])
            if isinstance(current, ReduceOp) and current is not op:
                frontier[current] = found
                continue
            if len(found) > MAX_INDICES:
                continue
            size += 1
            group.add(current, found)
            for value, needed in group.demands(current).items():
                source = value.owner
                if type(source) not in _LOOKED_THROUGH:
                    continue
                source = cast(TensorOp, source)
                if source not in wanted:
                    wanted[source] = {}
                    heappush(pending, (-self._positions[source], source))
                wanted[source].update(needed)
        return frontier


def _is_needed_by(group: Group, reduction: ReduceOp, op: Operation) -> bool:
    """Whether a reduction is needed by a kernel alone, which stores `op`: what else needs it has it stored."""
    roots: set[Operation] = {reduction}
    inside = group.indices.keys() | roots
    return reached(roots, lambda each: users_of(each) if each in inside and each is not op else ()) <= inside
