"""What a tensor core computes: the fragments of a warp's lanes as matrices, and sums as the hardware rounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deplodock.analysis.machine.targets import WARP
from deplodock.dialects.engines import Engine
from deplodock.dialects.kernel.ldmatrix import PAIR, SIDE, LdmatrixOp
from deplodock.dialects.kernel.mma import MmaOp
from deplodock.errors import UnsupportedError
from deplodock.interpreters.scalars import high_part
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.checks.unwritten import joined
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.machine import Handlers, Lockstep
from deplodock.interpreters.simulate.memory import Values
from deplodock.interpreters.simulate.threads import check_warps
from deplodock.interpreters.values import Array

Registers = Mapping[tuple[int, ...], Values]
"""The values of a fragment's registers, by the coordinates of their first elements."""


def multiply(engine: Engine, fragments: Sequence[Registers], shape: tuple[int, ...]) -> dict[tuple[int, ...], Values]:
    """The sums after a product: the exact sum of the products and the sums before, rounded toward zero to f32.

    Sums of integers wrap to i32.

    `shape` is that of the lanes, [.., CTAs, threads], of whole warps. PTX leaves the rounding open; toward zero is
    what tensor cores are observed to do (Fasi et al., "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021).
    What any factor of the warp comes of, all sums come of.
    """
    left, right, sums = (_elements(registers, shape) for registers in fragments)
    lanes = _lanes(engine)
    warps = (*shape[:-1], shape[-1] // WARP)

    def gathered(value: Array) -> Array:
        """The values of the lanes by row digit and column digit."""
        return np.broadcast_to(value, shape).reshape(*warps, WARP)[..., lanes]

    rows, depth = range(engine.held[0]), range(engine.depth)
    a = read_by_engine(np.stack([np.stack([gathered(left[h, k].data) for k in depth], -1) for h in rows], -4))
    b = read_by_engine(np.stack([gathered(right[k,].data) for k in depth], -1))
    exact = np.int64 if engine.adds_integers else np.float64
    a = a.astype(exact).reshape(*warps, engine.m, engine.k)
    b = b.astype(exact).reshape(*warps, engine.n, engine.k)
    total = (a @ np.swapaxes(b, -1, -2)).reshape(
        *warps, engine.held[0], engine.row.extent, engine.column.extent, engine.held[1]
    )
    origin = _warp_origin([*left.values(), *right.values()], shape)
    found: dict[tuple[int, ...], Values] = {}
    for (h, r), before in sums.items():
        part = np.empty((*warps, WARP), exact)
        part[..., lanes] = total[..., h, :, :, r]
        sum = before.data.astype(exact) + part.reshape(shape)
        data = sum.astype(np.int32) if engine.adds_integers else toward_zero(sum)
        found[h, r] = Values(data, joined(origin, before.origin))
    return found


def read_by_engine(factor: Array) -> Array:
    """A factor as tensor cores read it: of f32 the part that TF32 keeps."""
    return high_part(factor) if factor.dtype == np.float32 else factor


def _elements(registers: Registers, shape: tuple[int, ...]) -> Registers:
    """The elements of a fragment; where a register holds several, they are in a first dimension."""
    found: dict[tuple[int, ...], Values] = {}
    for (*outer, first), value in registers.items():
        count = value.data.shape[0] if value.data.ndim > len(shape) else 1
        parts = [value] if count == 1 else [_part(value, i) for i in range(count)]
        found |= {(*outer, first + i): part for i, part in enumerate(parts)}
    return found


def _part(value: Values, place: int) -> Values:
    origin = value.origin
    return Values(value.data[place], origin if origin is None or origin.ndim == 0 else origin[place])


def _lanes(engine: Engine) -> Array:
    """The number of the lane of each row digit and column digit."""
    rows, columns = (np.arange(digit.extent) * (digit.weight or 0) for digit in (engine.row, engine.column))
    return rows.reshape(-1, 1) + columns


def toward_zero(exact: Array) -> Array:
    """The f32 next to a value, between it and zero."""
    near = exact.astype(np.float32)
    return np.where(np.abs(near.astype(np.float64)) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


def _warp_origin(values: Sequence[Values], shape: tuple[int, ...]) -> Array | None:
    """For each lane an origin that some lane of its warp has, None if there are none."""
    result: Array | None = None
    for value in values:
        result = joined(result, value.origin)
    if result is None:
        return None
    most = np.broadcast_to(result, shape).reshape(*shape[:-1], -1, WARP).max(-1, keepdims=True)
    return np.broadcast_to(most, (*most.shape[:-1], WARP)).reshape(shape)


def _mma(launch: Lockstep, op: MmaOp, frame: Frame) -> None:
    """Multiply the fragments of each warp."""
    if frame.shape[-1] % WARP:
        raise UnsupportedError(f"{op.name} takes whole warps, and @{launch.kernel.sym_name.data} has others")
    if launch.check and frame.mask is not None:
        check_warps(launch, op, frame, kinds.DIVERGENT_MMA, "product of matrices")
    accesses = iter(launch.accesses[op])
    fragments = [
        {place: launch.read(next(accesses), frame) for place, _ in fragment.registers()} for fragment in op.fragments
    ]
    sums = multiply(op.engine, fragments, frame.shape)
    for access, value in zip(accesses, sums.values(), strict=True):
        launch.write(access, value, frame)


def _ldmatrix(launch: Lockstep, op: LdmatrixOp, frame: Frame) -> None:
    """Read the rows that the lanes of each warp name, and give each lane its pairs."""
    if frame.shape[-1] % WARP:
        raise UnsupportedError(f"{op.name} takes whole warps, and @{launch.kernel.sym_name.data} has others")
    if launch.check and frame.mask is not None:
        check_warps(launch, op, frame, kinds.DIVERGENT_MMA, "read of matrices")
    source, *written = launch.accesses[op]
    rows = launch.read(source, frame)
    taken = [_pairs(rows.data, place, bool(op.is_transposed), frame.shape) for place in range(op.matrices)]
    origins: list[Array | None] = [None] * op.matrices
    if rows.origin is not None:
        origins = [_pairs(rows.origin, place, bool(op.is_transposed), frame.shape) for place in range(op.matrices)]
    for access, value, origin in zip(written, taken, origins, strict=True):
        launch.write(access, Values(value, origin), frame)


def _pairs(rows: Array, place: int, is_transposed: bool, shape: tuple[int, ...]) -> Array:
    """The pair that each lane gets of a matrix, from the row that each lane has read, [8, .., threads]."""
    rows = np.broadcast_to(rows if rows.ndim > len(shape) else rows[None], (SIDE, *shape))
    warps = rows.reshape(SIDE, *shape[:-1], shape[-1] // WARP, WARP)
    group, thread = np.arange(WARP) // 4, np.arange(WARP) % 4
    pair = np.arange(PAIR)[:, None]
    row, element = (2 * thread + pair, group) if is_transposed else (group, 2 * thread + pair)
    row, element = np.broadcast_arrays(place * SIDE + row, element)
    found = np.moveaxis(warps, 0, -1)[..., row, element]
    return np.moveaxis(found, -2, 0).reshape(PAIR, *shape)


HANDLERS: Handlers = {MmaOp: _mma, LdmatrixOp: _ldmatrix}
"""How they run."""
