"""What is wrong with IR that verifies, found once, where its text is read."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, ShapedType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import IsolatedFromAbove

from deplodock.analysis.affine.linear import value_range
from deplodock.analysis.affine.ranges import Range
from deplodock.analysis.affine.widths import IndexOverflow, checked_range
from deplodock.dialects import kernel
from deplodock.dialects.tensor.indexing import IndexMapOp


def overflow_of(op: Operation) -> str:
    """Which index of an operation leaves 64 bits, in words; empty if none does."""
    maps = [value.data for value in op.properties.values() if isinstance(value, AffineMapAttr)]
    for map in maps:
        dims = _ranges(op, map)
        for expr in map.results:
            try:
                checked_range(expr, dims)
            except IndexOverflow as error:
                return f"{error} leaves the 64 bits of an index"
    return ""


def _ranges(op: Operation, map: AffineMap) -> Sequence[Range | None]:
    """The ranges of the dimensions of a map of an operation, as far as they are known."""
    if isinstance(op, IndexMapOp) and isinstance(type := op.results[0].type, ShapedType):
        return [(0, max(extent - 1, 0)) for extent in type.get_shape()]
    indices = [operand for operand in op.operands if isinstance(operand.type, IndexType)]
    return [value_range(index) for index in indices] if len(indices) == map.num_dims else [None] * map.num_dims


def must_precede(value: SSAValue) -> bool:
    """Whether a value must be defined before it is used: in a function, where its region is a single block."""
    block = value.owner.parent if isinstance(value.owner, Operation) else value.owner
    if block is None or block.parent is None or len(block.parent.blocks) > 1:
        return False
    holder = block.parent_op()
    while holder is not None and not holder.has_trait(IsolatedFromAbove):
        holder = holder.parent_op()
    return isinstance(holder, FuncOp | kernel.FuncOp)
