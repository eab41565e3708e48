"""tma-store: let the tensor memory accelerator store the tiles of a contraction's results, from shared memory.

    %y = arith.truncf %acc : f32 to bf16         %y = arith.truncf %acc : f32 to bf16
    loop.store %y, %out[%a0, %a1]           ->   %ys = tile.keep %y[%a1_c floordiv 64, %a0_c, %a1_c mod 64]
      : memref<512x18944xbf16>                     : memref<3x128x64xbf16, #tile.swizzle<128>, ..>
                                                 tile.store %ys to %out[%a0_b * 128 + d1, %a1_b * 192 + d0 * 64 + d2]
                                                   : .. to memref<512x18944xbf16>

Threads write their registers to a slab, and one of them starts the stores of its boxes. So whole lines go to memory
whatever the layout of the registers, and where a CTA goes on to another tile it does so while they are on their way.
The boxes leave out what lies outside of the buffer, so that must be all that the launch leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.access.boxes import boxes_of
from deplodock.analysis.access.slabs import Slab, stand_in_buffer
from deplodock.analysis.affine.linear import Linear, condition_of, extent_or_one, never_fails, subscripts_of, to_map
from deplodock.analysis.machine.resources import buffer_bytes, shared_budget
from deplodock.analysis.machine.targets import FIRST_BOXES, MBARRIER_BYTES, capability, target_at
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.buffers import SPANS
from deplodock.dialects.tile import Binding, Memory, SwizzleAttr
from deplodock.passes.options import OneOf, option
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, apply_to_any, folded


@dataclass(frozen=True)
class TmaStorePass(LaunchRule):
    """Let the tensor memory accelerator store the tiles of a contraction's results."""

    name = "tma-store"
    after = ("tensor-tile", "register-tile", "permute-register-tile", "pipeline-k-outer", "stream-matmul-k")
    span: int | None = option(
        None, OneOf(SPANS), "bytes of a row of a box; by default the largest that divides the rows"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if capability(target := target_at(launch)) < FIRST_BOXES:
            raise Skip(f"{target.arch.data} has no copies of boxes; they need sm_{FIRST_BOXES}")
        if contraction_of(launch) is None:
            raise Skip("no reduction of the launch is a contraction")
        if launch.bound_to(Binding.CLUSTER) or any(axis in folded(launch) for axis in launch.ctas):
            raise Skip("several CTAs add the sums of a tile")
        stores = [op for op in launch.body.block.ops if isinstance(op, loop.StoreOp)]
        if not stores and any(isinstance(op, tile.StoreOp) for op in launch.body.walk()):
            raise NothingToDo("the results are stored in boxes already")
        none = "the launch stores nothing behind its reduction"
        apply_to_any(stores, lambda op: _store_tile(rewriter, launch, op, self.span), none)


@dataclass(frozen=True)
class _StoredTile:
    """The tile of a CTA that a store writes: where it starts, and how the coordinates of its points count it."""

    store: loop.StoreOp
    first: Sequence[Linear]
    places: Sequence[Linear]
    shape: tuple[int, ...]

    @property
    def destination(self) -> MemRefType[Attribute]:
        """The type of the buffer."""
        return loop.memref_of(self.store.destination)


def _store_tile(rewriter: PatternRewriter, launch: tile.LaunchOp, op: loop.StoreOp, span: int | None) -> str | None:
    """Let a store go through a slab of its own. Returns the reason where it stays as it is."""
    name = label(op.destination)
    if isinstance(found := _tile_of(launch, op), str):
        return f"{name}: {found}"
    row = found.shape[-1] * element_bytes(found.destination.element_type)
    fits = next((wide for wide in SPANS if row % wide == 0 and span in (None, wide)), None)
    if fits is None:
        return f"{name}: rows of {row} bytes are no multiple of {span or '128, 64 or 32'}"
    slab, places, map, operands = _slab(found, fits)
    box = Slab(op.destination, map, operands, stand_in_buffer(slab), slab.get_shape())
    if isinstance(boxes := boxes_of(box), str):
        return f"{name}: {boxes}"
    if (bytes := _shared(launch) + buffer_bytes(box.destination)) > (budget := shared_budget(launch)):
        return f"{name}: with its slab a CTA takes {bytes} bytes of shared memory, and it has {budget}"
    kept = tile.KeepOp(op.value, *to_map(places), slab)
    kept.slab.name_hint = f"{op.destination.name_hint or 'out'}_smem"
    stored = tile.StoreOp(kept.slab, op.destination, map, operands)
    kept.location = stored.location = op.location
    rewriter.replace(op, [kept, stored], [])
    return None


def _tile_of(launch: tile.LaunchOp, op: loop.StoreOp) -> _StoredTile | str:
    """The tile that a CTA writes by a store, or the reason why it is no box of the buffer."""
    forms = subscripts_of(op)
    parts = [form.split(lambda root: root in launch.ctas) for form in forms]
    mentioned = {root for first, _ in parts for root in first.roots()}
    if any(extent_or_one(axis) > 1 for axis in launch.ctas if axis not in mentioned):
        return "several CTAs write to the same elements"
    extents = [_extent(launch, inside) for _, inside in parts]
    if any(extent is None for extent in extents):
        return "the tile of a CTA is no box of it"
    limits = [form - extent for form, extent in zip(forms, loop.memref_of(op.destination).get_shape(), strict=True)]
    for where in wheres(launch.body.block):
        if (condition := condition_of(where)) not in limits and not never_fails(condition):
            return "it is stored under a condition that is not the end of the buffer"
    shape = tuple(extent for extent in extents if extent is not None)
    return _StoredTile(op, [first for first, _ in parts], [inside for _, inside in parts], shape)


def _extent(launch: tile.LaunchOp, form: Linear) -> int | None:
    """How many values a subscript takes in a CTA, all from 0 on, one for each point along its axes; None for others."""
    extent = 1
    for atom, step in sorted(form.terms, key=lambda term: term[1]):
        if not isinstance(atom, SSAValue) or atom not in launch.axes or step != extent:
            return None
        if launch.binding(atom) not in (Binding.THREAD, Binding.REGISTER):
            return None
        extent *= extent_or_one(atom)
    return extent


def _slab(found: _StoredTile, span: int) -> tuple[MemRefType[Attribute], list[Linear], AffineMap, list[SSAValue]]:
    """The slab of a tile with rows of `span` bytes: its type, the element of a point, and where it goes.

    A first dimension counts the parts of wider rows. Dimensions of the buffer along which the tile has one element have
    none in the slab.
    """
    width = span // element_bytes(found.destination.element_type)
    wide = [dim for dim, extent in enumerate(found.shape[:-1]) if extent > 1]
    last = len(found.shape) - 1
    shape = [*(found.shape[dim] for dim in wide), width]
    places = [*(found.places[dim] for dim in wide), found.places[last] % width]
    is_split = (parts := found.shape[last] // width) > 1
    coordinates = {dim: AffineExpr.dimension(place) for place, dim in enumerate([*wide, last], int(is_split))}
    if is_split:
        shape, places = [parts, *shape], [found.places[last] // width, *places]
        coordinates[last] = AffineExpr.dimension(0) * width + coordinates[last]
    first, operands = to_map(found.first)
    symbols = [AffineExpr.symbol(i) for i in range(len(operands))]
    moved = first.replace_dims_and_symbols(symbols, [], len(shape), len(operands)).results
    results = [expr + coordinates[dim] if dim in coordinates else expr for dim, expr in enumerate(moved)]
    type = MemRefType(found.destination.element_type, shape, SwizzleAttr(span), tile.MemoryAttr(Memory.SHARED))
    return type, places, AffineMap(len(shape), len(operands), tuple(results)), list(operands)


def _shared(launch: tile.LaunchOp) -> int:
    """The bytes of the slabs of a launch, and of the barriers of its rings."""
    bytes = 0
    for op in launch.body.walk():
        match op:
            case tile.StageOp() if tile.memory_of(op.slab) is Memory.SHARED:
                bytes += buffer_bytes(op.slab) * op.depth
            case tile.KeepOp():
                bytes += buffer_bytes(op.slab)
            case tile.AllocOp():
                bytes += buffer_bytes(op.result)
            case tile.RingOp() if op.is_mbarrier:
                bytes += 2 * op.depth.value.data * MBARRIER_BYTES
            case _:
                pass
    return bytes
