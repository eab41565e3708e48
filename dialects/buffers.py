"""Buffers: the memory that a memref type says they live in, and where its layout puts their elements.

A buffer in global memory is contiguous. One on chip is contiguous, strided, or swizzled if it is shared. Every
operation that holds or accesses a buffer verifies that by `verify_buffer`, so wherever the address of an element
counts, in the simulator, the bank model, the checks of barriers and the printed CUDA, no other element has it.

In a swizzled buffer 16-byte units of a row change places, so that columns meet all banks. `#tile.swizzle<128>` is the
layout of a row-major buffer in shared memory whose rows have 128 bytes. A byte lies at

    address xor (address floordiv 128 mod 8) * 16

which puts unit u of row r at unit u xor r mod 8. Spans of 64 and 32 bytes do so modulo 4 and 2. These are the modes
CU_TENSOR_MAP_SWIZZLE_128B, _64B and _32B of the CUDA driver API (PTX ISA, "Swizzling Modes"), in which the tensor
memory accelerator writes boxes. Subscripts stay those of the row-major buffer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Protocol, Self, TypeVar, cast

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IntegerAttr,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from deplodock.dialects.affine_syntax import parse_i64

MAX_ELEMENTS = 1 << 18
"""As many bytes hold the registers, or the shared memory, of an SM; an element takes one at least."""


SLOT_BYTES = 128
"""What the address of a box in shared memory is a multiple of (PTX ISA, `cp.async.bulk.tensor`)."""


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


def box_alignment(buffer: MemRefType[Attribute]) -> int:
    """What the addresses of boxes in a shared buffer are multiples of, in bytes."""
    return buffer.layout.alignment if isinstance(buffer.layout, SwizzleAttr) else SLOT_BYTES


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


SPANS = (128, 64, 32)
"""The bytes of a row that can be swizzled."""

LINE_BYTES = 128
"""The bytes of shared memory that the banks hold side by side."""

UNIT_BYTES = 16
"""The bytes that keep together."""


class Number(Protocol):
    """An integer, an array of integers, or a form of them."""

    def __mod__(self, divisor: int, /) -> Self: ...
    def __mul__(self, factor: int, /) -> Self: ...


Line = TypeVar("Line", bound=Number)


@irdl_attr_definition
class SwizzleAttr(ParametrizedAttribute, MemRefLayoutAttr):
    """`#tile.swizzle<128>`: rows of 128, 64 or 32 bytes whose 16-byte units are permuted."""

    name = "tile.swizzle"
    bytes: IntegerAttr

    def __init__(self, span: int):
        super().__init__(IntegerAttr(span, i64))

    @property
    def span(self) -> int:
        """The bytes of a row."""
        return self.bytes.value.data

    @property
    def alignment(self) -> int:
        """What the address of a buffer is a multiple of, in bytes: the pattern repeats after as many."""
        return 8 * self.span

    def flips(self, line: Line) -> Line:
        """What flips the bits of the addresses of a line, `address floordiv 128`: units times their bytes."""
        return line % (self.span // UNIT_BYTES) * UNIT_BYTES

    def verify(self) -> None:
        if self.span not in SPANS:
            raise VerifyException(f"rows of 128, 64 or 32 bytes are swizzled, got {self.span}")

    def get_affine_map(self) -> AffineMap:
        raise VerifyException("a swizzled layout is no affine map")

    def get_offset(self) -> int:
        """The offset of the first row."""
        return 0

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.span))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntegerAttr(parse_i64(parser), i64)]


def verify_swizzle(type: MemRefType[Attribute]) -> None:
    """Check that the rows of a buffer are as wide as its swizzle, if it has one. Raises VerifyException."""
    if not isinstance(type.layout, SwizzleAttr):
        return
    element, shape = type.element_type, type.get_shape()
    if not shape or not isinstance(element, FixedBitwidthType) or shape[-1] * element.size != type.layout.span:
        raise VerifyException(f"a swizzle of {type.layout.span} bytes is for rows of as many, got {type}")
