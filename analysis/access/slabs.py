"""Copies of slabs of global buffers: what they read or write, in which order and how wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineMap

from deplodock.analysis.access.alignment import address, aligned_width, element_bytes
from deplodock.analysis.affine.linear import Linear, condition_forms, form_of
from deplodock.analysis.machine.targets import ACCESS_BYTES, SECTOR_BYTES, WARP
from deplodock.dialects import loop, tile
from deplodock.dialects.buffers import last_dimension


@dataclass(frozen=True)
class Slab:
    """What fills a slab: destination[at..., d0, d1, ...] = source[map(d0, d1, ..; indices)]."""

    source: SSAValue
    map: AffineMap
    indices: Sequence[SSAValue]
    destination: SSAValue
    shape: tuple[int, ...]
    at: tuple[Linear, ...] = ()
    """The subscripts of the destination before those of the slab."""
    facts: tuple[Linear, ...] = ()
    """Forms that are below 0 wherever the slab is filled."""

    is_tf32: bool = False
    """Whether elements are rounded to TF32."""
    where: AffineMap | None = None
    """The sides of conditions over the map's dimensions and `indices`; an element where one fails is not copied."""

    @property
    def type(self) -> MemRefType[Attribute]:
        """The type of the source."""
        return loop.memref_of(self.source)

    def subscripts(self, coordinates: Sequence[Linear]) -> list[Linear]:
        """The source's subscripts at these coordinates of the slab."""
        return [form_of(expr, self.indices, coordinates) for expr in self.map.results]

    def conditions(self, coordinates: Sequence[Linear]) -> list[Linear]:
        """The conditions at these coordinates of the slab, as forms that are below 0 where they hold."""
        return [] if self.where is None else condition_forms(self.where, self.indices, coordinates)

    def copy_order(self) -> list[int]:
        """The slab's dimensions with the one that walks the source's contiguous dimension last."""
        dims = list(range(len(self.shape)))
        if not self.map.results:
            return dims
        contiguous = self.map.results[last_dimension(self.type)].used_dims()
        return [dim for dim in dims if dim not in contiguous] + [dim for dim in dims if dim in contiguous]

    @cached_property
    def copy_width(self) -> int:
        """The elements that a thread copies at once where threads follow `copy_order`."""
        order = self.copy_order()
        return self.width_along(order[-1]) if order else 1

    def copy_bytes(self) -> int:
        """The bytes that a thread copies at once."""
        return self.copy_width * element_bytes(self.type.element_type)

    def width_along(self, along: int) -> int:
        """The elements along a dimension that move together: contiguous, aligned and inside the buffer alike."""
        destination = loop.memref_of(self.destination)
        roots = Block(arg_types=[IndexType()] * len(self.shape)).args
        coordinates = [Linear.of(root) for root in roots]
        extent = self.shape[along]
        width = aligned_width(destination, [*self.at, *coordinates], roots[along], extent)
        if width == 1:
            return self._gathered_width(along)
        subscripts = self.subscripts(coordinates)
        width = min(width, aligned_width(self.type, subscripts, roots[along], extent))
        base = subscripts[-1] - coordinates[along] if subscripts else Linear()
        while width > 1 and (base.divisor() % width or self.type.get_shape()[-1] % width):
            width //= 2
        for form in self.conditions(coordinates):
            rest = form - coordinates[along]
            if form.depends_on(roots[along]):
                width = 1 if rest.depends_on(roots[along]) else math.gcd(rest.divisor(), width)
        return self._gathered_width(along) if width == 1 else width

    def _gathered_width(self, along: int) -> int:
        """The same where the map divides the dimension, as pixels of images: of whole groups of neighbours."""
        if not self._is_divided(along) or self.where is not None:
            return 1
        size, extent = element_bytes(self.type.element_type), self.shape[along]
        for width in (2**bits for bits in range((ACCESS_BYTES // size).bit_length() - 1, 0, -1)):
            if extent % width:
                continue
            group, place = stand_in(max(extent // width, 1)), stand_in(width)
            coordinates = [Linear.of(stand_in(other)) for other in self.shape]
            coordinates[along] = Linear.of(group, width) + Linear.of(place)
            is_written = self._moves(loop.memref_of(self.destination), [*self.at, *coordinates], place, width)
            if is_written and self._moves(self.type, self.subscripts(coordinates), place, width):
                return width
        return 1

    def _is_divided(self, dim: int) -> bool:
        """Whether the map has a quotient or remainder of a dimension."""
        divisions = (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.CeilDiv, AffineBinaryOpKind.Mod)
        parts = (part for expr in self.map.results for part in expr.dfs() if isinstance(part, AffineBinaryOpExpr))
        return any(part.kind in divisions and dim in part.used_dims() for part in parts)

    @staticmethod
    def _moves(type: MemRefType[Attribute], subscripts: Sequence[Linear], place: SSAValue, width: int) -> bool:
        """Whether `width` places are neighbours in a row of memory, aligned together."""
        *outer, last = subscripts
        base = last - Linear.of(place)
        if base.depends_on(place) or any(form.depends_on(place) for form in outer):
            return False
        return not type.get_shape()[-1] % width and not address(type, [*outer, base]).divisor() % width

    def copiers(self, threads: int) -> int:
        """How many of so many threads copy: of windows or pixels whole rows, or an equal part of one; else all.

        Then a thread's copies are all of one place in an image, or a constant apart. On an H200 a convolution to 50
        channels by windows of 7 x 7 takes 296 us where 112 threads copy rows of 64 pixels, each 28 elements of other
        places (2,168 bytes spilled), and 124 us where 64 threads do, in the same tiles of 64 x 64; one to 40 channels
        by windows of 5 x 5 takes 79 us with 80 threads, 43 with 64.
        """
        if not any(map(self._is_divided, range(len(self.shape)))):
            return threads
        row = math.prod(extent for _, extent, _ in self._digits(threads)[: 3 if self._takes_sectors else 1])
        if row <= threads:
            return threads // row * row
        part = max(size for size in range(1, threads + 1) if row % size == 0)
        return part if 2 * part > threads else threads

    def copies(self, threads: int) -> int:
        """How many copies of `copy_width` elements fill the slab, with those that `coordinates` puts beside it."""
        return math.prod(extent for _, extent, _ in self._digits(threads))

    def coordinates(self, copy: Linear, threads: int) -> list[Linear]:
        """The slab coordinates where a copy starts, for its number, whose range is that of all copies.

        Some of them may be past the end of the slab (`ends`): such a copy is none.

        Neighbours follow the source's contiguous dimension. Where the slab's own last dimension is another one, a warp
        takes a sector of the source, or half of one, at each of a few neighbours in the slab: the rows of the slab can
        then be padded so that all its lanes write to different banks. The warps of the CTA then take other neighbours,
        and each walks the source's contiguous dimension first, where one address and small offsets serve all its
        copies.
        """
        coordinates = [Linear()] * len(self.shape)
        for dim, extent, step in self._digits(threads):
            coordinates[dim] = coordinates[dim] + copy % extent * step
            copy = copy // extent
        return coordinates

    def ends(self, coordinates: Sequence[Linear]) -> list[Linear]:
        """The forms that are below 0 where coordinates are those of an element, less those that always are."""
        ends = [form - extent for form, extent in zip(coordinates, self.shape, strict=True)]
        return [end for end in ends if (bounds := end.range()) is None or bounds[1] >= 0]

    def _digits(self, threads: int) -> list[tuple[int, int, int]]:
        """What the number of a copy means: dimension, extent and step of its digits, the fastest first."""
        order, width, last = self.copy_order(), self.copy_width, len(self.shape) - 1
        if not order:
            return []
        *slower, along = order
        if not self._takes_sectors:
            row = self.shape[along] // width
            return [
                (along, row, width),
                *(digit for dim in reversed(slower) for digit in self._rows(dim, threads, row)),
            ]
        sector = self._sector(along)
        across = WARP // sector
        rows = self.shape[last] // across
        warps = math.gcd(max(threads // WARP, 1), rows)
        return [
            (along, sector, 1),
            (last, across, 1),
            (last, warps, across),
            (along, -(-self.shape[along] // sector), sector),
            (last, rows // warps, across * warps),
            *((dim, self.shape[dim], 1) for dim in reversed(slower) if dim != last),
        ]

    @cached_property
    def _takes_sectors(self) -> bool:
        """Whether a warp takes sectors of the source, at neighbours along the slab's own last dimension."""
        along, last = self.copy_order()[-1], len(self.shape) - 1
        sector = self._sector(along)
        is_short = sector * element_bytes(self.type.element_type) < ACCESS_BYTES
        return along != last and not is_short and self.shape[last] % (WARP // sector) == 0

    def _sector(self, along: int) -> int:
        """The neighbours in the source that a warp takes from a row of a transposed slab: a sector of memory, or half.

        A row of windows is copied in sectors whatever its length, the last one in part.
        """
        whole = SECTOR_BYTES // element_bytes(self.type.element_type)
        sector, half = math.gcd(whole, self.shape[along]), ACCESS_BYTES // element_bytes(self.type.element_type)
        return whole if sector < half < self.shape[along] and self._is_divided(along) else sector

    def _rows(self, dim: int, threads: int, row: int) -> list[tuple[int, int, int]]:
        """The digits of a dimension behind rows of `row` copies.

        Where the map divides it, as elements of windows, the rows that threads copy at once lie far apart: then a
        thread knows of each of its copies which place of a window it is.
        """
        extent, at_once = self.shape[dim], max(threads // row, 1)
        if not self._is_divided(dim) or threads % row or extent < at_once:
            return [(dim, extent, 1)]
        return [(dim, at_once, -(-extent // at_once)), (dim, -(-extent // at_once), 1)]


def slab_of(op: tile.StageOp | tile.CopyOp | tile.StoreOp) -> Slab:
    """The slab that an operation fills, or of which it fills memory."""
    if isinstance(op, tile.StoreOp):
        return Slab(op.destination, op.map.data, op.indices, op.slab, loop.memref_of(op.slab).get_shape())
    if isinstance(op, tile.CopyOp):
        return Slab(op.source, op.map.data, op.indices, op.destination, op.shape, is_tf32=op.is_tf32 is not None)
    where = None if op.where is None else op.where.data
    shape, is_tf32 = loop.memref_of(op.slab).get_shape(), op.is_tf32 is not None
    return Slab(op.source, op.map.data, op.indices, op.slab, shape, where=where, is_tf32=is_tf32)


def stand_in(extent: int) -> SSAValue:
    """A root with this many values, to be substituted before it is emitted."""
    return loop.ForOp(extent, Region(Block(arg_types=[IndexType()]))).iv


def stand_in_buffer(type: MemRefType[Attribute]) -> SSAValue:
    """A buffer of this type that no operation makes, to ask what accesses of one would be."""
    return Block(arg_types=[type]).args[0]
