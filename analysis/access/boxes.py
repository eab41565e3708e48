"""Copies of slabs in boxes: which slabs the tensor memory accelerator can copy, as which boxes, and where they land.

A box keeps the order of dimensions and takes neighbours. So each coordinate of the slab walks one subscript of the
source; those with step 1 make the box, and those before them with other steps count boxes, `d0` of `d0 * 32 + d2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.access.alignment import address, element_bytes
from deplodock.analysis.access.slabs import Slab, stand_in
from deplodock.analysis.affine.linear import Linear, forms_of
from deplodock.analysis.operations import label
from deplodock.dialects.buffers import box_alignment
from deplodock.dialects.interfaces import Access
from deplodock.dialects.kernel.tma import TensorMapType, verify_tensor_map
from deplodock.dialects.loop import memref_of
from deplodock.dialects.tile import SwizzleAttr


@dataclass(frozen=True)
class Boxes:
    """How a slab is copied: the map of one box, and the first dimensions of the slab, whose coordinates count boxes."""

    map: TensorMapType
    counts: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all boxes of a slab."""
        return self.map.bytes * math.prod(self.counts)


def boxes_of(slab: Slab) -> Boxes | str:
    """The boxes that copy a slab, or the reason why none do."""
    roots = [stand_in(extent) for extent in slab.shape]
    subscripts = slab.subscripts([Linear.of(root) for root in roots])
    walked = [_walk(subscripts, root) for root in roots]
    wide = [dim for dim, extent in enumerate(slab.shape) if extent > 1]
    if any(walked[dim] is None for dim in wide):
        return "a coordinate of its slab does not walk one subscript alone"
    steps = {dim: found for dim in wide if (found := walked[dim]) is not None}
    inside = [dim for dim, (_, step) in steps.items() if step == 1]
    places = [steps[dim][0] for dim in inside]
    if places != sorted(places):
        return "its slab is transposed, and a box keeps the order of dimensions"
    if len(set(places)) < len(places) or any(dim > min(inside, default=0) for dim in wide if dim not in inside):
        return "its slab takes no neighbours"
    extents = [1] * len(subscripts)
    for dim, place in zip(inside, places, strict=True):
        extents[place] = slab.shape[dim]
    return _checked(slab, extents, slab.shape[: min(inside, default=0)])


def _walk(subscripts: list[Linear], root: SSAValue) -> tuple[int, int] | None:
    """The one subscript that a coordinate walks, and its step; None where there are others, or it is no plain term."""
    found = [(place, form) for place, form in enumerate(subscripts) if form.depends_on(root)]
    if len(found) != 1:
        return None
    ((place, form),) = found
    is_term = list(form.roots()).count(root) == 1 and form.coefficient(root) > 0
    return (place, form.coefficient(root)) if is_term else None


def _checked(slab: Slab, extents: list[int], counts: tuple[int, ...]) -> Boxes | str:
    """The boxes of these extents, or the reason why the hardware does not take them."""
    buffer = memref_of(slab.destination)
    if not isinstance(buffer.layout, NoneAttr | SwizzleAttr):
        return "its rows are padded, and those of a box lie side by side"
    swizzle = buffer.layout if isinstance(buffer.layout, SwizzleAttr) else None
    map = TensorMapType(slab.type, extents, swizzle, is_tf32=slab.is_tf32)
    try:
        verify_tensor_map(map)
    except VerifyException as error:
        return str(error)
    if map.bytes % (unit := box_alignment(buffer)):
        return f"its boxes of {map.bytes} bytes do not end at multiples of {unit}, where the next starts; widen them"
    return Boxes(map, counts)


def misaligned(access: Access) -> str | None:
    """Why a box in shared memory may start at an address that the hardware does not take, or None."""
    type = memref_of(access.buffer)
    start = address(type, forms_of(access.map, access.indices)) * element_bytes(type.element_type)
    if start.divisor() % (unit := box_alignment(type)) == 0:
        return None
    return (
        f"{access.op.name} copies a box to {label(access.buffer)} that is not known to start at a multiple of "
        f"{unit} bytes; make the slots of the buffer as large"
    )
