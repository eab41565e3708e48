"""The least bytes that a kernel must move, which bound its time from below."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import known_points, subscripts_of
from deplodock.dialects import loop


def moved_bytes(module: ModuleOp) -> int:
    """The bytes that a kernel at loop level reads and writes, at least, alone in its module.

    Of a buffer count as many elements as its largest access has points, and no more than it has: so of a table of which
    rows are gathered, or of a tensor of which a part is read, nothing else counts.
    """
    counts: dict[SSAValue, int] = {}
    for op in module.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            buffer = op.source if isinstance(op, loop.LoadOp) else op.destination
            roots = {root for form in subscripts_of(op) for root in form.roots()}
            elements = prod(loop.memref_of(buffer).get_shape())
            counts[buffer] = max(counts.get(buffer, 0), min(elements, known_points(roots)))
    return sum(count * element_bytes(loop.memref_of(buffer).element_type) for buffer, count in counts.items())
