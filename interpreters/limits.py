"""What numpy cannot hold: arrays of more dimensions than it has, or of more bytes than an address counts."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from deplodock.analysis.host.arguments import Call, callee, cell_of
from deplodock.analysis.operations import position_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tensor import RecurrenceOp
from deplodock.errors import UnsupportedError

MAX_DIMS = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
"""The dimensions of an array (NumPy's `NPY_MAXDIMS`)."""

MAX_BYTES = (1 << 63) - 1
"""The bytes of an array, as numpy counts them in an `npy_intp` of 64 bits."""

_LANES = 2
"""The dimensions that the simulator adds: CTAs and threads."""

_SHAPED = (MemRefType, TensorType)


def check_limits(function: Operation) -> None:
    """Check that the evaluators and the simulator can hold all values of a function, and of the functions it calls.

    The points of the loops around an operation are dimensions of arrays, before those of what it works on.

    Raises:
        UnsupportedError: an array would have too many dimensions or bytes; the message has the operation's place.
    """
    waiting, known = [function], {function}
    while waiting:
        op = waiting.pop()
        _check(op, 0)
        called = {callee(call) for call in op.walk() if isinstance(call, Call)}
        called |= {cell_of(call) for call in op.walk() if isinstance(call, RecurrenceOp)}
        waiting += called - known
        known |= called


def _check(op: Operation, around: int) -> None:
    inside = around
    if op.regions:
        inside += len(op.bindings) if isinstance(op, tile.LaunchOp) else isinstance(op, loop.LoopLike)
        if inside > MAX_DIMS - _LANES:
            message = f"more than {MAX_DIMS - _LANES} nested loops are not evaluated: numpy has no such arrays"
            raise _refusal(op, message)
    for result in op.results:
        _check_value(op, result, inside)
    for block in (block for region in op.regions for block in region.blocks):
        for argument in block.args:
            _check_value(op, argument, inside)
        for child in block.ops:
            _check(child, inside)


def _check_value(op: Operation, value: SSAValue, around: int) -> None:
    if isinstance(value.type, _SHAPED):
        _check_type(op, cast("MemRefType[Attribute] | TensorType[Attribute]", value.type), around)


def _check_type(op: Operation, type: MemRefType[Attribute] | TensorType[Attribute], around: int) -> None:
    shape, element = type.get_shape(), type.element_type
    if len(shape) + around > MAX_DIMS - _LANES:
        raise _refusal(op, f"{type} in {around} nested loops is not evaluated: numpy arrays have {MAX_DIMS} dimensions")
    size = element.size if isinstance(element, FixedBitwidthType) else 8
    if min(shape, default=0) >= 0 and math.prod(shape) * size > MAX_BYTES:
        raise _refusal(op, f"{type} has 2^63 bytes or more, which no memory holds")


def _refusal(op: Operation, message: str) -> UnsupportedError:
    position = position_of(op)
    text = f"{op.name}: {message}"
    return UnsupportedError(text if position is None else f"{position}: error: {text}")
