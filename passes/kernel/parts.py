"""What combines over block and cluster axes share: CTAs leave their parts in memory, and fold those of others.

Where the last register axes make 16 bytes, a thread leaves so many values side by side, and reads them at once:

    kernel.move 4 %packed[0] to %part[%j, %thread, 0]
    ..
    kernel.move 4 %part[%j, %thread, 0] to %packed[0]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.affine.linear import Linear, constant_place
from deplodock.dialects import loop, tile
from deplodock.dialects.interfaces import Place
from deplodock.dialects.tile import Memory
from deplodock.passes.kernel.emit import Array, Emitter, Held
from deplodock.passes.kernel.lower_access import move
from deplodock.passes.kernel.workspace import packed_axes

PARTS_AT_ONCE = 256
"""The most parts of other CTAs that a thread reads in unrolled code; of more, it reads those of one CTA at once."""

Element: TypeAlias = tuple[SSAValue, AffineMap, list[SSAValue]]
"""An element of a buffer: a map over operands that gives the subscripts."""


def place_of(emitter: Emitter, axes: Sequence[SSAValue]) -> Linear:
    """The linear coordinate of some axes, the last one fastest."""
    place, stride = Linear(), 1
    for axis in reversed(axes):
        place, stride = Linear.of(axis, stride) + place, stride * emitter.extent(axis)
    return place


class Parts:
    """The buffers, one for each value, in which the threads of CTAs leave theirs: in the shape of `part_shape`, behind
    the place of the CTA.

    Of values side by side each pair of neighbours is swapped, so that a wide access ties no sum to the register bank of
    its column's factor.
    """

    def __init__(self, emitter: Emitter, buffers: Sequence[SSAValue], axes: Sequence[SSAValue]) -> None:
        """`axes` are the register axes along which the values vary."""
        self._emitter = emitter
        self._buffers = buffers
        types = [loop.memref_of(buffer).element_type for buffer in buffers]
        count = len(axes) - packed_axes([emitter.extent(axis) for axis in axes], types)
        self._loose, self._packed = axes[:count], axes[count:]
        self.width = math.prod(emitter.extent(axis) for axis in self._packed)
        """The values that an access moves."""

    def at(self, first: Sequence[Linear], taken: Mapping[SSAValue, Linear] | None = None) -> Place:
        """The subscripts of this thread's values behind some first ones, where axes are `taken` as they are said."""
        own = [(taken or {}).get(axis, axis) for axis in self._loose]
        return self._emitter.map([*first, *own, self._emitter.thread, *([Linear()] if self._packed else [])])

    def leave(self, held: Sequence[Held], first: Sequence[Linear]) -> None:
        """Emit the stores of values, behind the subscripts of this CTA."""
        emitter = self._emitter
        with emitter.nest(self._loose):
            for value, buffer in zip(held, self._buffers, strict=True):
                if not self._packed:
                    emitter.run(loop.StoreOp(emitter.read(value), buffer, *self.at(first)))
                    continue
                vector = self._vector(buffer)
                for lane in self._lanes():
                    emitter.run(loop.StoreOp(emitter.read(value), vector, *constant_place(lane)))
                move(emitter, self.width, (vector, *constant_place(0)), (buffer, *self.at(first)))

    def fold(
        self,
        op: tile.CombineOp,
        arrays: Sequence[Array],
        count: int,
        read: Callable[[SSAValue, Linear, Element], None],
    ) -> None:
        """Emit that accumulators take in the parts of `count` CTAs in order.

        `read` emits the read of a thread's values in a buffer, those of the CTA of a number, to registers.
        """
        emitter, outer = self._emitter, self._emitter.block
        axes = arrays[0].axes
        is_short = count * math.prod(map(emitter.extent, axes)) <= PARTS_AT_ONCE
        part = Linear.of(emitter.enter_loop(count, "cta", unroll=is_short))
        with emitter.nest([axis for axis in axes if axis not in self._packed]):
            vectors = [self._vector(buffer) for buffer in self._buffers]
            for buffer, vector in zip(self._buffers, vectors, strict=True):
                read(buffer, part, (vector, *constant_place(0)))
            for lane in self._lanes():
                values = [emitter.add(loop.LoadOp(vector, *constant_place(lane))) for vector in vectors]
                emitter.fold_into(arrays, op.combiner, values)
        emitter.block = outer

    def _vector(self, buffer: SSAValue) -> SSAValue:
        """Registers for what one access moves."""
        element = loop.memref_of(buffer).element_type
        return self._emitter.allocate(element, [self.width], Memory.REGISTER, "packed")

    def _lanes(self) -> Generator[int]:
        """The places of values in an access, each with the packed axes at the value's coordinates."""
        emitter, known = self._emitter, dict(self._emitter.coordinates)
        extents = [range(emitter.extent(axis)) for axis in self._packed]
        for number, coordinates in enumerate(itertools.product(*extents)):
            emitter.coordinates |= zip(self._packed, coordinates, strict=True)
            yield number if self.width == 1 else number // 2 * 2 - number % 2 + 1
        emitter.coordinates = known
