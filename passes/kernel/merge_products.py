"""merge-products: one product of a warpgroup in place of several that share their left factor.

    loop.for %step = 0 to 4 unroll {
      kernel.wgmma m64n128k16 %x[%s, d0, ..] * %y[%s, d0, ..] into %acc[0, 0, 0]
    }
    loop.for %step_1 = 0 to 4 unroll {
      kernel.wgmma m64n128k16 %x[%s, d0, ..] * %z[%s, d0, ..] into %acc_1[0, 0, 0]
    }
    ->
    loop.for %step = 0 to 4 unroll {
      kernel.wgmma m64n256k16 %x[%s, d0, ..] * %y[%s, d0, ..] into %acc[0, 0, 0]
    }

The columns of the second follow those of the first: the slab %y has the rows of both, so do boxes that land there, and
%acc the sums of both. A product reads its left factor once for all its columns: two of 128 columns ask shared memory
for 96 bytes a cycle and one of 256 for 80, of the 128 that it has, of which the copies of boxes take 48 (64x64 elements
of the left factor and 64 columns of the right one, 2 bytes each, in the 128 cycles of m64n256k16).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, MemRefType, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import memref_of
from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.kernel.wgmma import COLUMNS

Place: TypeAlias = tuple[AffineMap, Sequence[SSAValue | int]]
"""Subscripts, in which the variables of the loops around a product are numbers."""


@dataclass(frozen=True)
class MergeProductsPass(ModulePass):
    """Let one product of a warpgroup have the columns of several that share their left factor."""

    name = "merge-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            products = [each for each in function.body.walk() if isinstance(each, kernel.WgmmaOp)]
            nests = {nest.op: nest for nest in map(_Nest.around, products)}
            for block in dict.fromkeys(op.parent for op in nests):
                assert block is not None
                for part in list(_together(block, nests)):
                    _merge(part)


@dataclass(frozen=True)
class _Nest:
    """A product in loops that hold nothing else, the outermost `op`."""

    op: Operation
    product: kernel.WgmmaOp
    loops: Sequence[loop.ForOp]

    @staticmethod
    def around(product: kernel.WgmmaOp) -> _Nest:
        """The nest of a product."""
        outer: Operation = product
        loops: list[loop.ForOp] = []
        while isinstance(around := outer.parent_op(), loop.ForOp) and len(around.body.block.ops) == 1:
            loops.insert(0, around)
            outer = around
        return _Nest(outer, product, loops)

    def shared(self) -> tuple[object, ...] | None:
        """What is the same for products that can be one, all but the right buffer and the accumulators; else None."""
        product = self.product
        if not self._is_movable():
            return None
        return (
            tuple(each.trips for each in self.loops),
            product.extent,
            product.left_buffer,
            self._place(product.left_map.data, product.left_indices),
            self._place(product.right_map.data, product.right_indices),
            self._place(product.map.data, product.indices),
            product.right_buffer.type,
            product.accumulators.type,
        )

    def _place(self, map: AffineMap, indices: Sequence[SSAValue]) -> Place:
        variables = [each.iv for each in self.loops]
        return map, tuple(
            next((number for number, variable in enumerate(variables) if variable is each), each) for each in indices
        )

    def column(self) -> int | None:
        """The dimension of the right slab that its columns fill, which does not walk memory; None if there is none."""
        places, shape = self.product.right_map.data.results, memref_of(self.product.right_buffer).get_shape()
        found = [dim for dim, place in enumerate(places[:-1]) if place == AffineDimExpr(0)]
        return found[0] if found and shape[found[0]] == self.product.extent else None

    def _is_movable(self) -> bool:
        """Whether its columns fill a slab and its sums a buffer, and whatever else uses these can follow."""
        is_whole = prod(memref_of(self.product.accumulators).get_shape()) == self.product.width
        return (
            self.column() is not None
            and is_whole
            and all(
                isinstance(buffer.owner, kernel.AllocOp)
                and all(use.operation is self.product or _subscripts(use.operation, buffer) for use in buffer.uses)
                for buffer in (self.product.right_buffer, self.product.accumulators)
            )
        )


def _together(block: Block, nests: Mapping[Operation, _Nest]) -> Iterator[list[_Nest]]:
    """Neighbours in a block that can be one product, as many as have enough columns."""
    for key, ops in groupby(block.ops, key=lambda op: nests[op].shared() if op in nests else None):
        if key is None:
            continue
        found = [nests[op] for op in ops]
        most = COLUMNS[-1] // found[0].product.extent
        for first in range(0, len(found), most):
            if len(part := found[first : first + most]) > 1:
                yield part


def _merge(nests: Sequence[_Nest]) -> None:
    """Give the first product the columns of all."""
    first, column = nests[0].product, nests[0].column()
    assert column is not None
    slabs, sums = [nest.product.right_buffer for nest in nests], [nest.product.accumulators for nest in nests]
    for nest in nests[1:]:
        Rewriter.erase_op(nest.op)
    _pack(slabs, column)
    _pack(sums, 0)
    first.properties["columns"] = IntegerAttr(first.extent * len(nests), i64)


def _pack(buffers: Sequence[SSAValue], dim: int) -> None:
    """Put buffers of one type behind each other along a dimension, in the place of the first."""
    type = memref_of(buffers[0])
    shape = list(type.get_shape())
    extent = shape[dim]
    shape[dim] *= len(buffers)
    packed = kernel.AllocOp(MemRefType(type.element_type, shape, type.layout, type.memory_space))
    packed.result.name_hint = buffers[0].name_hint
    for number, buffer in enumerate(buffers):
        for op in dict.fromkeys(use.operation for use in buffer.uses):
            _move(op, buffer, dim, number * extent)
    first, *others = [buffer.owner for buffer in buffers]
    assert isinstance(first, Operation)
    Rewriter.replace_op(first, packed)
    for buffer, owner in zip(buffers[1:], others, strict=True):
        assert isinstance(owner, Operation)
        buffer.replace_all_uses_with(packed.result)
        Rewriter.erase_op(owner)


def _subscripts(op: Operation, buffer: SSAValue) -> str:
    """The property that has the subscripts of an operation into a buffer; empty if it is not told from others."""
    maps = [access.map for access in accesses_of(op) if access.buffer is buffer]
    names = [
        name
        for name, value in op.properties.items()
        if isinstance(value, AffineMapAttr) and any(value.data is map for map in maps)
    ]
    return names[0] if len(names) == 1 else ""


def _move(op: Operation, buffer: SSAValue, dim: int, by: int) -> None:
    """Add to the subscript of a buffer along a dimension."""
    if not by:
        return
    name = _subscripts(op, buffer)
    subscripts = op.properties[name]
    assert isinstance(subscripts, AffineMapAttr)
    map = subscripts.data
    results = [place + by if number == dim else place for number, place in enumerate(map.results)]
    op.properties[name] = AffineMapAttr(AffineMap(map.num_dims, map.num_symbols, tuple(results)))
