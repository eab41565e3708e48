"""The memories of the simulated machine, and who accessed what in them since the last barrier.

Lanes are the trailing two dimensions of every array, [CTAs, threads]; dimensions before them are iterations of loops
that run as one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.access.alignment import strides_of
from deplodock.dialects.buffers import LINE_BYTES, SwizzleAttr
from deplodock.dialects.loop import memref_of
from deplodock.errors import UnsupportedError
from deplodock.interpreters.simulate.grid import Grid
from deplodock.interpreters.simulate.phases import Clocks
from deplodock.interpreters.values import Array, DType, dtype_of, poison

_THREAD_BITS = 40
_THREAD = (1 << _THREAD_BITS) - 1
_NOBODY = -1
_ELEMENT_BITS = 40
_ELEMENT = (1 << _ELEMENT_BITS) - 1


class Values(NamedTuple):
    """Values of lanes, with their origins (`checks.unwritten`), None if none comes of memory that nobody wrote."""

    data: Array
    origin: Array | None = None

    def of(self, lanes: Array) -> Values:
        """The values of the lanes for which `lanes` holds."""
        return Values(self.data[lanes], None if self.origin is None else self.origin[lanes])


def origin_at(read: int, element: Array) -> Array:
    """The origins of elements that nobody wrote, read by the op of that number."""
    return element | (read + 1 << _ELEMENT_BITS)


def read_by(origin: Array) -> tuple[Array, Array]:
    """The numbers of the ops that read what origins name, and its elements."""
    return (origin >> _ELEMENT_BITS) - 1, origin & _ELEMENT


@dataclass(frozen=True)
class Layout:
    """Shape of a memref, with its strides and offset in memory, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType
    swizzle: SwizzleAttr | None = None

    @classmethod
    def of(cls, value: SSAValue) -> Layout:
        """The layout of a buffer.

        Raises:
            UnsupportedError: it is no memref, its sizes are not all known, or its layout is not strided.
        """
        if not isinstance(value.type, MemRefType):
            raise UnsupportedError(f"an argument of type {value.type} cannot be simulated; it must be a memref")
        type = memref_of(value)
        shape, swizzle = type.get_shape(), type.layout if isinstance(type.layout, SwizzleAttr) else None
        try:
            strides, offset = strides_of(type), type.get_offset()
        except (DiagnosticException, NotImplementedError, UnsupportedError):
            strides, offset = None, None
        if strides is None or offset is None or any(n < 0 for n in shape):
            raise UnsupportedError(f"{type} cannot be simulated; it needs static sizes, strides and offset")
        return cls(shape, strides, offset, dtype_of(type.element_type), swizzle)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def address(self, subscripts: Sequence[Array]) -> Array:
        """The byte addresses of elements from the start of the buffer."""
        elements = sum((s * stride for s, stride in zip(subscripts, self.strides, strict=True)), np.asarray(0))
        bytes = np.asarray((elements + self.offset) * self.dtype.itemsize)
        return bytes if self.swizzle is None else bytes ^ self.swizzle.flips(bytes // LINE_BYTES)

    @property
    def rows(self) -> tuple[int, ...]:
        """The strides of the elements' numbers: row-major, whatever the layout in memory."""
        return tuple(math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))

    def element(self, number: int) -> str:
        """The subscripts of an element, as a message writes them."""
        return f"[{', '.join(str(int(i)) for i in np.unravel_index(number, self.shape))}]" if self.shape else "[]"


