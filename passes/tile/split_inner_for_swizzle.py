"""split-inner-for-swizzle: swizzle the slabs that come in boxes, where their readers collide in banks.

    %xs = tile.stage %x[%m * 64 + d0, %ko * 32 + d1]          %xs = tile.stage %x[%m * 64 + d0, %ko * 32 + d1]
      buffers 3 tma : .. to memref<64x32xf32, ..>       ->      buffers 3 tma : .. to
                                                                memref<64x32xf32, #tile.swizzle<128>, ..>

Only the layout changes, by which the 16-byte units of a row change places. Rows wider than the span are split, each
part a box of its own, and readers take `%xs[%k floordiv 32, %t, %k mod 32]` for `%xs[%t, %k]`:

    %ys = tile.stage %x[%m * 64 + d1, %ko * 64 + d0 * 32 + d2] .. to memref<2x64x32xf32, #tile.swizzle<128>, ..>
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.access.boxes import boxes_of
from deplodock.analysis.access.slabs import slab_of, stand_in_buffer
from deplodock.analysis.machine.banks import SlabBanks
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import readers_of
from deplodock.dialects import loop, tile
from deplodock.dialects.buffers import SPANS
from deplodock.dialects.tile import SwizzleAttr
from deplodock.passes.options import OneOf, option
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, apply_to_any


@dataclass(frozen=True)
class SplitInnerForSwizzlePass(LaunchRule):
    """Swizzle the slabs that come in boxes, their rows split to the span of the swizzle."""

    name = "split-inner-for-swizzle"
    after = ("tma-copy",)
    span: int | None = option(
        None,
        OneOf(SPANS),
        "bytes of a row, for every slab, whether or not accesses collide; by default the largest that divides the rows",
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if any(isinstance(op, tile.RingOp) for op in launch.body.walk()):
            raise Skip("the slabs are slots of a ring already; run split-inner-for-swizzle before pipeline-k-outer")
        boxed = [op for op in launch.body.walk() if isinstance(op, tile.StageOp) and op.is_tma]
        if not boxed:
            raise Skip("no slab comes in boxes; run tma-copy first")
        plain = [op for op in boxed if not isinstance(loop.memref_of(op.slab).layout, SwizzleAttr)]
        if not plain:
            raise NothingToDo("the slabs are swizzled already")
        apply_to_any(plain, lambda op: _swizzle(rewriter, launch, op, self.span))


def _swizzle(rewriter: PatternRewriter, launch: tile.LaunchOp, op: tile.StageOp, span: int | None) -> str | None:
    """Swizzle a slab where it pays, or by `span`. Returns the reason where it stays as it is."""
    type, name = loop.memref_of(op.slab), label(op.source)
    row = type.get_shape()[-1] * element_bytes(type.element_type)
    fits = next((wide for wide in SPANS if row % wide == 0 and span in (None, wide)), None)
    if fits is None:
        return f"{name}: rows of {row} bytes are no multiple of {span or '128, 64 or 32'}"
    if not all(isinstance(use.operation, loop.LoadOp) for use in op.slab.uses):
        return f"{name}: its slab is used by something else than loop.load"
    loads = [use.operation for use in op.slab.uses if isinstance(use.operation, loop.LoadOp)]
    is_of_engine = any(readers_of(load) != [load] for load in loads)
    if span is None and not is_of_engine and not (now := SlabBanks(launch, op).total(type)).has_conflicts:
        return f"{name}: no conflicts: {now}"
    split, map = _split(type, op.map.data, fits)
    slab = replace(slab_of(op), map=map, destination=stand_in_buffer(split), shape=split.get_shape())
    if isinstance(boxes := boxes_of(slab), str):
        return f"{name}: {boxes}"
    if row == fits:
        rewriter.replace_value_with_new_type(op.slab, split)
    else:
        _replace(rewriter, op, split, map)
    return None


def _split(type: MemRefType[Attribute], map: AffineMap, span: int) -> tuple[MemRefType[Attribute], AffineMap]:
    """The type of a slab with rows of `span` bytes, and its map; a first dimension counts the parts of wider rows."""
    *outer, row = type.get_shape()
    width, layout = span // element_bytes(type.element_type), SwizzleAttr(span)
    if row == width:
        return MemRefType(type.element_type, type.get_shape(), layout, type.memory_space), map
    dims = [AffineExpr.dimension(dim + 1) for dim in range(len(outer) + 1)]
    dims[-1] = AffineExpr.dimension(0) * width + dims[-1]
    symbols = [AffineExpr.symbol(i) for i in range(map.num_symbols)]
    shape = (row // width, *outer, width)
    split = map.replace_dims_and_symbols(dims, symbols, len(shape), map.num_symbols)
    return MemRefType(type.element_type, shape, layout, type.memory_space), split


def _replace(rewriter: PatternRewriter, op: tile.StageOp, type: MemRefType[Attribute], map: AffineMap) -> None:
    """Fill a slab of another type and map, and let the readers read it."""
    stage = tile.StageOp(op.source, map, op.indices, type)
    stage.properties = {**op.properties, **stage.properties}
    stage.slab.name_hint = op.slab.name_hint
    rewriter.insert(stage, InsertPoint.before(op))
    width = type.get_shape()[-1]
    for reader in [use.operation for use in op.slab.uses]:
        assert isinstance(reader, loop.LoadOp)
        *outer, last = reader.map.data.results
        subscripts = (last // width, *outer, last % width)
        dims, symbols = reader.map.data.num_dims, reader.map.data.num_symbols
        read = loop.LoadOp(stage.slab, AffineMap(dims, symbols, subscripts), reader.indices)
        rewriter.replace(reader, read)
    rewriter.erase(op)
