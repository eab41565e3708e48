"""Buffers of a kernel that are derived: an operation gives their elements of those of another one, at the same places.

    %v = loop.load %x[%i]                                       loop.store %v, %out0[%i]
    %l = loop.load %x_low[%i]                                   %l = math_ext.low_part %v : f32
    %w = math_ext.with_low_part %v, %l : f32                    loop.store %l, %out1[%i]

`math_ext.with_low_part` says of the buffer that its second operand is read from what it is: on the left `%x_low` is
derived from `%x` by `math_ext.low_part`, and so is `%out1` from `%out0` on the right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.affine.linear import Linear, subscripts_of
from deplodock.analysis.operations import label
from deplodock.dialects import loop
from deplodock.dialects.math_ext import LowPartOp, WithLowPartOp
from deplodock.errors import UnsupportedError

_Place: TypeAlias = tuple[SSAValue, list[Linear], tuple[int, ...]]
"""A buffer, the subscripts of an element, and the buffer's shape."""


@dataclass(frozen=True)
class Derived:
    """What a buffer is derived from: the number of a parameter, and the name of the operation that gives elements."""

    source: int
    operation: str


def derived_buffers(function: func.FuncOp) -> dict[int, Derived]:
    """The derived ones of the parameters of a kernel at loop level, by number.

    Raises UnsupportedError where a low part belongs to no buffer, or a buffer to several.
    """
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(function.args)}
    found: dict[int, Derived] = {}
    for op in function.walk():
        for low, wholes in _low_parts(op):
            beside = [place[0] for place in wholes if place[1:] == low[1:]]
            sources = [numbers[buffer] for buffer in beside if buffer in numbers and buffer is not low[0]]
            own = Derived(sources[0], LowPartOp.name) if sources else None
            if own is None or low[0] not in numbers or found.setdefault(numbers[low[0]], own) != own:
                raise UnsupportedError(f"the buffer {label(low[0])} of {op.name} is that of no single other buffer")
    return found


def _low_parts(op: Operation) -> Iterator[tuple[_Place, list[_Place]]]:
    """Where an operation says that low parts lie, and where their numbers do."""
    if isinstance(op, WithLowPartOp):
        if not isinstance(op.low.owner, loop.LoadOp):
            raise UnsupportedError(f"{op.name} takes a low part that is no element of a buffer")
        yield _place(op.low.owner), _places(op.value)
    elif isinstance(op, LowPartOp):
        for use in op.result.uses:
            if not isinstance(use.operation, loop.StoreOp):
                raise UnsupportedError(f"{op.name} gives a part that is not stored, but goes to {use.operation.name}")
            yield _place(use.operation), _places(op.value)


def _places(value: SSAValue) -> list[_Place]:
    """Where a value is read, or stored."""
    known = [value.owner, *(use.operation for use in value.uses)]
    return [_place(op) for op in known if isinstance(op, loop.LoadOp | loop.StoreOp)]


def _place(op: loop.LoadOp | loop.StoreOp) -> _Place:
    buffer = op.source if isinstance(op, loop.LoadOp) else op.destination
    return buffer, subscripts_of(op), loop.memref_of(buffer).get_shape()
