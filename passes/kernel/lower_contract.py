"""Lowers `tile.contract`: products of fragments, which are the register buffers of its factors, warp by warp.

%c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
->
loop.for %step = 0 to 2 unroll {
  loop.for %m_i = 0 to 4 unroll {
    loop.for %n_j = 0 to 4 unroll {
      kernel.mma m16n8k16 %a[%m_i, d0, %step * 4 + d1] * %b[%n_j, %step * 4 + d0] into %acc[%m_i, %n_j, d0, d1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.atoms import Atom, NoAtomError, atom_of
from deplodock.analysis.machine.warpgroups import NAME as WGMMA
from deplodock.analysis.operations import label
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.precision import MEDIUM, precision_of
from deplodock.dialects.scalar_regions import identity
from deplodock.passes.failures import failure
from deplodock.passes.kernel.emit import Array, Emitter
from deplodock.passes.kernel.lower_warpgroup import lower_warpgroup

Place = tuple[SSAValue, AffineMap, list[SSAValue]]
"""A fragment: a buffer, and a map over its coordinates and operands."""


def lower_contract(emitter: Emitter, op: tile.ContractOp, accumulator: Array | None) -> Array:
    """Emit the products of a contract into an accumulator, or into a new one that starts at 0; returns it.

    Raises PassFailedException where its engine cannot run it.
    """
    if op.lhs[0].type == f32 and precision_of(op) != MEDIUM:
        raise failure(op, f"{op.engine.data} reads f32 as TF32, and the factors count whole; run split-factors first")
    if op.engine.data == WGMMA:
        sums = accumulator or emitter.register(op.result.type, emitter.axes_of([op.result]), op.result.name_hint)
        lower_warpgroup(emitter, op, sums, anew=accumulator is None)
        return sums
    try:
        atom = atom_of(emitter.launch, op, emitter.dependence)
    except NoAtomError as error:
        raise failure(op, str(error)) from error
    sums = accumulator or _zeros(emitter, op)
    _check(emitter, op, atom, sums)
    for pairs in _together(op):
        _multiply(emitter, atom, pairs, sums)
    return sums


def _together(op: tile.ContractOp) -> Sequence[Sequence[tuple[SSAValue, SSAValue]]]:
    """The pairs of factors that go through k together.

    The last pair has the largest products, which the sums take in behind all others: they lose least so. Where the left
    factor is computed, as the weights of attention are, each pair goes alone. On an H200 28 heads of 512 x 128 take
    69.8 us so, in 219 registers, and 83.7 in 195 where the first two share steps.
    """
    if not isinstance(op.lhs[-1].owner, loop.LoadOp):
        return [[pair] for pair in op.pairs]
    return [pairs for pairs in (op.pairs[:-1], op.pairs[-1:]) if pairs]


def _multiply(emitter: Emitter, atom: Atom, pairs: Sequence[tuple[SSAValue, SSAValue]], sums: Array) -> None:
    """Emit the products of pairs of factors, step by step along k."""
    outer = [axis for axis in sums.axes if axis not in (atom.rows, atom.pair)]
    row, pair, depth = (stand_in(extent) for extent in (atom.engine.rows, atom.engine.pair, atom.engine.depth))
    block, known = emitter.block, dict(emitter.coordinates)
    first = Linear()
    if atom.steps > 1:
        first = Linear.of(emitter.enter_loop(atom.steps, "step"), atom.engine.depth)
    inside = {
        atom.rows: Linear.of(row),
        atom.pair: Linear.of(pair),
        **_digits(emitter, atom.depth, first + Linear.of(depth)),
    }
    for left, right in pairs:
        with emitter.nest(outer):
            emitter.run(
                kernel.MmaOp(
                    atom.engine.instruction,
                    _fragment(emitter, emitter.arrays[left], inside, (row, depth)),
                    _fragment(emitter, emitter.arrays[right], inside, (depth,)),
                    _fragment(emitter, sums, inside, (row, pair)),
                )
            )
    emitter.block, emitter.coordinates = block, known


def _zeros(emitter: Emitter, op: tile.ContractOp) -> Array:
    """Sums that nothing has been added to."""
    is_float = isinstance(op.result.type, AnyFloat)
    zero = identity("arith.addf" if is_float else "arith.addi", op.result.type)
    assert zero is not None, "sums of a contract are floats or integers"
    array = emitter.register(op.result.type, emitter.axes_of([op.result]), op.result.name_hint)
    with emitter.nest(array.axes):
        emitter.store(emitter.literal(zero), array)
    return array


def _check(emitter: Emitter, op: tile.ContractOp, atom: Atom, sums: Array) -> None:
    """Raises PassFailedException where a factor has no fragment in registers."""
    for factor in (*op.lhs, *op.rhs):
        if factor not in emitter.arrays:
            raise failure(op, f"the factor {label(factor)} does not vary along the registers of a fragment")
    assert all(axis in sums.axes for axis in (atom.rows, atom.pair)), "a contract varies along its rows and columns"


def _digits(emitter: Emitter, axes: Sequence[SSAValue], number: Linear) -> Mapping[SSAValue, Linear]:
    """The coordinates of register axes from their number, the last one fastest."""
    found: dict[SSAValue, Linear] = {}
    stride = 1
    for axis in reversed(axes):
        found[axis] = number // stride % emitter.extent(axis)
        stride *= emitter.extent(axis)
    return found


def _fragment(
    emitter: Emitter, array: Array, inside: Mapping[SSAValue, Linear], coordinates: Sequence[SSAValue]
) -> Place:
    """What a lane holds in a register buffer, over the fragment's coordinates."""
    map, operands = emitter.map([inside.get(axis, axis) for axis in array.axes], coordinates)
    return array.buffer, map, operands
