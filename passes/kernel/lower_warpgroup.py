"""Lowers `tile.contract wgmma`: products of a warpgroup, whose factors are tiles of slabs.

%c = tile.contract wgmma %a * %b over (%k) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
->
kernel.wgmma_fence
loop.for %step = 0 to 4 unroll {
  kernel.wgmma m64n128k16 %xs[%m_w * 64 + d0, %step * 16 + d1] * %ws[d0, %step * 16 + d1] into %acc[0, 0, 0]
}
kernel.wgmma_commit
kernel.wgmma_wait 0

Contracts that one iteration adds to its sums are one group. A left factor that threads hold, as the weights of
attention, is read where it is: `%weights[%step * 2, 0, 0] * %vs[%step * 16 + d1, d0]`.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError
from deplodock.analysis.machine.warpgroups import WarpgroupTile, warpgroup_tile
from deplodock.analysis.shape.roles import in_place_with
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.kernel.wgmma import ROWS, Factor
from deplodock.dialects.tile import Memory
from deplodock.passes.failures import failure
from deplodock.passes.kernel.emit import Array, Emitter


def lower_warpgroup(emitter: Emitter, op: tile.ContractOp, sums: Array, *, anew: bool) -> None:
    """Emit the products of a contract into accumulators, or into sums that start `anew`.

    Raises PassFailedException where its engine cannot run it.
    """
    try:
        found = warpgroup_tile(emitter.launch, op, emitter.dependence)
    except NoAtomError as error:
        raise failure(op, str(error)) from error
    own = [axis for axis in (found.blocks, found.halves, found.pairs) if axis is not None]
    outer = [axis for axis in sums.axes if axis not in own]
    if list(sums.axes) != [*outer, *own]:
        raise failure(
            op, "the register axes of its blocks of columns, halves and pairs must be the last, in this order"
        )
    for load in filter(None, (found.left, *found.rights)):
        if tile.memory_of(load.source) is not Memory.SHARED:
            raise failure(op, f"{load.name} reads no slab in shared memory")
    block, known = emitter.block, dict(emitter.coordinates)
    together = in_place_with(op) or [op]
    if op is together[0]:
        emitter.run(kernel.WgmmaFenceOp())
    if found.held is not None:
        _check_held(emitter, op, found)

    for left, right in zip(op.lhs, found.rights, strict=True):
        factors = emitter.arrays.get(left), right
        if anew:
            with emitter.nest(outer):
                emitter.run(_product(emitter, found, factors, sums, Linear(), anew=True))
        if rest := found.steps - anew:
            step = Linear.of(emitter.enter_loop(rest, "step"), found.step) if rest > 1 else Linear()
            with emitter.nest(outer):
                emitter.run(_product(emitter, found, factors, sums, step + found.step * anew, anew=False))
        emitter.block, emitter.coordinates, anew = block, dict(known), False
    if op is together[-1]:
        emitter.run(kernel.WgmmaCommitOp())
        emitter.run(kernel.WgmmaWaitOp(0))


def _check_held(emitter: Emitter, op: tile.ContractOp, found: WarpgroupTile) -> None:
    """Raises PassFailedException where threads do not hold the left factors in the order of the instruction."""
    own = _own(found)
    for left in op.lhs:
        held = emitter.arrays.get(left)
        if held is None or list(held.axes[-len(own) :]) != own:
            raise failure(
                op, "the register axes of the left factor's blocks along k, halves and pairs must be the last"
            )


def _own(found: WarpgroupTile) -> list[SSAValue]:
    """The register axes of what a thread holds of a left factor for one product, in the order of the instruction."""
    assert found.held is not None
    blocks, pairs = found.held
    return [axis for axis in (blocks, found.halves, pairs) if axis is not None]


def _product(
    emitter: Emitter,
    found: WarpgroupTile,
    factors: tuple[Array | None, loop.LoadOp],
    sums: Array,
    first: Linear,
    *,
    anew: bool,
) -> kernel.WgmmaOp:
    """The product of the elements of k from `first` on, of a left factor that may be held and a right one."""
    held, read = factors
    depth, row = stand_in(found.step), stand_in(ROWS)
    column = stand_in(found.columns)
    k = first + Linear.of(depth)
    rows = {
        found.warps: Linear.of(row) // 16,
        found.halves: Linear.of(row) // 8 % 2,
        found.groups: Linear.of(row) % 8,
    }
    if found.left is not None:
        left = _factor(emitter, found.left, {**rows, found.depth: k}, (row, depth))
    else:
        left = _held(emitter, found, held, first)
    right = _factor(emitter, read, {found.column: Linear.of(column), found.depth: k}, (column, depth))
    own = (found.blocks, found.halves, found.pairs)
    at = [Linear() if axis in own else axis for axis in sums.axes]
    return kernel.WgmmaOp(found.columns, left, right, (sums.buffer, *emitter.map(at)), anew=anew)


def _held(emitter: Emitter, found: WarpgroupTile, held: Array | None, first: Linear) -> Factor:
    """The left factor that threads hold, from `first` along k on."""
    assert held is not None
    blocks, *others = _own(found)
    own = {blocks: first // (found.step // 2), **{axis: Linear() for axis in others}}
    map, operands = emitter.map([own.get(axis, axis) for axis in held.axes], (stand_in(ROWS), stand_in(found.step)))
    return Factor(held.buffer, map, operands)


def _factor(
    emitter: Emitter, load: loop.LoadOp, inside: Mapping[SSAValue, Linear], dims: tuple[SSAValue, SSAValue]
) -> Factor:
    """The tile that a load of the launch reads, over its coordinates."""
    forms: list[Linear] = []
    for form in subscripts_of(load):
        for axis, place in inside.items():
            form = form.substitute(axis, place)
        forms.append(form.joined())
    map, operands = emitter.map(forms, dims)
    return Factor(emitter.value(load.source), map, operands)
