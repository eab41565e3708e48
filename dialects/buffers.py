"""Buffers: the memory that a memref type says they live in, and where its layout puts their elements.

A buffer in global memory is contiguous. One on chip is contiguous, strided, or swizzled if it is shared. Every
operation that holds or accesses a buffer verifies that by `verify_buffer`, so wherever the address of an element
counts, in the simulator, the bank model, the checks of barriers and the printed CUDA, no other element has it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import cast

from xdsl.dialects.builtin import MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from deplodock.dialects.swizzle import SwizzleAttr, verify_swizzle

MAX_ELEMENTS = 1 << 18
"""As many bytes hold the registers, or the shared memory, of an SM; an element takes one at least."""


class Memory(StrEnum):
    """Where an on-chip buffer lives; a memref without a memory space is in global memory."""

    SHARED = "shared"
    REGISTER = "register"


@irdl_attr_definition
class MemoryAttr(EnumAttribute[Memory]):
    """`#tile.memory<shared>`: the memory space of a buffer owned by a CTA, or by one thread (`register`)."""

    name = "tile.memory"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Memory:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Memory)


def memref_of(value: SSAValue) -> MemRefType[Attribute]:
    """The memref type of a value known to be a buffer."""
    return cast(MemRefType[Attribute], value.type)


def memory_of(buffer: SSAValue) -> Memory | None:
    """The memory of a buffer: shared, register, or None for global memory."""
    space = memref_of(buffer).memory_space
    return space.data if isinstance(space, MemoryAttr) else None


def last_dimension(type: MemRefType[Attribute]) -> int:
    """The last dimension that has several elements; the last one where none has."""
    shape = type.get_shape()
    return next((dim for dim in reversed(range(len(shape))) if shape[dim] != 1), len(shape) - 1)


def verify_buffer(type: MemRefType[Attribute]) -> None:
    """Check the memory space and the layout of a buffer.

    Raises:
        VerifyException: the memory space is not of the tile dialect, or there may be two elements at one address, an
            element before the buffer's start, or one behind the bytes that its shape takes in global memory.
    """
    if not isinstance(type.memory_space, NoneAttr | MemoryAttr):
        raise VerifyException(
            f"the memory space of {type} must be #tile.memory<shared> or #tile.memory<register>, or none for global "
            "memory"
        )
    if not isinstance(type.layout, NoneAttr):
        _verify_layout(type)


@lru_cache
def _verify_layout(type: MemRefType[Attribute]) -> None:
    space = type.memory_space
    match type.layout:
        case SwizzleAttr():
            if space != MemoryAttr(Memory.SHARED):
                raise VerifyException(f"only buffers in #tile.memory<shared> are swizzled, got {type}")
            verify_swizzle(type)
        case StridedLayoutAttr() if isinstance(space, MemoryAttr):
            _verify_strides(type)
        case StridedLayoutAttr():
            raise VerifyException(
                f"buffers in global memory are contiguous, got {type}; drop the layout, or pass the whole buffer and "
                "subscript it"
            )
        case _:
            raise VerifyException(f"the layout of a buffer on chip is strided<[..]> or #tile.swizzle<..>, got {type}")


def _verify_strides(type: MemRefType[Attribute]) -> None:
    """Check that the elements of a strided buffer lie at different addresses, none before its start."""
    shape, strides, offset = type.get_shape(), type.get_strides() or (), type.get_offset()
    if len(strides) != len(shape):
        raise VerifyException(f"a layout has a stride for each of the {len(shape)} dimensions, got {type}")
    if offset is None or any(stride is None for stride in strides) or any(extent < 0 for extent in shape):
        raise VerifyException(f"the shape, strides and offset of a buffer on chip are numbers, got {type}")
    steps = cast(Sequence[int], strides)
    if offset < 0 or any(step < 1 for step in steps):
        raise VerifyException(f"strides are 1 or more, and an offset is 0 or more, got {type}")
    if 0 in shape or _nests(shape, steps):
        return
    if math.prod(shape) > MAX_ELEMENTS:
        raise VerifyException(f"{type} has more elements than a memory on chip")
    seen: dict[int, tuple[int, ...]] = {}
    for place in product(*map(range, shape)):
        address = sum(map(operator.mul, place, steps))
        if address in seen:
            raise VerifyException(f"elements {list(seen[address])} and {list(place)} of {type} have one address")
        seen[address] = place


def _nests(shape: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether each dimension steps over all that the dimensions of smaller strides take, which keeps elements apart."""
    taken = 1
    for step, extent in sorted((step, extent) for step, extent in zip(steps, shape, strict=True) if extent > 1):
        if step < taken:
            return False
        taken += step * (extent - 1)
    return True
