"""Copies of slabs of global buffers: what they read, in which order and how wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.alignment import aligned_width, element_bytes
from deplodock.analysis.affine.linear import Linear, condition_forms, form_of
from deplodock.analysis.machine.targets import SECTOR_BYTES, WARP
from deplodock.dialects import loop, tile


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
        """The slab's dimensions with the one that walks the source's last dimension last."""
        dims = list(range(len(self.shape)))
        if not self.map.results:
            return dims
        contiguous = self.map.results[-1].used_dims()
        return [dim for dim in dims if dim not in contiguous] + [dim for dim in dims if dim in contiguous]

    def copy_width(self) -> int:
        """The elements that a thread copies at once where threads follow `copy_order`."""
        order = self.copy_order()
        return self.width_along(order[-1]) if order else 1

    def copy_bytes(self) -> int:
        """The bytes that a thread copies at once."""
        return self.copy_width() * element_bytes(self.type.element_type)

    def width_along(self, along: int) -> int:
        """The elements along a dimension that move together: contiguous, aligned and inside the buffer alike."""
        destination = loop.memref_of(self.destination)
        roots = Block(arg_types=[IndexType()] * len(self.shape)).args
        coordinates = [Linear.of(root) for root in roots]
        subscripts = self.subscripts(coordinates)
        extent = self.shape[along]
        width = min(
            aligned_width(self.type, subscripts, roots[along], extent),
            aligned_width(destination, [*self.at, *coordinates], roots[along], extent),
        )
        base = subscripts[-1] - coordinates[along] if subscripts else Linear()
        while width > 1 and (base.divisor() % width or self.type.get_shape()[-1] % width):
            width //= 2
        for form in self.conditions(coordinates):
            rest = form - coordinates[along]
            if form.depends_on(roots[along]):
                width = 1 if rest.depends_on(roots[along]) else math.gcd(rest.divisor(), width)
        return width

    def copies(self) -> int:
        """How many copies of `copy_width` elements fill the slab."""
        return math.prod(self.shape) // self.copy_width()

    def coordinates(self, copy: Linear, threads: int) -> list[Linear]:
        """The slab coordinates where a copy starts, for its number, whose range is that of all copies.

        Neighbours follow the source's contiguous dimension. Where the slab's own last dimension is another one, a warp
        takes a sector of the source at each of a few neighbours in the slab: the rows of the slab can then be padded so
        that all its lanes write to different banks. The warps of the CTA then take other neighbours, and each walks the
        source's contiguous dimension first, where one address and small offsets serve all its copies.
        """
        coordinates = [Linear()] * len(self.shape)
        for dim, extent, step in self._digits(threads):
            coordinates[dim] = coordinates[dim] + copy % extent * step
            copy = copy // extent
        return coordinates

    def _digits(self, threads: int) -> list[tuple[int, int, int]]:
        """What the number of a copy means: dimension, extent and step of its digits, the fastest first."""
        order, width, last = self.copy_order(), self.copy_width(), len(self.shape) - 1
        if not order:
            return []
        *slower, along = order
        sector = SECTOR_BYTES // element_bytes(self.type.element_type)
        across = WARP // sector
        if along == last or self.shape[along] % sector or self.shape[last] % across:
            return [
                (along, self.shape[along] // width, width),
                *((dim, self.shape[dim], 1) for dim in reversed(slower)),
            ]
        rows = self.shape[last] // across
        warps = math.gcd(max(threads // WARP, 1), rows)
        return [
            (along, sector, 1),
            (last, across, 1),
            (last, warps, across),
            (along, self.shape[along] // sector, sector),
            (last, rows // warps, across * warps),
            *((dim, self.shape[dim], 1) for dim in reversed(slower) if dim != last),
        ]


def slab_of(op: tile.StageOp | tile.CopyOp) -> Slab:
    """The slab that an operation fills."""
    if isinstance(op, tile.CopyOp):
        return Slab(op.source, op.map.data, op.indices, op.destination, op.shape)
    where = None if op.where is None else op.where.data
    return Slab(op.source, op.map.data, op.indices, op.slab, loop.memref_of(op.slab).get_shape(), where=where)


def stand_in(extent: int) -> SSAValue:
    """A root with this many values, to be substituted before it is emitted."""
    return loop.ForOp(extent, Region(Block(arg_types=[IndexType()]))).iv


def stand_in_buffer(type: MemRefType[Attribute]) -> SSAValue:
    """A buffer of this type that no operation makes, to ask what accesses of one would be."""
    return Block(arg_types=[type]).args[0]
