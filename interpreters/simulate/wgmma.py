"""Products of warpgroups: tiles of shared memory multiplied into the accumulators of 128 threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from deplodock.analysis.access.matrices import unreadable
from deplodock.dialects.interfaces import Access, row
from deplodock.dialects.kernel.wgmma import (
    ROWS,
    WARPGROUP,
    Factor,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaOp,
    WgmmaWaitOp,
)
from deplodock.errors import UnsupportedError
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, Touch
from deplodock.interpreters.simulate.checks.unwritten import joined
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep, Unit
from deplodock.interpreters.simulate.memory import Buffer, Registers, Values, origin_at
from deplodock.interpreters.simulate.mma import read_by_engine, toward_zero
from deplodock.interpreters.values import Array, poison


@dataclass
class _Product:
    """A product in flight: what it reads, the sums after it, and the lanes, [CTAs, threads], that did not wait yet."""

    tiles: Sequence[tuple[Touch, Array]]
    sums: Registers
    element: Array
    values: Values
    lanes: Array
    group: Array

    def is_behind(self, other: _Product) -> bool:
        """Whether it adds to the accumulators that another one adds to."""
        return self.sums is other.sums and np.array_equal(self.element, other.element)


class Products(Unit):
    """The products in flight of the CTAs that run together; their sums are unwritten until a wait for them."""

    def __init__(self, launch: Lockstep) -> None:
        self._launch = launch
        self._ids: Array | None = None
        self._flying: list[_Product] = []
        self._groups = np.zeros((0, 0), np.int64)

    def add(self, product: _Product, frame: Frame) -> None:
        """Start a product, in the open group of each lane."""
        self._renew(frame)
        product.group = self._groups.copy()
        self._flying.append(product)
        for tile in product.tiles:
            self._launch.memory.tell(Check.on_reading, *tile)
        unwritten = np.full(np.shape(product.values.data), -1, np.int64)
        data = product.values.data
        poisoned = Values(np.full(np.shape(data), poison(data.dtype), data.dtype), unwritten)
        product.sums.write(product.element, poisoned, product.lanes)

    def before(self, sums: Registers, element: Array, held: Values, frame: Frame) -> Values:
        """The sums that a product adds to: those of the products before it that are in flight, else those held."""
        self._renew(frame)
        data, origin = held
        for flying in self._flying:
            if flying.sums is sums and np.array_equal(flying.element, element):
                data = np.where(flying.lanes, flying.values.data, data)
                mine = np.asarray(0) if flying.values.origin is None else flying.values.origin
                origin = np.where(flying.lanes, mine, np.asarray(0) if origin is None else origin)
        return Values(data, origin)

    def commit(self, frame: Frame) -> None:
        """Close the open group of lanes."""
        self._renew(frame)
        self._groups = self._groups + all_lanes(frame)

    def wait(self, frame: Frame, pending: int) -> None:
        """End the products of lanes, but for those of their `pending` last groups."""
        self._renew(frame)
        remaining: list[_Product] = []
        for place, product in enumerate(self._flying):
            done = product.lanes & all_lanes(frame) & (product.group < self._groups - pending)
            later = [other for other in self._flying[place + 1 :] if other.is_behind(product)]
            is_last = done.copy()
            for other in later:
                is_last &= ~(other.lanes & ~(all_lanes(frame) & (other.group < self._groups - pending)))
            product.sums.write(product.element, product.values, is_last)
            product.lanes = product.lanes & ~done
            if product.lanes.any():
                remaining.append(product)
                continue
            for tile in product.tiles:
                self._launch.memory.tell(Check.on_reading_end, *tile)
                self._launch.memory.tell(Check.on_read, *tile)
        self._flying = remaining

    def _renew(self, frame: Frame) -> None:
        """Start anew with other CTAs."""
        if self._ids is not self._launch.memory.ids:
            self._ids, self._flying = self._launch.memory.ids, []
            self._groups = np.zeros(frame.shape, np.int64)


def _multiply(launch: Lockstep, op: WgmmaOp, frame: Frame) -> None:
    """Add the product of two tiles to the accumulators, rounded toward zero to f32 or wrapped, as `kernel.mma` does."""
    _check_warpgroups(launch, op, frame)
    if launch.check and (reason := unreadable(op)) is not None:
        launch.report.add(kinds.UNREADABLE_TILE, op, frame.active, lambda: reason)
    tiles = [_place(launch, op, factor, rows, frame) for factor, rows in op.tiles()]
    depth = op.right.depth
    right = _tile(launch, *tiles[-1], (op.extent, depth))
    left = _held(launch, op, frame) if op.left.is_held else _tile(launch, *tiles[0], (ROWS, depth))
    is_float = right.data.dtype.kind != "i"
    exact = np.float64 if is_float else np.int64
    one, other = (read_by_engine(factor.data).astype(exact) for factor in (left, right))
    product = one @ np.swapaxes(other, -1, -2)
    sums, products = launch.buffers[op.accumulators], launch.unit(Products)
    assert isinstance(sums, Registers)
    element = _sums(launch, op, sums, frame)
    held = products.before(sums, element, Values(sums.read(element), sums.origin(element)), frame)
    if op.anew:
        held = Values(np.zeros_like(held.data), None)
    origin = held.origin
    if origin is not None:
        origin = np.where(origin < 0, origin_at(launch.memory.numbers[op], element), origin)
    rows, columns = _places(op.width)
    part = np.moveaxis(product[..., rows, columns], -2, 0).reshape(op.width, *frame.shape)
    total = held.data.astype(exact) + part
    rounded = toward_zero(total) if is_float else total.astype(np.int32)
    values = Values(rounded, joined(origin, _any_origin(left, right)))
    products.add(_Product(tiles, sums, element, values, all_lanes(frame), np.zeros(0)), frame)


def _place(launch: Lockstep, op: WgmmaOp, factor: Factor, rows: int, frame: Frame) -> tuple[Touch, Array]:
    """Where the threads of warpgroups read their tiles, each an equal share; some read the last row, too."""
    lane, at_once = np.arange(frame.shape[-1]) % WARPGROUP, WARPGROUP // factor.depth
    steps = -(-rows // at_once)
    shares = np.arange(steps).reshape(-1, 1, 1) * at_once + lane // factor.depth
    places = np.minimum(shares, rows - 1), lane % factor.depth
    count = 2 + len(factor.indices)
    dims = [AffineExpr.dimension(i) for i in range(count)]
    map = factor.map.replace_dims_and_symbols(dims[:2], dims[2:], count, 0)
    subscripts = evaluate_map(map, [*places, *launch.get(factor.indices)])
    inner = replace(frame, shape=(steps, *frame.shape))
    access = Access(op, factor.buffer, False, map, factor.indices, row(len(subscripts)), by_proxy=True)
    buffer = launch.buffers[factor.buffer]
    assert isinstance(buffer, Buffer)
    return launch.memory.place(access, buffer, subscripts, inner)


def _tile(launch: Lockstep, touch: Touch, elements: Array, extents: tuple[int, int]) -> Values:
    """The tiles of all warpgroups, as [CTAs, warpgroups, rows, k]."""
    data, origin = launch.memory.take(touch, elements)
    steps, ctas, _ = touch.frame.shape
    rows, depth = extents
    shares = np.broadcast_to(data, touch.frame.shape).reshape(steps, ctas, -1, WARPGROUP // depth, depth)
    whole = np.moveaxis(shares, 0, 2).reshape(ctas, shares.shape[2], -1, depth)
    return Values(whole[:, :, :rows], origin)


def _held(launch: Lockstep, op: WgmmaOp, frame: Frame) -> Values:
    """The left factors that the threads of warpgroups hold, as [CTAs, warpgroups, 64, k]."""
    buffer = launch.buffers[op.left_buffer]
    assert isinstance(buffer, Registers)
    access, *_ = launch.accesses[op]
    held = op.left.held
    element = _registers(launch, op, access, held, buffer, frame)
    data, origin = buffer.read(element), launch.memory.origin(op, buffer, element)
    origin = None if origin is None else np.where(all_lanes(frame), origin, 0)
    rows, depth = _places(held) if data.dtype.itemsize == 2 else _places_of_words(held)
    shares = np.broadcast_to(data, (held, *frame.shape)).reshape(held, frame.shape[0], -1, WARPGROUP)
    found = np.empty((*shares.shape[1:3], ROWS, op.left.depth), data.dtype)
    found[..., rows, depth] = np.moveaxis(shares, 0, -2)
    return Values(found, origin)


def _sums(launch: Lockstep, op: WgmmaOp, sums: Registers, frame: Frame) -> Array:
    """The numbers of the accumulators of each thread, in a first dimension."""
    *_, access = launch.accesses[op]
    return _registers(launch, op, access, op.width, sums, frame)


def _registers(launch: Lockstep, op: WgmmaOp, access: Access, width: int, buffer: Registers, frame: Frame) -> Array:
    """The numbers of the registers of each thread that an access takes, neighbours, in a first dimension."""
    subscripts = launch.mapped(access, access.map, access.indices)
    first = np.asarray(sum((s * n for s, n in zip(subscripts, buffer.layout.rows, strict=True)), np.asarray(0)))
    outside = (first < 0) | (first + width > buffer.layout.size)
    if launch.check and outside.any():
        name = launch.report.names.value(access.buffer)
        launch.report.add(
            kinds.OUT_OF_BOUNDS,
            op,
            frame.count(outside),
            lambda: f"{width} elements from {name}[..] on end outside of {access.buffer.type}",
        )
    return np.where(outside, 0, first) + np.arange(width).reshape(-1, 1, 1)


def _places(width: int) -> tuple[Array, Array]:
    """The row and the column of each accumulator of each thread of a warpgroup, as [accumulators, threads]."""
    number, thread = np.arange(width).reshape(-1, 1), np.arange(WARPGROUP)
    j, h, r = number // 4, number // 2 % 2, number % 2
    return thread // 32 * 16 + h * 8 + thread % 32 // 4, j * 8 + thread % 4 * 2 + r


def _places_of_words(width: int) -> tuple[Array, Array]:
    """The row and k of each element of f32 that each thread of a warpgroup holds, as [elements, threads]."""
    number, thread = np.arange(width).reshape(-1, 1), np.arange(WARPGROUP)
    return thread // 32 * 16 + number % 2 * 8 + thread % 32 // 4, number // 2 * 4 + thread % 4


def _any_origin(*tiles: Values) -> Array | None:
    """An origin that some element of the tiles has, None if there are none."""
    found = [int(tile.origin.max()) for tile in tiles if tile.origin is not None]
    return np.asarray(max(found)) if any(found) else None


def _check_warpgroups(launch: Lockstep, op: Operation, frame: Frame) -> None:
    """Report an operation that a warpgroup runs without all of its threads.

    Raises UnsupportedError where the threads of a CTA are no whole warpgroups.
    """
    if frame.shape[-1] % WARPGROUP:
        raise UnsupportedError(f"{op.name} takes whole warpgroups, and @{launch.kernel.sym_name.data} has others")
    if not launch.check or frame.mask is None:
        return
    here = all_lanes(frame).reshape(*frame.shape[:-1], -1, WARPGROUP).sum(axis=-1)
    broken = (here > 0) & (here < WARPGROUP)
    if broken.any():
        cta, group = (int(i) for i in np.unravel_index(np.argmax(broken), broken.shape)[-2:])
        count = int(here[..., cta, group].max())
        launch.report.add(
            kinds.DIVERGENT_WARPGROUP,
            op,
            int(np.count_nonzero(broken)),
            lambda: (
                f"only {count} of the {WARPGROUP} threads of warpgroup {group} of CTA {int(launch.memory.ids[cta])} "
                "reach it; all threads of a warpgroup must"
            ),
        )


def _fence(launch: Lockstep, op: WgmmaFenceOp, frame: Frame) -> None:
    _check_warpgroups(launch, op, frame)


def _commit(launch: Lockstep, op: WgmmaCommitOp, frame: Frame) -> None:
    _check_warpgroups(launch, op, frame)
    launch.unit(Products).commit(frame)


def _wait(launch: Lockstep, op: WgmmaWaitOp, frame: Frame) -> None:
    _check_warpgroups(launch, op, frame)
    launch.unit(Products).wait(frame, op.pending.value.data)


HANDLERS: Handlers = {WgmmaOp: _multiply, WgmmaFenceOp: _fence, WgmmaCommitOp: _commit, WgmmaWaitOp: _wait}
"""How they run."""
