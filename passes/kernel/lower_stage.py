"""Lowers `tile.stage`: a register slab is filled by its thread, a shared slab by all threads of the CTA together.

Elements of the source outside the buffer become zero. Consecutive elements move together where both sides are
contiguous and aligned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from deplodock.analysis.alignment import aligned_width
from deplodock.analysis.linear import Linear, fold
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Memory
from deplodock.passes.kernel.emit import Condition, Emitter, in_shape

UNROLLED_COPIES = 8
"""The most copies of a thread that are unrolled, so that their loads are in flight together."""


def lower_stage(emitter: Emitter, op: tile.StageOp) -> None:
    """Emit the allocation of a slab and the copies that fill it."""
    slab = emitter.add(kernel.AllocOp(loop.memref_of(op.slab)), op.slab.name_hint)
    emitter.values[op.slab] = slab
    outer = emitter.block
    if tile.memory_of(op.slab) is Memory.REGISTER:
        _fill_registers(emitter, op, slab)
    else:
        _fill_shared(emitter, op, slab)
    emitter.block = outer


def _fill_registers(emitter: Emitter, op: tile.StageOp, slab: SSAValue) -> None:
    """One thread copies its slab in unrolled loops over the slab's coordinates."""
    shape = loop.memref_of(op.slab).get_shape()
    coordinates: list[Linear] = []
    width = 1
    for dim, extent in enumerate(shape):
        if dim == len(shape) - 1:
            width = _width(op, dim)
        trips = extent // width
        name = f"d{dim}"
        coordinates.append(Linear(((emitter.enter_loop(trips, name), width),)) if trips > 1 else Linear())
    _move(emitter, op, slab, coordinates, width)


def _fill_shared(emitter: Emitter, op: tile.StageOp, slab: SSAValue) -> None:
    """The threads of the CTA take turns over the slab, neighbours along the source's contiguous dimension."""
    shape = loop.memref_of(op.slab).get_shape()
    order = _copy_order(op)
    width = _width(op, order[-1]) if order else 1
    counts = {dim: shape[dim] // (width if dim == order[-1] else 1) for dim in order}
    total, threads = math.prod(counts.values()), emitter.function.num_threads
    if not total:
        return
    trips = -(-total // threads)
    flat = Linear(((emitter.function.thread_id, 1),))
    if trips > 1:
        flat = Linear(((emitter.enter_loop(trips, "c", unroll=trips <= UNROLLED_COPIES), threads),)) + flat
    chunk = loop.ForOp(total, Region(Block(arg_types=[IndexType()]))).iv
    coordinates = [Linear()] * len(shape)
    rest = Linear(((chunk, 1),))
    for dim in reversed(order):
        coordinates[dim] = rest.mod(counts[dim]) * (width if dim == order[-1] else 1)
        rest = rest.floordiv(counts[dim])
    beyond: list[Condition] = [flat - Linear(constant=total)] if total % threads else []
    with emitter.guarded(beyond):
        _move(emitter, op, slab, coordinates, width, lambda form: form.substitute(chunk, flat))


def _copy_order(op: tile.StageOp) -> list[int]:
    """The slab's dimensions with the one that walks the source's last dimension last."""
    dims = list(range(len(loop.memref_of(op.slab).get_shape())))
    if not op.map.data.results:
        return dims
    contiguous = op.map.data.results[-1].used_dims()
    return [dim for dim in dims if dim not in contiguous] + [dim for dim in dims if dim in contiguous]


def _width(op: tile.StageOp, along: int) -> int:
    """The elements along a slab dimension that move together: contiguous, aligned and inside the buffer alike."""
    slab, source = loop.memref_of(op.slab), loop.memref_of(op.source)
    roots = Block(arg_types=[IndexType()] * len(slab.get_shape())).args
    coordinates = [Linear(((root, 1),)) for root in roots]
    subscripts = _subscripts(op, coordinates)
    extent = slab.get_shape()[along]
    width = min(
        aligned_width(source, subscripts, roots[along], extent), aligned_width(slab, coordinates, roots[along], extent)
    )
    base = subscripts[-1] - coordinates[along] if subscripts else Linear()
    while width > 1 and (base.divisor() % width or source.get_shape()[-1] % width):
        width //= 2
    return width


def _subscripts(op: tile.StageOp, coordinates: Sequence[Linear]) -> list[Linear]:
    return [fold(expr, op.indices, coordinates) for expr in op.map.data.results]


def _move(
    emitter: Emitter,
    op: tile.StageOp,
    slab: SSAValue,
    coordinates: Sequence[Linear],
    width: int,
    at: Callable[[Linear], Linear] = lambda form: form,
) -> None:
    """Copy `width` elements to these slab coordinates, zeros where they lie outside; `at` places the forms."""
    subscripts = _subscripts(op, coordinates)
    outside = in_shape(loop.memref_of(op.source), subscripts)
    guard = emitter.condition_map([at(form) for form in outside]) if outside else None
    read = (emitter.value(op.source), *emitter.map([at(form) for form in subscripts]))
    emitter.run(kernel.MoveOp(width, read, (slab, *emitter.map([at(form) for form in coordinates])), guard))
