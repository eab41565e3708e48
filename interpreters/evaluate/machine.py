"""The common part of the evaluators: points, memory, and the dispatch of operations to the functions that mean them.

A value is one array over the points it varies along. Each loop, launch axis or reduction entered adds a *leading*
dimension, so numpy's broadcasting aligns the trailing, outer ones and needs no bookkeeping: a value computed outside a
loop has fewer dimensions than one inside. Spaces of more than `MAX_POINTS` points run in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import IsTerminator

from deplodock.analysis.operations import position_of
from deplodock.analysis.shape.nest import loops_of, scans_along
from deplodock.dialects.loop import WhereOp
from deplodock.dialects.scalar_regions import combiner_ops
from deplodock.dialects.tile import CopyOp, ReleaseOp, RingOp, WaitOp
from deplodock.errors import Error
from deplodock.interpreters.affine import affine, holds, outside_as_false
from deplodock.interpreters.evaluate.rings import Ring
from deplodock.interpreters.scalars import check_scalar, describe, evaluate_scalar, scalar_value
from deplodock.interpreters.values import Array, DType, Precision, bits, dtype_of, epsilon, is_float, poison

MAX_POINTS = 1 << 20
"""The most points that are held in one array."""


@dataclass(frozen=True)
class Points:
    """The points at which a block runs: an extent for each dimension, outermost first, and where they are active."""

    extents: tuple[int, ...] = ()
    active: Array | None = None
    """Broadcasts to the points; None means everywhere."""

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.extents)

    @property
    def points(self) -> int:
        """The number of points."""
        return int(np.prod(self.extents, dtype=np.int64))

    def coordinate(self, dim: int, start: int = 0) -> Array:
        """The coordinate along dimension `dim`, counted from `start`."""
        return np.arange(start, start + self.extents[dim]).reshape(-1, *(1,) * dim)

    def where(self, condition: Array | None) -> Points:
        """The same points, active only where the condition holds too."""
        if condition is None or condition.all():
            return self
        return replace(self, active=condition if self.active is None else self.active & condition)


@dataclass(eq=False)
class PointBuffer:
    """A memory: an array of the logical shape, preceded by the dimensions of the points that own a copy of it."""

    data: Array
    rank: int
    """The number of subscripts."""
    initialised: Array | None = None
    """Which elements hold a value; None means all."""
    written: Array | None = None
    """Which elements the running launch or kernel wrote."""
    guard: Callable[[Operation, Sequence[Array]], None] | None = None
    """Raises Error where an operation may not read these subscripts now."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return self.data.shape[self.data.ndim - self.rank :]

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements to the next index, for each dimension of `data`."""
        return tuple(stride // self.data.itemsize for stride in self.data.strides)

    @cached_property
    def flat(self) -> Array:
        """The elements in address order."""
        return self.data.reshape(-1)

    def address(self, subscripts: Sequence[Array]) -> Array:
        """The offsets into `flat` for these subscripts."""
        owners = self.data.ndim - self.rank
        address: Array = np.asarray(0, np.int64)
        for subscript, stride in zip(subscripts, self.strides[owners:], strict=True):
            address = address + subscript * stride
        for axis, (extent, stride) in enumerate(zip(self.data.shape[:owners], self.strides[:owners], strict=True)):
            if extent > 1:
                address = address + (np.arange(extent, dtype=np.int64) * stride).reshape(
                    -1, *(1,) * (owners - 1 - axis)
                )
        return address


class TooLong(Error):
    """A program that would run longer than it may."""

    def __init__(self, op: Operation, steps: int, most: int) -> None:
        place = position_of(op)
        super().__init__(
            f"{'' if place is None else f'{place}: error: '}with {op.name} the program takes {steps:.1e} steps or "
            f"more, which is too long for a CPU (the limit is {most:.0e}); make the loops shorter, or run it on a GPU"
        )


Value: TypeAlias = Array | PointBuffer
Handler: TypeAlias = Callable[["Machine", Any, Points], None]


def uninitialised(shape: Sequence[int], dtype: DType) -> PointBuffer:
    """A buffer whose elements nobody has written; they read as poison."""
    return PointBuffer(np.full(shape, poison(dtype)), len(shape), np.zeros(shape, np.bool_))


@dataclass
class Machine:
    """Runs blocks: `handlers` mean the operations, everything else is a scalar operation."""

    handlers: Mapping[type[Operation], Handler]
    precision: Precision = "native"
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    dims: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The dimension of each launch axis that is running."""
    rings: dict[SSAValue, Ring] = field(default_factory=dict[SSAValue, Ring])
    exact: bool = True
    """Whether every reduction so far gives the same bits in any order."""
    contracts: bool = False
    """Whether sums of products may be taken by matrix products, in another order."""
    carries: dict[Operation, list[Array]] = field(default_factory=dict[Operation, list[Array]])
    """What each scan has folded in the iterations so far of the loops that it runs along."""
    most_steps: int | None = None
    """How many iterations, at all points together, may run; None: any number."""
    _steps: int = 0
    _written: list[PointBuffer] = field(default_factory=list[PointBuffer])
    _launching: bool = False
    _orders: dict[Block, list[Operation]] = field(default_factory=dict[Block, list[Operation]])
    _stepwise: dict[Block, bool] = field(default_factory=dict[Block, bool])

    def dtype(self, type: Attribute) -> DType:
        """The dtype of an element type."""
        return dtype_of(type, self.precision)

    def identities(self, identities: Iterable[Attribute], types: Iterable[Attribute]) -> list[Array]:
        """The identities of a combiner, whose values have these element types."""
        return [scalar_value(each, self.dtype(type)) for each, type in zip(identities, types, strict=True)]

    def array(self, value: SSAValue) -> Array:
        """The array of a scalar, index or tensor value."""
        found = self.values[value]
        assert not isinstance(found, PointBuffer)
        return found

    def arrays(self, values: Sequence[SSAValue]) -> list[Array]:
        """The arrays of these values."""
        return [self.array(value) for value in values]

    def buffer(self, value: SSAValue) -> PointBuffer:
        """The buffer of a memref value."""
        found = self.values[value]
        assert isinstance(found, PointBuffer)
        return found

    def run(self, block: Block, space: Points, *, without: Operation | None = None) -> Points:
        """Run the operations of a block at the points of `space`; returns it with the block's `loop.where` applied.

        One operation may be left out.
        """
        for op in self._order(block):
            if op is without:
                continue
            if isinstance(op, WhereOp):
                space = space.where(self.holds(op.condition.data, op.indices))
            elif (handler := self.handlers.get(type(op))) is not None:
                handler(self, op, space)
            else:
                self.scalar(op)
        return space

    def scalar(self, op: Operation) -> None:
        """Run a scalar operation."""
        check_scalar(op)
        self.values[op.results[0]] = evaluate_scalar(op, self.arrays(op.operands), self.precision)

    def region(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        """The values that a region of scalar operations yields for these arguments."""
        block = region.block
        self.values.update(zip(block.args, arguments, strict=True))
        *ops, terminator = block.ops
        for op in ops:
            self.scalar(op)
        return self.arrays(terminator.operands)

    def affine(self, map: AffineMap, dims: Sequence[Array], symbols: Sequence[Array] = ()) -> list[Array]:
        """The results of an affine map."""
        return [affine(expr, dims, symbols) for expr in map.results]

    def holds(self, conditions: AffineMap, indices: Sequence[SSAValue]) -> Array:
        """Where all conditions `lhs < rhs` hold."""
        return holds(conditions, self.arrays(indices))

    def load(
        self,
        op: Operation,
        buffer: PointBuffer,
        subscripts: Sequence[Array],
        space: Points,
        *,
        padded: bool = False,
    ) -> Array:
        """The elements at the subscripts; poison at inactive points, and 0 outside the buffer where it is `padded`.

        Raises Error if an active point reads outside any other buffer, or an element that nobody wrote.
        """
        inside = outside_as_false(subscripts, buffer.shape) if padded else None
        value, missing = self.copy(op, buffer, subscripts, space if inside is None else space.where(inside))
        if missing is not None and missing.any():
            first, *points = (point.reshape(-1) for point in np.broadcast_arrays(missing, *subscripts))
            where = [int(point[first.argmax()]) for point in points]
            raise Error(f"{describe(op)}: reads element {where}, which nobody wrote")
        return value if inside is None else np.where(inside, value, np.zeros((), value.dtype))

    def copy(
        self, op: Operation, buffer: PointBuffer, subscripts: Sequence[Array], space: Points
    ) -> tuple[Array, Array | None]:
        """As `load`, but elements that nobody wrote may be copied: the second array says which are, None: none.

        Raises Error if an active point reads outside the buffer, or what this launch wrote.
        """
        inside = outside_as_false(subscripts, buffer.shape)
        if inside is not None:
            self._check_inside(op, buffer, subscripts, inside, space)
            subscripts = [np.clip(s, 0, max(n - 1, 0)) for s, n in zip(subscripts, buffer.shape, strict=True)]
        if buffer.guard is not None:
            buffer.guard(op, subscripts)
        if not buffer.data.size:
            return poison(buffer.data.dtype), None
        address = buffer.address(subscripts)
        self._check_launch(op, buffer, address, space)
        value = buffer.flat.take(address)
        missing = None if buffer.initialised is None else ~buffer.initialised.reshape(-1)[address]
        if missing is not None and not missing.any():
            missing = None
        if space.active is None:
            return value, missing
        missing = None if missing is None else missing & space.active
        return np.where(space.active, value, poison(value.dtype)), missing

    def store(
        self, op: Operation, value: Array, buffer: PointBuffer, subscripts: Sequence[Array], space: Points
    ) -> None:
        """Store at the active points.

        Raises Error if one is outside the buffer, or if an element gets two different values.
        """
        inside = outside_as_false(subscripts, buffer.shape)
        if inside is not None:
            self._check_inside(op, buffer, subscripts, inside, space)
        address = buffer.address(subscripts)
        if space.active is None:
            address, value = np.broadcast_arrays(address, value)
            address, value = address.reshape(-1), value.reshape(-1)
        else:
            active, address, value = np.broadcast_arrays(space.active, address, value)
            address, value = address[active], value[active]
        written = self._start_writing(buffer)
        again = written[address]
        clashes = again & (bits(buffer.flat[address]) != bits(value))
        buffer.flat[address] = value
        clashes |= bits(buffer.flat[address]) != bits(value)
        if clashes.any():
            where = element(buffer, address[clashes.argmax()])
            raise Error(f"{describe(op)}: two points store different values to element {where}; each needs one writer")
        written[address] = True
        if buffer.initialised is not None:
            buffer.initialised.reshape(-1)[address] = True

    def keep(
        self, op: Operation, value: Array, buffer: PointBuffer, subscripts: Sequence[Array], space: Points
    ) -> None:
        """Store at the active points, for readers in the same launch. Raises Error as `store`."""
        self.store(op, value, buffer, subscripts, space)
        self._written.remove(buffer)
        buffer.written = None

    def charge(self, op: Operation, iterations: int, points: int) -> None:
        """Count iterations that are about to run, at so many points. Raises Error where that is too much."""
        self._steps += iterations * max(1, points)
        if self.most_steps is not None and self._steps > self.most_steps:
            raise TooLong(op, self._steps, self.most_steps)

    def fold(self, combiner: Region, accumulators: Sequence[Array], values: Sequence[Array]) -> list[Array]:
        """Fold the values over their leading dimension into the accumulators, as a tree of neighbours, in order."""
        count, rank = max(value.shape[0] for value in values), max(value.ndim for value in values)
        if count == 0:
            return list(accumulators)
        values = _with_leading(values, count, rank)
        self.exact = self.exact and any_order_is_exact(combiner, values)
        rest: list[Array] = []
        while (count := values[0].shape[0]) > 1:
            if count % 2:
                last = [value[-1:] for value in values]
                rest = self.region(combiner, last + rest) if rest else last
            pairs = [value[0 : count - 1 : 2] for value in values] + [value[1::2] for value in values]
            values = _with_leading(self.region(combiner, pairs), count // 2, rank)
        total = self.region(combiner, [*accumulators, *values])
        if rest:
            total = self.region(combiner, total + rest)
        return [value[0] for value in _with_leading(total, 1, rank)]

    def prefixes(self, combiner: Region, values: Sequence[Array]) -> list[Array]:
        """The folds of the values over each prefix of their leading dimension, as trees of neighbours."""
        count, rank = max(value.shape[0] for value in values), max(value.ndim for value in values)
        found, step = _with_leading(values, count, rank), 1
        self.exact = self.exact and any_order_is_exact(combiner, found)
        while step < count:
            folded = self.region(combiner, [*(value[:-step] for value in found), *(value[step:] for value in found)])
            folded = _with_leading(folded, count - step, rank)
            found = [np.concatenate([value[:step], rest]) for value, rest in zip(found, folded, strict=True)]
            step *= 2
        return found

    def iterations(self, space: Points, iv: SSAValue, bounds: Sequence[Array]) -> Iterator[Points]:
        """The points of a loop over `iv` below the least of `bounds` at each point of `space`, in chunks, in order.

        A loop that works on a ring runs step by step.
        """
        bound = np.asarray(np.minimum.reduce(np.broadcast_arrays(*bounds)))
        reached = bound if space.active is None else np.where(space.active, bound, 0)
        extent = int(reached.max(initial=0))
        assert isinstance(iv.owner, Block)
        if (loop := iv.owner.parent_op()) is not None:
            self.charge(loop, extent, space.points)
        step = 1 if self._is_stepwise(iv) else max(1, MAX_POINTS // max(1, space.points))
        for start in range(0, extent, step):
            inner = Points((*space.extents, min(step, extent - start)), space.active)
            coordinate = inner.coordinate(space.rank, start)
            self.values[iv] = coordinate
            yield inner.where(coordinate < bound)

    def _is_stepwise(self, iv: SSAValue) -> bool:
        """Whether the loop of a variable works on a ring, or is the outer one of those that a scan runs along."""
        block = iv.owner
        assert isinstance(block, Block)
        if block not in self._stepwise:
            is_outer = any(loops_of(op)[-1] is not iv for op in scans_along(iv))
            on_ring = any(isinstance(op, RingOp | CopyOp | WaitOp | ReleaseOp) for op in block.walk())
            self._stepwise[block] = is_outer or on_ring
        return self._stepwise[block]

    @contextmanager
    def launch(self) -> Generator[None]:
        """A scope whose writes are seen only by what follows it."""
        self.end_writes()
        self._launching = True
        yield
        self._launching = False
        self.end_writes()

    def end_writes(self) -> None:
        """End a launch or kernel: what it wrote may be read and written again."""
        for buffer in self._written:
            buffer.written = None
        self._written.clear()

    def _check_inside(
        self, op: Operation, buffer: PointBuffer, subscripts: Sequence[Array], inside: Array, space: Points
    ) -> None:
        outside = ~inside if space.active is None else space.active & ~inside
        if not outside.any():
            return
        outside, *points = np.broadcast_arrays(outside, *subscripts)
        at = ", ".join(str(point.reshape(-1)[outside.argmax()]) for point in points)
        raise Error(f"{describe(op)}: the element [{at}] is outside the buffer of shape {list(buffer.shape)}")

    def _check_launch(self, op: Operation, buffer: PointBuffer, address: Array, space: Points) -> None:
        if buffer.written is None or not self._launching:
            return
        bad = buffer.written.reshape(-1)[address]
        if space.active is not None:
            bad, address = np.broadcast_arrays(bad & space.active, address)
        if bad.any():
            where = element(buffer, address.reshape(-1)[bad.argmax()])
            raise Error(
                f"{describe(op)}: reads element {where}, which was written in this launch; launches order memory"
            )

    def _start_writing(self, buffer: PointBuffer) -> Array:
        if buffer.written is None:
            self._written.append(buffer)
            buffer.written = np.zeros(buffer.data.shape, np.bool_)
        return buffer.written.reshape(-1)

    def _order(self, block: Block) -> list[Operation]:
        """The operations of a block without its terminator; each `loop.where` and what it needs come first."""
        order = self._orders.get(block)
        if order is None:
            ops = [op for op in block.ops if not op.has_trait(IsTerminator)]
            first = _needed(block, [op for op in ops if isinstance(op, WhereOp)])
            order = [op for op in ops if op in first] + [op for op in ops if op not in first]
            self._orders[block] = order
        return order


def _needed(block: Block, roots: Sequence[Operation]) -> set[Operation]:
    """The roots and the operations of the block that they depend on."""
    needed = set(roots)
    pending = list(roots)
    while pending:
        for inner in pending.pop().walk():
            for owner in (operand.owner for operand in inner.operands):
                if isinstance(owner, Operation) and owner.parent is block and owner not in needed:
                    needed.add(owner)
                    pending.append(owner)
    return needed


def _with_leading(values: Sequence[Array], count: int, rank: int) -> list[Array]:
    """The values in one shape of `rank` dimensions, the leading one `count`."""
    shape = np.broadcast_shapes(*(value.shape for value in values), (1,) * rank)
    return [np.broadcast_to(value, (count, *shape[1:])) for value in values]


def any_order_is_exact(combiner: Region, values: Sequence[Array]) -> bool:
    """Whether folding these values gives the same bits in any order.

    True for integers, maxima and minima, and for sums of integers up to where their type holds all of them.
    """
    if not any(is_float(value.dtype) for value in values):
        return True
    ops = combiner_ops(combiner)
    if ops is None:
        return False
    for op, value in zip(ops, values, strict=True):
        if isinstance(op, arith.AddfOp):
            total = np.abs(value).sum(0, dtype=np.float64)
            if not (np.rint(value) == value).all() or not (total < 2 / epsilon(value.dtype)).all():
                return False
        elif is_float(value.dtype) and not isinstance(op, _ORDER_FREE):
            return False
    return True


_ORDER_FREE = (arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp)


def element(buffer: PointBuffer, address: int | Array) -> list[int]:
    """The subscripts of an offset into a buffer."""
    index = np.unravel_index(address, buffer.data.shape)
    return [int(i) for i in index[buffer.data.ndim - buffer.rank :]]
