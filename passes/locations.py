"""Locations of the operations that a pass has made.

A pass gives an operation a location where it knows which operation that stands for: it clones, or it sets `location`.
The others, such as the subscripts, conditions and barriers around those, are placed here.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue


def locate(module: ModuleOp, functions: Iterable[Operation] | None = None) -> None:
    """Locate the operations of a module that lack a location, by default in all its functions.

    Such an operation takes the location of what computes its first operand, as a store does; else of the next operation
    of its block, as a subscript does that is computed before it is used; else of the last one, or of the operation
    around the block.
    """
    _locate(module.body.block, module.location)
    for function in module.ops if functions is None else functions:
        _locate_inside(function)


def _locate_inside(op: Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            _locate(block, op.location)
            for inner in block.ops:
                if inner.regions:
                    _locate_inside(inner)


def _locate(block: Block, around: LocationAttr) -> None:
    waiting: list[Operation] = []
    last = around
    for op in block.ops:
        if type(op.location) is UnknownLoc:
            op.location = _of_operands(op)
        if type(op.location) is UnknownLoc:
            waiting.append(op)
            continue
        last = op.location
        for before in waiting:
            before.location = last
        waiting.clear()
    for op in waiting:
        op.location = last


def _of_operands(op: Operation) -> LocationAttr:
    """The location of the operation that computes the first operand which has one."""
    for value in op.operands:
        if type(found := location_of(value)) is not UnknownLoc:
            return found
    return UNKNOWN_LOC


def location_of(value: SSAValue) -> LocationAttr:
    """The location of the operation that computes a value; an argument has none of its own."""
    return value.owner.location if isinstance(value.owner, Operation) else UNKNOWN_LOC
