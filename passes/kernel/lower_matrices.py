"""Lowers loads of factors that `ldmatrix` reads: each lane names a row, and gets its pairs of all matrices.

%b = loop.load %vs[%i_j * 8 + %i_t * 2 + %i_r, %d_j * 8 + %d_g]
->
loop.for %d_j = 0 to 4 unroll {
  loop.for %i_j = 0 to 4 unroll {
    kernel.ldmatrix 4 trans %vs[%i_j * 16 + %thread mod 16, %d_j * 16 + %thread floordiv 16 mod 2 * 8]
      to %b[%d_j * 2 + d0 floordiv 2, %i_j * 2 + d0 mod 2, d1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.access.matrices import matrix_read
from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear, subscripts_of
from deplodock.analysis.machine.targets import WARP
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.kernel.ldmatrix import COUNTS, PAIR, SIDE
from deplodock.passes.kernel.emit import Array, Emitter


def lower_matrices(emitter: Emitter, op: loop.LoadOp) -> Array | None:
    """Emit the reads of a load into a register buffer, as many matrices at once as there are; returns it.

    None where the load does not read matrices.
    """
    if (read := matrix_read(emitter.launch, op)) is None:
        return None
    forms, source = subscripts_of(op), emitter.value(op.source)
    others = [axis for axis in emitter.axes_of([op.result]) if axis is not read.pair]
    array = emitter.register(op.result.type, (*others, read.pair), op.result.name_hint)
    together = _together(emitter, op, others)
    count = math.prod(together.values())
    matrix, pair, lane = stand_in(count), stand_in(PAIR), Linear.of(emitter.thread) % WARP
    named, got = lane // SIDE % count, Linear.of(matrix)
    known, block = dict(emitter.coordinates), emitter.block
    rows, places = read.row(forms, lane % SIDE), dict[SSAValue, Linear]()
    strides, stride = dict[SSAValue, int](), 1
    for axis, width in together.items():
        strides[axis] = stride
        stride *= width
    for axis in others:
        width, stride = together.get(axis, 1), strides.get(axis, 1)
        first = Linear()
        if emitter.extent(axis) > width:
            first = Linear.of(emitter.enter_loop(emitter.extent(axis) // width, axis.name_hint), width)
        rows = [form.substitute(axis, first + named // stride % width) for form in rows]
        places[axis] = first + got // stride % width
    target = emitter.map([*(places[axis] for axis in others), Linear.of(pair)], (matrix, pair))
    emitter.run(kernel.LdmatrixOp(count, (source, *emitter.map(rows)), (array.buffer, *target), read.is_transposed))
    emitter.coordinates, emitter.block = known, block
    return array


def _together(emitter: Emitter, op: loop.LoadOp, axes: Sequence[SSAValue]) -> dict[SSAValue, int]:
    """The register axes whose matrices are read at once, the fastest first, each with how many of its neighbours.

    The registers that a read fills are neighbours, and so must be those of a fragment: the pairs along k of a right
    factor, and of a left one its rows, then the pairs.
    """
    contract = next(use.operation for use in op.result.uses if isinstance(use.operation, tile.ContractOp))
    folded = [axis for axis in reversed(axes) if axis in contract.axes]
    free = [axis for axis in reversed(axes) if axis not in contract.axes]
    found: dict[SSAValue, int] = {}
    for axis in (*free[:1], *folded, *free[1:]) if op.result in contract.lhs else (*folded, *free):
        width = next(width for width in (2, 1) if emitter.extent(axis) % width == 0)
        if width > 1 and len(found) < 2:
            found[axis] = width
    if len(found) == 1 and all(emitter.extent(axis) % max(COUNTS) == 0 for axis in found):
        return dict.fromkeys(found, max(COUNTS))
    return found
