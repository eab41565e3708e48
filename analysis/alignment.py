"""How wide an access can be: consecutive elements along an axis, at provably aligned addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType, ShapedType
from xdsl.ir import Attribute, SSAValue

from deplodock.analysis.linear import Linear
from deplodock.dialects.tile_swizzle import LINE_BYTES, SwizzleAttr

MAX_BYTES = 16
"""The widest access of a thread in bytes (PTX `ld.v4.f32`); every buffer starts at a multiple of it."""


def element_bytes(type: Attribute) -> int:
    """The size of an element in memory; i1 takes one byte. Raises ValueError for a type that has no size in memory."""
    if isinstance(type, AnyFloat | IntegerType):
        return max(1, type.bitwidth // 8)
    if isinstance(type, IndexType):
        return 8
    raise ValueError(f"{type} has no size in memory")


def strides_of(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """The distance in elements between neighbours along each dimension, without the swizzle of a layout.

    Raises ValueError for a dynamic layout.
    """
    is_swizzled = isinstance(type.layout, SwizzleAttr)
    strides = ShapedType.strides_for_shape(type.get_shape()) if is_swizzled else type.get_strides()
    if strides is None or any(stride is None for stride in strides):
        raise ValueError(f"{type} has no static strides")
    return cast(tuple[int, ...], tuple(strides))


def address(type: MemRefType[Attribute], subscripts: Sequence[Linear]) -> Linear:
    """The offset of an element from the start of the buffer, in elements, without the swizzle of a layout."""
    result = Linear()
    for form, stride in zip(subscripts, strides_of(type), strict=True):
        result = result + form * stride
    return result


def flips(type: MemRefType[Attribute], subscripts: Sequence[Linear]) -> Linear | None:
    """What flips the bits of the last subscript of an element of a swizzled buffer; None for other buffers.

    The element then lies where a buffer without the swizzle has it.
    """
    if not isinstance(type.layout, SwizzleAttr):
        return None
    size, (row, *_) = element_bytes(type.element_type), reversed(type.get_shape())
    rows = address(type, [*subscripts[:-1], Linear()]).floordiv(row)
    flipped = type.layout.flips(rows.floordiv(LINE_BYTES // type.layout.span))
    return flipped.floordiv(size)


def aligned_width(type: MemRefType[Attribute], subscripts: Sequence[Linear], along: SSAValue, extent: int) -> int:
    """The largest number of elements (1, 2 or 4) that one aligned access can take along a root of the last subscript.

    The root must step through the last dimension by ones and nothing else; `extent` is its number of values, which the
    width divides.
    """
    if not subscripts or strides_of(type)[-1] != 1:
        return 1
    *outer, last = subscripts
    rest = last - Linear(((along, 1),))
    if rest.depends_on(along) or any(form.depends_on(along) for form in outer):
        return 1
    base = address(type, [*outer, rest])
    size = element_bytes(type.element_type)
    for width in (4, 2):
        fits = width * size <= MAX_BYTES and width <= type.get_shape()[-1]
        if fits and extent % width == 0 and base.divisor() % width == 0:
            return width
    return 1
