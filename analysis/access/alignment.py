"""How wide an access can be: consecutive elements along an axis, at provably aligned addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType, ShapedType
from xdsl.ir import Attribute, SSAValue

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.dialects.buffers import LINE_BYTES, SwizzleAttr, last_dimension
from deplodock.errors import UnsupportedError


def element_bytes(type: Attribute) -> int:
    """The size of an element in memory; i1 takes one byte. Raises UnsupportedError for a type that has no size."""
    if isinstance(type, AnyFloat | IntegerType):
        return max(1, type.bitwidth // 8)
    if isinstance(type, IndexType):
        return 8
    raise UnsupportedError(f"{type} has no size in memory")


def strides_of(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """The distance in elements between neighbours along each dimension, without the swizzle of a layout.

    Raises UnsupportedError for a dynamic layout.
    """
    is_swizzled = isinstance(type.layout, SwizzleAttr)
    strides = ShapedType.strides_for_shape(type.get_shape()) if is_swizzled else type.get_strides()
    if strides is None or len(strides) != type.get_num_dims() or any(stride is None for stride in strides):
        raise UnsupportedError(f"{type} has no static strides, one for each dimension")
    return cast(tuple[int, ...], tuple(strides))


def address(type: MemRefType[Attribute], subscripts: Sequence[Linear]) -> Linear:
    """The position of an element in its buffer, in elements, without the swizzle of a layout.

    Raises UnsupportedError for a dynamic layout.
    """
    if (offset := type.get_offset()) is None:
        raise UnsupportedError(f"{type} has no static offset")
    result = Linear(constant=offset)
    for form, stride in zip(subscripts, strides_of(type), strict=True):
        result = result + form * stride
    return result.joined()


def flips(type: MemRefType[Attribute], subscripts: Sequence[Linear]) -> Linear | None:
    """What flips the bits of the last subscript of an element of a swizzled buffer; None for other buffers.

    The element then lies where a buffer without the swizzle has it.
    """
    if not isinstance(type.layout, SwizzleAttr):
        return None
    size, (row, *_) = element_bytes(type.element_type), reversed(type.get_shape())
    rows = address(type, [*subscripts[:-1], Linear()]) // row
    return type.layout.flips(rows // (LINE_BYTES // type.layout.span)) // size


def aligned_width(type: MemRefType[Attribute], subscripts: Sequence[Linear], along: SSAValue, extent: int) -> int:
    """The largest number of elements, a power of two, that one aligned access can take along a root of the subscripts.

    The root must step through the address by ones and nothing else; `extent` is its number of values, which the width
    divides. Where it moves more than the last subscript, as in a flattened view, the width divides a row of memory.
    Dimensions of one element count for nothing: the last one is the last of several.
    """
    if not subscripts or strides_of(type)[(last := last_dimension(type))] != 1:
        return 1
    base = address(type, subscripts) - Linear.of(along)
    others = [form for dim, form in enumerate(subscripts) if dim != last]
    is_split = any(form.depends_on(along) for form in others) or subscripts[last].coefficient(along) != 1
    if base.depends_on(along) or (is_split and isinstance(type.layout, SwizzleAttr)):
        return 1
    size, row = element_bytes(type.element_type), type.get_shape()[last]
    for width in _widths(size):
        fits = row % width == 0 if is_split else width <= row
        if fits and extent % width == 0 and base.divisor() % width == 0:
            return width
    return 1


def _widths(size: int) -> tuple[int, ...]:
    """The elements of `size` bytes that an access can take, the widest first, where it takes several."""
    return tuple(width for width in (16, 8, 4, 2) if width * size <= ACCESS_BYTES)


def lanes_along(
    type: MemRefType[Attribute], subscripts: Sequence[Linear], along: SSAValue, extent: int
) -> tuple[int, ...]:
    """The place of each of a few consecutive coordinates in the widest aligned access that holds just them.

    `(0, 1, 2, 3)` are four neighbours in order, `(1, 0, 3, 2)` four with each pair swapped, `(0,)` is an access of one
    element. All that depends on the root is the last subscript.
    """
    if (width := aligned_width(type, subscripts, along, extent)) > 1:
        return tuple(range(width))
    if not subscripts or strides_of(type)[(last := last_dimension(type))] != 1:
        return (0,)
    if any(form.depends_on(along) for dim, form in enumerate(subscripts) if dim != last):
        return (0,)
    if (found := steps_along(subscripts[last], along, extent)) is None:
        return (0,)
    rest, steps = found
    base = address(type, [*subscripts[:last], rest, *subscripts[last + 1 :]])
    size = element_bytes(type.element_type)
    for width in _widths(size):
        lanes = tuple(steps[:width])
        is_whole = extent % width == 0 and sorted(lanes) == list(range(width))
        is_aligned = width <= type.get_shape()[last] and base.divisor() % width == 0
        repeated = [start + lane for start in range(0, extent, width) for lane in lanes]
        if is_whole and is_aligned and repeated == steps:
            return lanes
    return (0,)


def is_in_order(lanes: Sequence[int]) -> bool:
    """Whether consecutive coordinates are neighbours in memory, in order."""
    return list(lanes) == list(range(len(lanes)))


def steps_along(form: Linear, root: SSAValue, extent: int) -> tuple[Linear, list[int]] | None:
    """A form as the part that is the same for all values of a root, and a step from there for each, the least 0.

    None where the root meets others in a quotient or remainder.
    """
    rest, moving = form.split(lambda other: other is not root)
    if any(other is not root for other in moving.roots()):
        return None
    steps = [moving.substitute(root, Linear(constant=value)).constant for value in range(extent)]
    least = min(steps, default=0)
    return rest + least, [step - least for step in steps]
