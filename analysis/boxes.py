"""Where copies of boxes land in shared memory."""

from __future__ import annotations

from deplodock.analysis.alignment import address, element_bytes
from deplodock.analysis.linear import fold_map
from deplodock.dialects.kernel_tma import TmaLoadOp, box_alignment
from deplodock.dialects.loop import memref_of


def misaligned(op: TmaLoadOp) -> str | None:
    """Why a box may start at an address that the hardware does not take, or None."""
    type = memref_of(op.destination)
    start = address(type, fold_map(op.destination_map.data, op.destination_indices)) * element_bytes(type.element_type)
    if start.divisor() % (unit := box_alignment(type)) == 0:
        return None
    return (
        f"{op.name} copies a box to %{op.destination.name_hint or '?'} that is not known to start at a multiple of "
        f"{unit} bytes; make the slots of the buffer as large"
    )