class AccessLog:
    """The last writer and two different readers of each element since the log was cleared.

    Two readers are enough to know, for any thread, whether another one has read. An access is a tag: the number of its
    op and the thread. As long as all CTAs access the same elements of their shared memories, one copy stands for all.
    Where barriers have phases or CTAs take tickets, a tag holds the stamp of `clocks` for the thread, and accesses that
    happened before are no others.
    """

    def __init__(self, size: int, clocks: Clocks | Grid | None = None) -> None:
        self.copies = 1
        self._size = size
        self._clocks = clocks
        self._writer, self._reader, self._other_reader = (np.full(size, _NOBODY, np.int64) for _ in range(3))

    @staticmethod
    def tag(op: int, thread: Array) -> Array:
        """The tag of an access by the op of that number."""
        return thread | (op << _THREAD_BITS)

    @staticmethod
    def untag(tag: int) -> tuple[int, int]:
        """The op's number and the thread of a tag."""
        return tag >> _THREAD_BITS, tag & _THREAD

    @staticmethod
    def restamp(tag: Array, stamp: Array) -> Array:
        """Tags of accesses by the same ops and other threads."""
        return (tag & ~_THREAD) | stamp

    def spread(self, copies: int) -> None:
        """Keep a copy for each CTA from now on."""
        if self.copies == copies:
            return
        self.copies = copies
        self._writer, self._reader, self._other_reader = (
            np.tile(tags, copies) for tags in (self._writer, self._reader, self._other_reader)
        )

    def clear(self, ctas: Array) -> None:
        """Forget the accesses of some CTAs."""
        if not ctas.all():
            self.spread(len(ctas))
        for tags in (self._writer, self._reader, self._other_reader):
            tags.reshape(self.copies, -1)[ctas if self.copies > 1 else slice(None)] = _NOBODY

    def read(self, element: Array, tag: Array) -> Array:
        """Record reads; the result is, for each, the tag of another thread's write that it races with, or -1."""
        before = self._reader[element]
        self._reader[element] = tag
        now = self._reader[element]
        for others in (before, tag):
            differs = self._by_others(element, others, now)
            self._other_reader[element[differs]] = others[differs]
        writer = self._writer[element]
        return np.where(self._by_others(element, writer, tag), writer, _NOBODY)

    def overwrite(self, element: Array, tag: Array) -> Array:
        """The tag of another thread's access that each write would race with, or -1; nothing is recorded."""
        races = np.full(tag.shape, _NOBODY)
        for tags in (self._reader, self._other_reader, self._writer):
            earlier = tags[element]
            races = np.where(self._by_others(element, earlier, tag), earlier, races)
        return races

    def write(self, element: Array, tag: Array) -> Array:
        """Record writes; the result is, for each, the tag of another thread's access that it races with, or -1."""
        races = self.overwrite(element, tag)
        self._writer[element] = tag
        winner = self._writer[element]
        return np.where(self._by_others(element, winner, tag), winner, races)

    def _by_others(self, element: Array, earlier: Array, tag: Array) -> Array:
        """Which earlier accesses are by other threads than those of `tag`, and did not happen before."""
        if self._clocks is None:
            return (earlier != _NOBODY) & (((earlier ^ tag) & _THREAD) != 0)
        return (earlier != _NOBODY) & ~self._clocks.happened(element // self._size, earlier, tag)


class Written:
    """Which elements of a memory hold a value, and the origins of those that do not: -1 where nobody wrote at all."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.flags = np.zeros(shape, np.bool_)
        self._origins: Array | None = None

    def clear(self) -> None:
        """Make all elements unwritten."""
        self.flags[:] = False
        self._origins = None

    def part(self, where: slice) -> Written:
        """That of a part of the memory, which both know from now on."""
        if self._origins is None:
            self._origins = np.full(self.flags.shape, _NOBODY, np.int64)
        part = Written(())
        part.flags, part._origins = self.flags[where], self._origins[where]
        return part

    def origin(self, where: Any) -> Array | None:
        """The origins of elements; None if they all hold a value."""
        written = np.asarray(self.flags[where])
        if written.all():
            return None
        return np.where(written, 0, _NOBODY if self._origins is None else self._origins[where])

    def put(self, where: Any, origin: Array | None, mask: Array | None = None) -> None:
        """Note that elements were written where `mask` holds, with values of these origins."""
        if origin is None:
            self.flags[where] = True if mask is None else self.flags[where] | mask
            return
        if self._origins is None:
            self._origins = np.full(self.flags.shape, _NOBODY, np.int64)
        kept = np.asarray(False) if mask is None else ~mask
        self.flags[where] = np.where(kept, self.flags[where], origin == 0)
        self._origins[where] = np.where(kept, self._origins[where], origin)


@dataclass
class Buffer:
    """Global memory (one copy), or shared memory (one copy a CTA): elements in row-major order, copy after copy.

    `written` is None if all elements are known to hold values.
    """

    layout: Layout
    data: Array
    written: Written | None = None
    whole: Buffer | None = None
    """The buffer of which this is a part."""

    @classmethod
    def of(cls, layout: Layout, values: Array) -> Buffer:
        """A buffer that holds a copy of `values`."""
        data = np.zeros(max(1, layout.size), layout.dtype)
        data[: layout.size] = values.reshape(-1)
        return cls(layout, data)

    def part(self, layout: Layout, start: int) -> Buffer:
        """The part of this global memory from an element on, as a buffer of another layout."""
        where = slice(start, start + max(1, layout.size))
        written = None if self.written is None else self.written.part(where)
        return Buffer(layout, self.data[where], written, self.whole or self)

    @classmethod
    def unwritten(cls, layout: Layout, copies: int = 1) -> Buffer:
        """A buffer whose elements nobody has written."""
        size = max(1, layout.size) * copies
        return cls(layout, np.full(size, poison(layout.dtype)), Written((size,)))

    def read(self, element: Array) -> Array:
        """The values of elements."""
        return np.asarray(self.data[element])

    def origin(self, element: Array) -> Array | None:
        """The origins of elements; None if they all hold a value."""
        return None if self.written is None else self.written.origin(element)

    def write(self, element: Array, value: Values) -> None:
        """Write elements."""
        self.data[element] = value.data
        if self.written is not None:
            self.written.put(element, value.origin)

    @property
    def values(self) -> Array:
        """The elements, in the memref's shape."""
        return self.data[: self.layout.size].reshape(self.layout.shape)

    def forget(self) -> None:
        """Make all elements unwritten."""
        self.data[:] = poison(self.layout.dtype)
        if self.written is not None:
            self.written.clear()


@dataclass
class Registers:
    """A register array of every lane: [elements, CTAs, threads], so that a constant subscript is a slice."""

    layout: Layout
    lanes: tuple[int, int]
    data: Array = field(init=False)
    written: Written = field(init=False)

    def __post_init__(self) -> None:
        shape = (max(1, self.layout.size), *self.lanes)
        self.data = np.full(shape, poison(self.layout.dtype))
        self.written = Written(shape)

    def read(self, element: Array) -> Array:
        """The values of elements; `element` broadcasts to lanes."""
        return self.data[self._where(element)].copy()

    def origin(self, element: Array) -> Array | None:
        """The origins of elements; None if they all hold a value."""
        return self.written.origin(self._where(element))

    def write(self, element: Array, value: Values, mask: Array | None) -> None:
        """Write distinct elements of each lane where `mask` holds."""
        where = self._where(element)
        self.data[where] = value.data if mask is None else np.where(mask, value.data, self.data[where])
        self.written.put(where, value.origin, mask)

    def _where(self, element: Array) -> Any:
        """A numpy subscript: of whole lanes if all lanes take the same elements, else one for each lane."""
        if element.ndim < 2:
            return element
        if element.shape[-2:] == (1, 1):
            return element[..., 0, 0]
        ctas, threads = self.lanes
        return element, np.arange(ctas).reshape(-1, 1), np.arange(threads)
