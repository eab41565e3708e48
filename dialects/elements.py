"""The element types of tensors and buffers, and the types in which the narrow ones are computed.

A `ui8` is PyTorch's uint8; signless integers are signed where it matters. `arith` has no operations on narrow elements
here but conversions to and from the wide type, which `WIDE` gives: what is computed rounds or wraps once, at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, Signedness, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

ui8 = IntegerType(8, Signedness.UNSIGNED)

FLOATS: tuple[Attribute, ...] = (f32, f64, f16, bf16)
INTEGERS: tuple[Attribute, ...] = (i32, i64, i8, i16, ui8)
ELEMENTS: tuple[Attribute, ...] = (*FLOATS, *INTEGERS, i1)
"""Every type that an element of a tensor or buffer may have; an i1 takes one byte in memory."""

WIDE: dict[Attribute, Attribute] = {f16: f32, bf16: f32, i8: i32, i16: i32, ui8: i32}
"""The type in which the elements of a narrow type are computed."""


def listed(elements: Sequence[Attribute]) -> str:
    """The types for a message: `f32, f64 or i1`."""
    *first, last = (str(element) for element in elements)
    return f"{', '.join(first)} or {last}" if first else last
