"""Lowers `tile.contract`: products of fragments in registers, warp by warp, or of tiles of slabs, by warpgroups.

    %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
    ->
    loop.for %step = 0 to 2 unroll {
      loop.for %m_i = 0 to 4 unroll {
        loop.for %n_j = 0 to 4 unroll {
          kernel.mma m16n8k16 %a[%m_i, d0, %step * 4 + d1] * %b[%n_j, %step * 4 + d0] into %acc[%m_i, %n_j, d0, d1]

    %c = tile.contract wgmma %a * %b over (%k) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
    ->
    kernel.wgmma_fence
    loop.for %step = 0 to 4 unroll {
      kernel.wgmma m64n128k16 %xs[%m_w * 64 + d0, %step * 16 + d1] * %ws[d0, %step * 16 + d1] into %acc[0, 0, 0]
    }
    kernel.wgmma_commit
    kernel.wgmma_wait 0

Contracts of slabs that one iteration adds to its sums are one group. A left factor that threads hold, as the weights of
attention, is read where it is: `%weights[%step * 2, 0, 0] * %vs[%step * 16 + d1, d0]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.analysis.machine.atoms import Atom, NoAtomError, atom_of, slab_read
from deplodock.analysis.operations import label
from deplodock.analysis.shape.roles import in_place_with
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.kernel.wgmma import Factor
from deplodock.dialects.precision import MEDIUM, precision_of
from deplodock.dialects.scalar_regions import identity
from deplodock.dialects.tile import Memory
from deplodock.passes.kernel.emit import Array, Emitter
from deplodock.passes.remarks import failure


def lower_contract(emitter: Emitter, op: tile.ContractOp, accumulator: Array | None) -> Array:
    """Emit the products of a contract into an accumulator, or into a new one that starts at 0; returns it.

    Raises PassFailedException where its engine cannot run it.
    """
    if op.lhs[0].type == f32 and precision_of(op) != MEDIUM:
        raise failure(op, f"{op.engine.data} reads f32 as TF32, and the factors count whole; run split-factors first")
    try:
        atom = atom_of(emitter.launch, op, emitter.dependence)
    except NoAtomError as error:
        raise failure(op, str(error)) from error
    sums = accumulator or emitter.register(op.result.type, emitter.axes_of([op.result]), op.result.name_hint)
    if atom.engine.reads_slabs:
        _multiply_tiles(emitter, op, atom, sums, anew=accumulator is None)
        return sums
    if accumulator is None:
        _clear(emitter, op, sums)
    for factor in (*op.lhs, *op.rhs):
        if factor not in emitter.arrays:
            raise failure(op, f"the factor {label(factor)} does not vary along the registers of a fragment")
    for pairs in _together(op):
        _multiply_fragments(emitter, atom, pairs, sums)
    return sums


def _clear(emitter: Emitter, op: tile.ContractOp, sums: Array) -> None:
    """Let sums be those to which nothing has been added."""
    zero = identity("arith.addf" if isinstance(op.result.type, AnyFloat) else "arith.addi", op.result.type)
    assert zero is not None, "sums of a contract are floats or integers"
    with emitter.nest(sums.axes):
        emitter.store(emitter.literal(zero), sums)


def _together(op: tile.ContractOp) -> Sequence[Sequence[tuple[SSAValue, SSAValue]]]:
    """The pairs of factors that go through k together.

    The last pair has the largest products, which the sums take in behind all others: they lose least so. Where the left
    factor is computed, as the weights of attention are, each pair goes alone. On an H200 28 heads of 512 x 128 take
    69.8 us so, in 219 registers, and 83.7 in 195 where the first two share steps.
    """
    if not isinstance(op.lhs[-1].owner, loop.LoadOp):
        return [[pair] for pair in op.pairs]
    return [pairs for pairs in (op.pairs[:-1], op.pairs[-1:]) if pairs]


def _multiply_fragments(emitter: Emitter, atom: Atom, pairs: Sequence[tuple[SSAValue, SSAValue]], sums: Array) -> None:
    """Emit the products of pairs of factors that threads hold, step by step along k."""
    engine, own = atom.engine, atom.tile
    row, column, depth = (stand_in(extent) for extent in (*engine.held, engine.depth))
    block, known = emitter.block, dict(emitter.coordinates)
    k = Linear.of(depth)
    if atom.steps > 1:
        k = Linear.of(emitter.enter_loop(atom.steps, "step"), engine.depth) + k
    places = dict(zip(own, map(Linear.of, (row, column)), strict=True)) | _digits(emitter, atom.depth, k)
    for left, right in pairs:
        with emitter.nest([axis for axis in sums.axes if axis not in own]):
            factors = (emitter.arrays[left], (row, depth)), (emitter.arrays[right], (depth,)), (sums, (row, column))
            fragments = [(array.buffer, *_held(emitter, array, places, over)) for array, over in factors]
            emitter.run(kernel.MmaOp(engine.instruction, *fragments))
    emitter.block, emitter.coordinates = block, known


def _digits(emitter: Emitter, axes: Sequence[SSAValue], number: Linear) -> dict[SSAValue, Linear]:
    """The coordinates of register axes from their number, the last one fastest."""
    found, stride = dict[SSAValue, Linear](), 1
    for axis in reversed(axes):
        found[axis] = number // stride % emitter.extent(axis)
        stride *= emitter.extent(axis)
    return found


def _multiply_tiles(emitter: Emitter, op: tile.ContractOp, atom: Atom, sums: Array, *, anew: bool) -> None:
    """Emit the products of tiles of slabs, or of a left factor that threads hold, into sums, which may start `anew`."""
    rights, step = [*filter(None, map(slab_read, op.rhs))], atom.engine.k
    lefts = [] if atom.depth else [*filter(None, map(slab_read, op.lhs))]
    _check_tiles(emitter, op, atom, sums, [*lefts, *rights])
    outer = sums.axes[: len(sums.axes) - len(atom.tile)]
    block, known = emitter.block, dict(emitter.coordinates)
    together = in_place_with(op) or [op]
    if op is together[0]:
        emitter.run(kernel.WgmmaFenceOp())
    for left, right in zip(op.lhs, rights, strict=True):
        if anew:
            with emitter.nest(outer):
                emitter.run(_product(emitter, atom, (left, right), sums, Linear(), anew=True))
        if rest := atom.steps - anew:
            first = Linear.of(emitter.enter_loop(rest, "step"), step) if rest > 1 else Linear()
            with emitter.nest(outer):
                emitter.run(_product(emitter, atom, (left, right), sums, first + step * anew, anew=False))
        emitter.block, emitter.coordinates, anew = block, dict(known), False
    if op is together[-1]:
        emitter.run(kernel.WgmmaCommitOp())
        emitter.run(kernel.WgmmaWaitOp(0))


def _check_tiles(emitter: Emitter, op: tile.ContractOp, atom: Atom, sums: Array, reads: Sequence[loop.LoadOp]) -> None:
    """Raises PassFailedException where sums or factors do not lie as the instruction takes them."""
    if list(sums.axes[-len(atom.tile) :]) != atom.tile:
        raise failure(
            op, "the register axes of its blocks of columns, halves and pairs must be the last, in this order"
        )
    for read in reads:
        if tile.memory_of(read.source) is not Memory.SHARED:
            raise failure(op, f"{read.name} reads no slab in shared memory")
    own = _held_axes(atom)
    for held in map(emitter.arrays.get, op.lhs if own else ()):
        if held is None or list(held.axes[-len(own) :]) != own:
            raise failure(
                op, "the register axes of the left factor's blocks along k, halves and pairs must be the last"
            )


def _held_axes(atom: Atom) -> list[SSAValue]:
    """The register axes of what a thread holds of a left factor for one product, in the order of the instruction."""
    if not atom.depth:
        return []
    *pairs, blocks = atom.depth
    return [blocks, atom.rows["h"], *pairs]


def _product(
    emitter: Emitter, atom: Atom, factors: tuple[SSAValue, loop.LoadOp], sums: Array, first: Linear, *, anew: bool
) -> kernel.WgmmaOp:
    """The product of the elements of k from `first` on, of a left factor that may be held and a right one."""
    engine, columns, (left, read) = atom.engine, extent_or_one(atom.moved), factors
    assert atom.along is not None
    row, column, depth = stand_in(engine.m), stand_in(columns), stand_in(engine.k)
    k = {atom.along: first + Linear.of(depth)}
    if own := _held_axes(atom):
        array = emitter.arrays[left]
        places = {axis: Linear() for axis in own} | {own[0]: first // (engine.k // 2)}
        factor = Factor(array.buffer, *_held(emitter, array, places, (row, depth)))
    else:
        rows = {atom.rows[digit.letter]: Linear.of(row) // digit.step % digit.extent for digit in engine.rows}
        whole = slab_read(left)
        assert whole is not None, "an atom that holds no left factor reads it"
        factor = _tile(emitter, whole, {**rows, **k}, (row, depth))
    other = _tile(emitter, read, {atom.moved: Linear.of(column), **k}, (column, depth))
    at = [Linear() if axis in atom.tile else axis for axis in sums.axes]
    return kernel.WgmmaOp(columns, factor, other, (sums.buffer, *emitter.map(at)), anew=anew)


def _held(
    emitter: Emitter, array: Array, places: Mapping[SSAValue, Linear], coordinates: Sequence[SSAValue]
) -> tuple[AffineMap, list[SSAValue]]:
    """Where what a thread holds of a matrix lies in registers, over the coordinates of a fragment."""
    return emitter.map([places.get(axis, axis) for axis in array.axes], coordinates)


def _tile(
    emitter: Emitter, load: loop.LoadOp, places: Mapping[SSAValue, Linear], coordinates: tuple[SSAValue, SSAValue]
) -> Factor:
    """The tile that a load of the launch reads, over its coordinates."""
    forms: list[Linear] = []
    for form in subscripts_of(load):
        for axis, place in places.items():
            form = form.substitute(axis, place)
        forms.append(form.joined())
    return Factor(emitter.value(load.source), *emitter.map(forms, coordinates))
