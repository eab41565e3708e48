"""Windows that overlap: which free axes have neighbours that fold the same elements."""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.analysis.shape.nest import Nest
from deplodock.dialects import loop


def window_axes(nest: Nest) -> list[SSAValue]:
    """The free axes, in order, along which the windows of neighbours overlap in a buffer that reductions read.

    That is where a subscript moves along an axis by no more than the loops of a reduction reach in it.
    """
    reads = [op for op in nest.body.walk() if isinstance(op, loop.LoadOp)]
    forms = [form for op in reads for form in subscripts_of(op)]
    return [axis for axis in nest.axes if any(0 < form.coefficient(axis) <= reach(form) for form in forms)]


def reach(form: Linear) -> int:
    """How far the loops of reductions move a subscript."""
    steps = [(root, step) for root, step in form.terms if isinstance(root, BlockArgument) and _is_folded(root)]
    return sum((extent_or_one(root) - 1) * step for root, step in steps)


def _is_folded(root: BlockArgument) -> bool:
    return isinstance(root.block.parent_op(), loop.ReduceOp)
