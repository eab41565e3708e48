"""Lowers copies of slabs in boxes: the first thread of a CTA issues them, and their bytes complete a phase."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.boxes import Boxes, boxes_of
from deplodock.analysis.access.slabs import Slab, slab_of
from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.operations import label
from deplodock.dialects import kernel, tile
from deplodock.dialects.kernel.tma import TensorMapType
from deplodock.passes.failures import failure
from deplodock.passes.kernel.builder import ThreadBuilder

TensorMaps = dict[tuple[SSAValue, TensorMapType], SSAValue]
"""The tensor maps of a launch, by the buffer that they describe and their type."""


def tensor_maps(launch: tile.LaunchOp) -> TensorMaps:
    """Insert the tensor maps that a launch needs before it, each once."""
    maps: TensorMaps = {}
    for op in copies_in_boxes(launch):
        key = op.source, _boxes(op).map
        if key not in maps:
            made = kernel.TensorMapOp(*key)
            made.result.name_hint = f"{op.source.name_hint}_map" if op.source.name_hint else None
            Rewriter.insert_op(made, InsertPoint.before(launch))
            maps[key] = made.result
    return maps


def copies_in_boxes(launch: tile.LaunchOp) -> Iterator[tile.StageOp | tile.CopyOp]:
    """The operations of a launch that copy slabs in boxes."""
    for op in launch.body.walk():
        if isinstance(op, tile.StageOp | tile.CopyOp) and op.is_tma:
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
    boxes, outer = _boxes(op), builder.block
    coordinates = [Linear()] * len(slab.shape)
    for dim, count in enumerate(boxes.counts):
        if count > 1:
            coordinates[dim] = Linear.of(builder.enter_loop(count, f"d{dim}"))
    source = (maps[op.source, boxes.map], *builder.map(slab.subscripts(coordinates)))
    written = (slab.destination, *builder.map([*slab.at, *coordinates]))
    builder.run(kernel.TmaLoadOp(source, written, full[0], builder.map([full[1]])))
    builder.block = outer


def first_thread(builder: ThreadBuilder) -> Linear:
    """The condition that leaves the first thread."""
    return Linear.of(builder.thread) - 1


def _boxes(op: tile.StageOp | tile.CopyOp) -> Boxes:
    found = boxes_of(slab_of(op))
    if isinstance(found, str):
        raise failure(op, f"{label(op.source)} cannot be copied in boxes: {found}")
    return found
