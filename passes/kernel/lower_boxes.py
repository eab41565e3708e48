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
from deplodock.passes.kernel.emit import Emitter

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


def copy_boxes(emitter: Emitter, op: tile.StageOp | tile.CopyOp, slab: Slab, full: tuple[SSAValue, Linear]) -> None:
    """Issue the copies of a slab's boxes, as the thread that runs this; they complete a phase of a barrier."""
    boxes, outer = _boxes(op), emitter.block
    coordinates = [Linear()] * len(slab.shape)
    for dim, count in enumerate(boxes.counts):
        if count > 1:
            coordinates[dim] = Linear.of(emitter.enter_loop(count, f"d{dim}"))
    source = (emitter.value(emitter.maps[op.source, boxes.map]), *emitter.map(slab.subscripts(coordinates)))
    written = (slab.destination, *emitter.map([*slab.at, *coordinates]))
    emitter.run(kernel.TmaLoadOp(source, written, full[0], emitter.map([full[1]])))
    emitter.block = outer


def first_thread(emitter: Emitter) -> Linear:
    """The condition that leaves the first thread."""
    return Linear.of(emitter.thread) - 1


def _boxes(op: tile.StageOp | tile.CopyOp) -> Boxes:
    found = boxes_of(slab_of(op))
    if isinstance(found, str):
        raise failure(op, f"{label(op.source)} cannot be copied in boxes: {found}")
    return found
