"""Products of warpgroups: tiles of shared memory multiplied into the accumulators of 128 threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from deplodock.analysis.access.matrix_tiles import unreadable
from deplodock.dialects.interfaces import Access, row
from deplodock.dialects.kernel.wgmma import (
    DEPTH,
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
from deplodock.interpreters.simulate.checks.unwritten import joined
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.memory import Buffer, Registers, Values
from deplodock.interpreters.simulate.mma import toward_zero
from deplodock.interpreters.values import Array

_ROWS_AT_ONCE = WARPGROUP // DEPTH
"""The rows of a tile that the threads of a warpgroup read at once, an element each."""


def _multiply(launch: Lockstep, op: WgmmaOp, frame: Frame) -> None:
    """Add the product of two tiles to the accumulators, rounded toward zero to f32 as `kernel.mma` does."""
    _check_warpgroups(launch, op, frame)
    if launch.check and (reason := unreadable(op)) is not None:
        launch.report.add(kinds.UNREADABLE_TILE, op, frame.active, lambda: reason)
    left, right = (_tile(launch, op, factor, rows, frame) for factor, rows in ((op.left, ROWS), (op.right, op.extent)))
    product = left.data.astype(np.float64) @ np.swapaxes(right.data.astype(np.float64), -1, -2)
    sums = launch.buffers[op.accumulators]
    assert isinstance(sums, Registers)
    element = _sums(launch, op, sums, frame)
    before = Values(sums.read(element), launch.memory.origin(op, sums, element))
    rows, columns = _places(op.width)
    part = np.moveaxis(product[..., rows, columns], -2, 0).reshape(op.width, *frame.shape)
    origin = joined(before.origin, _any_origin(left, right))
    sums.write(element, Values(toward_zero(before.data.astype(np.float64) + part), origin), frame.mask)


def _tile(launch: Lockstep, op: WgmmaOp, factor: Factor, rows: int, frame: Frame) -> Values:
    """The tiles of all warpgroups, as [CTAs, warpgroups, rows, 16]; each thread reads an equal share of its own."""
    lane = np.arange(frame.shape[-1]) % WARPGROUP
    places = np.arange(rows // _ROWS_AT_ONCE).reshape(-1, 1, 1) * _ROWS_AT_ONCE + lane // DEPTH, lane % DEPTH
    count = 2 + len(factor.indices)
    dims = [AffineExpr.dimension(i) for i in range(count)]
    map = factor.map.replace_dims_and_symbols(dims[:2], dims[2:], count, 0)
    subscripts = evaluate_map(map, [*places, *launch.get(factor.indices)])
    inner = replace(frame, shape=(rows // _ROWS_AT_ONCE, *frame.shape))
    access = Access(op, factor.buffer, False, map, factor.indices, row(len(subscripts)), by_proxy=True)
    buffer = launch.buffers[factor.buffer]
    assert isinstance(buffer, Buffer)
    data, origin = launch.memory.read(access, buffer, subscripts, inner)
    shares = np.broadcast_to(data, inner.shape).reshape(inner.shape[0], frame.shape[0], -1, _ROWS_AT_ONCE, DEPTH)
    return Values(np.moveaxis(shares, 0, 2).reshape(frame.shape[0], -1, rows, DEPTH), origin)


def _sums(launch: Lockstep, op: WgmmaOp, sums: Registers, frame: Frame) -> Array:
    """The numbers of the accumulators of each thread, in a first dimension."""
    subscripts = launch.mapped(op, op.map.data, op.indices)
    first = np.asarray(sum((s * n for s, n in zip(subscripts, sums.layout.rows, strict=True)), np.asarray(0)))
    outside = (first < 0) | (first + op.width > sums.layout.size)
    if launch.check and outside.any():
        name = launch.report.names.value(op.accumulators)
        launch.report.add(
            kinds.OUT_OF_BOUNDS,
            op,
            frame.count(outside),
            lambda: f"{op.width} accumulators from {name}[..] on end outside of {op.accumulators.type}",
        )
    return np.where(outside, 0, first) + np.arange(op.width).reshape(-1, 1, 1)


def _places(width: int) -> tuple[Array, Array]:
    """The row and the column of each accumulator of each thread of a warpgroup, as [accumulators, threads]."""
    number, thread = np.arange(width).reshape(-1, 1), np.arange(WARPGROUP)
    j, h, r = number // 4, number // 2 % 2, number % 2
    return thread // 32 * 16 + h * 8 + thread % 32 // 4, j * 8 + thread % 4 * 2 + r


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


def _order(launch: Lockstep, op: WgmmaFenceOp | WgmmaCommitOp | WgmmaWaitOp, frame: Frame) -> None:
    _check_warpgroups(launch, op, frame)


HANDLERS: Handlers = {WgmmaOp: _multiply, WgmmaFenceOp: _order, WgmmaCommitOp: _order, WgmmaWaitOp: _order}
"""How they run."""
