"""All threads of many CTAs of a launch in lockstep, as the lanes of numpy arrays: their values, buffers and loops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.dialects.kernel import FuncOp
from deplodock.dialects.loop import ForOp, GuardOp, IndexOp, InsideOp
from deplodock.interpreters.affine import holds
from deplodock.interpreters.evaluate.machine import TooLong
from deplodock.interpreters.scalars import check_scalar, evaluate_scalar
from deplodock.interpreters.simulate.access import Check, MemoryUnit
from deplodock.interpreters.simulate.checks.unwritten import Origins, joined
from deplodock.interpreters.simulate.lanes import Frame, evaluate_map
from deplodock.interpreters.simulate.memory import Buffer, Registers, Values
from deplodock.interpreters.simulate.nests import Nests
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.values import Array

ELEMENTS_AT_ONCE = 1 << 21
"""The elements that an array of lanes may have."""


class Lockstep:
    """The threads of a launch: what they hold, and the loops, guards and indices that they run.

    How all other operations run is in `handlers`, functions in the file of their kind.
    """

    def __init__(
        self,
        kernel: FuncOp,
        arguments: Sequence[Buffer],
        report: Report,
        counters: Counters,
        check: bool,
        handlers: Handlers,
        checks: Sequence[type[Check]],
        most_steps: int | None = None,
    ) -> None:
        """`most_steps` are the lane steps that may run, None: any number."""
        self.kernel = kernel
        self.report = report
        self.counters = counters
        self.check = check
        self.memory = MemoryUnit(kernel, report, counters, check, checks)
        self.buffers: dict[SSAValue, Buffer | Registers] = dict(zip(kernel.parameters, arguments, strict=True))
        self.values: dict[SSAValue, Array] = {}
        self.origins = Origins(self.memory, self.buffers, report)
        self.accesses = {op: accesses_of(op) for op in kernel.body.walk()}
        self.nests = Nests(self.identity, ELEMENTS_AT_ONCE // kernel.num_threads)
        self.most_steps = most_steps
        self.is_sample = False
        """Whether CTAs of the grid are left out."""
        self._handlers = handlers
        self._units: dict[type[Unit], Any] = {}
        self._ops: dict[Block, list[Operation]] = {}
        self._maps: dict[int, tuple[list[Array], list[Array]]] = {}

    def unit(self, kind: type[_Unit]) -> _Unit:
        """What the operations of one kind share, made when it is first asked for."""
        found = self._units.get(kind)
        if found is None:
            found = self._units[kind] = kind(self)
        return found

    def end(self) -> None:
        """All CTAs have run."""
        for unit in self._units.values():
            unit.end()

    def identity(self, buffer: SSAValue) -> Hashable:
        """What tells buffers apart: arguments may be the same buffer under two names."""
        return id(self.buffers[buffer]) if buffer in self.kernel.parameters else buffer

    def ops_of(self, block: Block) -> list[Operation]:
        """The operations of a block that run."""
        return list(block.ops)

    def block(self, block: Block, frame: Frame) -> None:
        """Run the operations of a block."""
        ops = self._ops.get(block)
        if ops is None:
            ops = self._ops[block] = self.ops_of(block)
        for op in ops:
            self.counters.lane_steps += frame.active
            handler = self._handlers.get(type(op))
            if handler is not None:
                handler(self, op, frame)
            else:
                check_scalar(op)
                operands = self.get(op.operands)
                self.values[op.results[0]] = evaluate_scalar(op, operands)
                self.origins.note_scalar(op, operands)

    def get(self, values: Sequence[SSAValue]) -> list[Array]:
        """What lanes hold."""
        return [self.values[value] for value in values]

    def mapped(self, owner: object, map: AffineMap, indices: Sequence[SSAValue]) -> list[Array]:
        """The values of the map of an operation or access: the same list as last time if the indices are the same."""
        dims = self.get(indices)
        known = self._maps.get(id(owner))
        if known is not None and all(now is before for now, before in zip(dims, known[0], strict=True)):
            return known[1]
        results = evaluate_map(map, dims)
        self._maps[id(owner)] = dims, results
        return results

    def set(self, result: SSAValue, value: Values) -> None:
        """Let lanes hold a value, with its origins."""
        self.values[result] = value.data
        self.origins.note(result, value.origin)

    def read(self, access: Access, frame: Frame, rank: Array | None = None) -> Values:
        """What lanes read, of the CTA of that rank in the cluster if it is not their own."""
        subscripts = self.mapped(access, access.map, access.indices)
        value, origin = self.memory.read(access, self.buffers[access.buffer], subscripts, frame, rank)
        return Values(value, joined(origin, self.origins.of(access.indices)))

    def write(self, access: Access, value: Values, frame: Frame) -> None:
        """Let lanes write values."""
        self.origins.count(access.op, self.origins.of(access.indices), frame)
        if access.memory is None:
            self.origins.count(access.op, value.origin, frame.widened(access.width))
            value = Values(value.data)
        subscripts = self.mapped(access, access.map, access.indices)
        self.memory.write(access, self.buffers[access.buffer], subscripts, value, frame)

    def copy(self, access: Access, value: Values, frame: Frame) -> None:
        """Let lanes start to copy values."""
        self.origins.count(access.op, self.origins.of(access.indices), frame)
        buffer = self.buffers[access.buffer]
        assert isinstance(buffer, Buffer)
        self.memory.copy(access, buffer, evaluate_map(access.map, self.get(access.indices)), value, frame)


class Unit:
    """What operations of one kind share in a launch."""

    def __init__(self, launch: Lockstep) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """All CTAs have run."""


_Unit = TypeVar("_Unit", bound=Unit)

Handlers: TypeAlias = Mapping[type[Operation], Callable[[Lockstep, Any, Frame], None]]
"""How each operation runs on the lanes of a frame."""


def _for(launch: Lockstep, op: ForOp, frame: Frame) -> None:
    nest = launch.nests.of(op)
    if nest is not None and op.trips is not None:
        inner, launch.values[op.iv] = frame.nest(op.trips, nest.depth)
        launch.block(op.body.block, inner)
        return
    launch.origins.count(op, launch.origins.of(op.bound_operands), frame)
    bounds = evaluate_map(op.bound.data, launch.get(op.bound_operands))
    trips = bounds[0]
    for bound in bounds[1:]:
        trips = np.minimum(trips, bound)
    count = int(trips.max())
    steps = launch.counters.lane_steps + count * frame.active * len(op.body.block.ops)
    if launch.most_steps is not None and steps > launch.most_steps:
        raise TooLong(op, steps, launch.most_steps)
    for i in range(count):
        inner = frame.where(np.asarray(i < trips))
        if not inner.active:
            return
        launch.values[op.iv] = np.asarray(i, np.int64)
        launch.block(op.body.block, inner)


def _guard(launch: Lockstep, op: GuardOp, frame: Frame) -> None:
    launch.origins.count(op, launch.origins.of(op.indices), frame)
    inner = frame.where(holds(op.conditions.data, launch.get(op.indices)))
    if inner.active:
        launch.block(op.body.block, inner)


def _index(launch: Lockstep, op: IndexOp, frame: Frame) -> None:
    (value,) = launch.mapped(op, op.map.data, op.indices)
    launch.set(op.result, Values(value, launch.origins.of(op.indices)))


def _inside(launch: Lockstep, op: InsideOp, frame: Frame) -> None:
    value = holds(op.conditions.data, launch.get(op.indices))
    launch.set(op.result, Values(value, launch.origins.of(op.indices)))


HANDLERS: Handlers = {ForOp: _for, GuardOp: _guard, IndexOp: _index, InsideOp: _inside}
"""How loops, guards and indices run."""
