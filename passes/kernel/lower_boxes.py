"""Lowers copies of slabs in boxes: the first thread of a CTA issues them, and their bytes complete a phase. Stores of
slabs go the other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.boxes import Boxes, boxes_of
from deplodock.analysis.access.slabs import Slab, slab_of
from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.operations import label
from deplodock.dialects import kernel, tile
from deplodock.dialects.kernel.tma import TensorMapType
from deplodock.passes.kernel.builder import ThreadBuilder
from deplodock.passes.remarks import failure

CopiesBoxes: TypeAlias = tile.StageOp | tile.CopyOp | tile.StoreOp
"""What copies a slab in boxes, or stores it."""

TensorMaps = dict[tuple[SSAValue, TensorMapType], SSAValue]
"""The tensor maps of a launch, by the buffer that they describe and their type."""


def tensor_maps(launch: tile.LaunchOp) -> TensorMaps:
    """Insert the tensor maps that a launch needs before it, each once."""
    maps: TensorMaps = {}
    for op in copies_in_boxes(launch):
        key = buffer_of(op), _boxes(op).map
        if key not in maps:
            made = kernel.TensorMapOp(*key)
            made.result.name_hint = f"{key[0].name_hint}_map" if key[0].name_hint else None
            Rewriter.insert_op(made, InsertPoint.before(launch))
            maps[key] = made.result
    return maps


def copies_in_boxes(launch: tile.LaunchOp) -> Iterator[CopiesBoxes]:
    """The operations of a launch that copy slabs in boxes, or store them."""
    for op in launch.body.walk():
        if isinstance(op, tile.StoreOp) or (isinstance(op, tile.StageOp | tile.CopyOp) and op.is_tma):
            yield op


def expected_bytes(op: tile.StageOp | tile.CopyOp) -> int:
    """The bytes that the boxes of a slab complete."""
    return _boxes(op).bytes


def copy_boxes(
    builder: ThreadBuilder,
    maps: TensorMaps,
    op: tile.StageOp | tile.CopyOp,
    slab: Slab,
    full: tuple[SSAValue, Linear],
) -> None:
    """Issue the copies of a slab's boxes, as the thread that runs this; they complete a phase of a barrier."""
    outer = builder.block
    coordinates = _enter_boxes(builder, op, slab)
    source = (maps[op.source, _boxes(op).map], *builder.map(slab.subscripts(coordinates)))
    written = (slab.destination, *builder.map([*slab.at, *coordinates]))
    builder.run(kernel.TmaLoadOp(source, written, full[0], builder.map([full[1]])))
    builder.block = outer


def store_boxes(builder: ThreadBuilder, maps: TensorMaps, op: tile.StoreOp) -> None:
    """Issue the stores of a slab's boxes, as the thread that runs this."""
    slab, outer = slab_of(op), builder.block
    coordinates = _enter_boxes(builder, op, slab)
    written = (maps[op.destination, _boxes(op).map], *builder.map(slab.subscripts(coordinates)))
    builder.run(kernel.TmaStoreOp((op.slab, *builder.map(coordinates)), written))
    builder.block = outer


def _enter_boxes(builder: ThreadBuilder, op: CopiesBoxes, slab: Slab) -> list[Linear]:
    """Append loops over the boxes of a slab; returns the coordinates where a box starts."""
    coordinates = [Linear()] * len(slab.shape)
    for dim, count in enumerate(_boxes(op).counts):
        if count > 1:
            coordinates[dim] = Linear.of(builder.enter_loop(count, f"d{dim}"))
    return coordinates


def first_thread(builder: ThreadBuilder) -> Linear:
    """The condition that leaves the first thread."""
    return Linear.of(builder.thread) - 1


def buffer_of(op: CopiesBoxes) -> SSAValue:
    """The buffer in global memory of a slab."""
    return op.destination if isinstance(op, tile.StoreOp) else op.source


def _boxes(op: CopiesBoxes) -> Boxes:
    found = boxes_of(slab_of(op))
    if isinstance(found, str):
        raise failure(op, f"{label(buffer_of(op))} cannot be copied in boxes: {found}")
    return found
