"""Matrix products of a warpgroup: `wgmma` of the PTX ISA (sm_90a), whose factors are tiles in shared memory.

The left factor may lie in registers instead.

The 128 threads of a warpgroup issue a product together. It runs beside the program, in groups as asynchronous copies
do:

    kernel.wgmma_fence
    loop.for %k = 0 to 4 unroll {
      kernel.wgmma m64n128k16 %xs[%s, %w * 64 + d0, %k * 16 + d1] * %ws[%s, d0, %k * 16 + d1] into %acc[0, 0, 0]
        : memref<4x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        * memref<4x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        into memref<16x2x2xf32, #tile.memory<register>>
    }
    kernel.wgmma_commit
    kernel.wgmma_wait 0

The subscripts of a factor are over the coordinates of its tile: `d0` is the row of the result for the left factor and
the column for the right one, `d1` is k. So they say where the tile starts, and which dimension walks memory. Those of a
left factor in registers say the first of the elements that a thread holds of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    UnitAttr,
    i8,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.buffers import Memory, memory_of, memref_of, verify_buffer
from deplodock.dialects.elements import BY_NAME, listed
from deplodock.dialects.engines import WARPGROUPS
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import (
    Access,
    AccessEffects,
    Collective,
    Feature,
    Landing,
    NeedsFeature,
    TouchesMemory,
    last_elements,
)
from deplodock.dialects.kernel.order import (
    FenceProducts,
    OrdersAccesses,
    OrdersSharedMemory,
)
from deplodock.dialects.kernel.roles import WARPGROUP
from deplodock.dialects.kernel.sync import ClosesGroup, WaitsForGroups
from deplodock.dialects.loop.access import verify_subscripts

ROWS = 64
"""The rows of a product; those of a warp are 16 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16")."""

COLUMNS = range(8, 257, 8)
"""The columns that a product can have."""

COLUMNS_OF_BYTES = (8, 16, 24, *range(32, 257, 16))
"""The columns that a product of bytes can have."""

DEPTH_BYTES = 32
"""The bytes of each row that a product sums over."""

DEPTH = 16
"""The elements of 2 bytes that a product sums over."""

FACTORS: dict[Attribute, Attribute] = {
    BY_NAME[factor].type: BY_NAME[row.result].type for row in WARPGROUPS for factor in row.factors
}
"""The types of factors, and those of their sums; products are exact. Factors of f32 are read as TF32."""


def depth_of(factor: Attribute) -> int:
    """The elements that a product of factors of a type sums over; those of halves for a type that no factor has."""
    row = BY_NAME.get(str(factor), BY_NAME["bf16"])
    return DEPTH_BYTES // row.bytes


def held_of(factor: Attribute) -> int:
    """The elements of a left factor in registers that a thread holds, in four registers."""
    return ROWS * depth_of(factor) // WARPGROUP


def columns_of(factor: Attribute) -> Sequence[int]:
    """The columns that a product of factors of a type can have."""
    return COLUMNS_OF_BYTES if factor == i8 else COLUMNS


@dataclass(frozen=True)
class Factor:
    """A factor of a product: `buffer[map(d0, d1; indices)]` for each row or column `d0` and each k `d1` of its tile."""

    buffer: SSAValue
    map: AffineMap
    indices: Sequence[SSAValue]

    @property
    def is_held(self) -> bool:
        """Whether threads hold it in registers, so that it is no tile."""
        return memory_of(self.buffer) is Memory.REGISTER

    @property
    def depth(self) -> int:
        """The elements along k of its tile."""
        return depth_of(memref_of(self.buffer).element_type)

    @property
    def held(self) -> int:
        """The elements that a thread holds, where threads do."""
        return held_of(memref_of(self.buffer).element_type)

    def verify(self) -> None:
        """Check that it is a tile in shared memory, or a part of a register buffer. Raises VerifyException."""
        type = memref_of(self.buffer)
        verify_buffer(type)
        verify_divisors("the subscripts", self.map)
        if not self.is_held and memory_of(self.buffer) is not Memory.SHARED:
            raise VerifyException(f"a factor of a product lies in #tile.memory<shared>, got {type}")
        if self.is_held and any(expr.used_dims() for expr in self.map.results):
            raise VerifyException(f"the subscripts of a factor in registers have no d0 and d1, got {self.map}")
        if self.is_held and (not isinstance(type.layout, NoneAttr) or math.prod(type.get_shape()) < self.held):
            raise VerifyException(f"a factor in registers is {self.held} neighbours in row-major order, got {type}")
        if (self.map.num_dims, self.map.num_symbols) != (2, len(self.indices)):
            raise VerifyException(
                f"the subscripts of a factor are over d0, d1 and {len(self.indices)} operands, got {self.map}"
            )
        if len(self.map.results) != len(type.get_shape()):
            raise VerifyException(f"{type} needs {len(type.get_shape())} subscripts, got {len(self.map.results)}")

    def read(self, op: Operation, rows: int) -> Access:
        """The access of its tile by a product: the box of elements around it; or of the registers that hold it."""
        coordinates = [AffineExpr.constant(0)] * 2
        operands = [AffineExpr.dimension(i) for i in range(len(self.indices))]
        start = self.map.replace_dims_and_symbols(coordinates, operands, len(self.indices), 0)
        if self.is_held:
            box = last_elements(memref_of(self.buffer).get_shape(), self.held)
            return Access(op, self.buffer, False, start, self.indices, box, lands=Landing.PRODUCT)
        box = _box(self.map, rows, self.depth)
        return Access(op, self.buffer, False, start, self.indices, box, lands=Landing.PRODUCT, by_proxy=True)


class ReadsTiles:
    """An operation whose factors the hardware reads from shared memory as tiles."""

    def tiles(self) -> Sequence[tuple[Factor, int]]:
        """The factors, with the rows of their tiles."""
        raise NotImplementedError


@cache
def _box(map: AffineMap, rows: int, depth: int) -> tuple[int, ...]:
    """The elements along each dimension that the tile of a factor spans, for operands that are 0."""
    return tuple(_extent(expr, rows, depth, map.num_symbols) for expr in map.results)


@cache
def _extent(expr: AffineExpr, rows: int, depth: int, symbols: int) -> int:
    """From its least to its most value in a tile how many numbers there are; a sum has both at corners of the tile."""
    binary = [part for part in expr.dfs() if isinstance(part, AffineBinaryOpExpr)]
    is_sum = all(part.kind in (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul) for part in binary)
    along = [{0, extent - 1} if is_sum else range(extent) for extent in (rows, depth)]
    places = [expr.eval([row, k], [0] * symbols) for row, k in product(*along)]
    return max(places) - min(places) + 1


@irdl_custom_directive
class ProductShape(CustomDirective):
    """The shape of a product, such as m64n128k16, of which the columns and k are properties."""

    columns: AttributeVariable
    depth: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        shape = parser.parse_identifier()
        found = re.fullmatch(rf"m{ROWS}n(\d+)k({DEPTH // 2}|{DEPTH}|{2 * DEPTH})", shape)
        if found is None:
            parser.raise_error(
                f"the shape of a product is m{ROWS}nNk{DEPTH}, k{DEPTH // 2} of f32 or k{2 * DEPTH} of bytes, N its "
                f"columns; got {shape}",
                pos,
            )
        self.columns.set(state, IntegerAttr(int(found[1]), i64))
        self.depth.set(state, IntegerAttr(int(found[2]), i64))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, WgmmaOp)
        state.print_whitespace(printer)
        printer.print_string(f"m{ROWS}n{op.extent}k{op.depth.value.data}")


@op_definition
class WgmmaOp(IRDLOperation, TouchesMemory, ReadsTiles, NeedsFeature):
    """Starts to add the product of two tiles to accumulators in registers, as a warpgroup; `anew` to 0 in their place.

    Thread t of the warpgroup holds, from the first accumulator on, those of rows t / 32 * 16 + h * 8 + t mod 32 / 4 and
    columns j * 8 + t mod 4 * 2 + r, in the order of (j, h, r), h and r below 2. Its sums may be read, and what it reads
    overwritten, after a kernel.wgmma_wait for its group. A thread holds 8 elements of a left factor in registers, those
    of the same rows and of k = j * 8 + t mod 4 * 2 + r: so sums become a left factor in place. Of f32 it holds 4, of
    k = j * 4 + t mod 4, in the order of (j, h).

        kernel.wgmma m64n64k16 %xs[%w * 64 + d0, d1] * %ws[d1, d0] into %acc[0]
          : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
          * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
          into memref<32xf32, #tile.memory<register>>
    """

    name = "kernel.wgmma"
    left_buffer = operand_def(MemRefType)
    right_buffer = operand_def(MemRefType)
    accumulators = operand_def(MemRefType)
    left_indices = var_operand_def(IndexType)
    right_indices = var_operand_def(IndexType)
    indices = var_operand_def(IndexType)
    columns = prop_def(IntegerAttr.constr(i64))
    depth = prop_def(IntegerAttr.constr(i64))
    left_map = prop_def(AffineMapAttr)
    right_map = prop_def(AffineMapAttr)
    map = prop_def(AffineMapAttr)
    anew = opt_prop_def(UnitAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects(), OrdersSharedMemory(), Collective())
    custom_directives = (ProductShape,)
    assembly_format = (
        "custom<ProductShape>($columns, $depth) $left_buffer custom<MatrixSubscripts>($left_indices, $left_map)"
        " `*` $right_buffer custom<MatrixSubscripts>($right_indices, $right_map)"
        " `into` $accumulators custom<Subscripts>($indices, $map) (`anew` $anew^)? attr-dict"
        " `:` custom<Memref>(type($left_buffer)) `*` custom<Memref>(type($right_buffer))"
        " `into` custom<Memref>(type($accumulators))"
    )

    def __init__(
        self,
        columns: int,
        left: Factor,
        right: Factor,
        into: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        *,
        anew: bool = False,
    ):
        super().__init__(
            operands=[left.buffer, right.buffer, into[0], left.indices, right.indices, into[2]],
            properties={
                "columns": IntegerAttr(columns, i64),
                "depth": IntegerAttr(left.depth, i64),
                "left_map": AffineMapAttr(left.map),
                "right_map": AffineMapAttr(right.map),
                "map": AffineMapAttr(into[1]),
                "anew": UnitAttr() if anew else None,
            },
        )

    @property
    def left(self) -> Factor:
        """The factor whose tile is [64, k], or that threads hold."""
        return Factor(self.left_buffer, self.left_map.data, self.left_indices)

    @property
    def right(self) -> Factor:
        """The factor whose tile is [columns, k]."""
        return Factor(self.right_buffer, self.right_map.data, self.right_indices)

    def tiles(self) -> list[tuple[Factor, int]]:
        """The factors in shared memory."""
        return [*([] if self.left.is_held else [(self.left, ROWS)]), (self.right, self.extent)]

    def accesses(self) -> list[Access]:
        """It reads tiles by the proxy, and adds to the accumulators or writes them, until its group is waited for."""
        sums = memref_of(self.accumulators).get_shape()
        box = last_elements(sums, self.width)
        into = (self, self.accumulators), (self.map.data, self.indices, box)
        return [
            *(factor.read(self, rows) for factor, rows in ((self.left, ROWS), (self.right, self.extent))),
            *(
                Access(*into[0], writes, *into[1], lands=Landing.PRODUCT)
                for writes in ((True,) if self.anew else (False, True))
            ),
        ]

    def needs(self) -> Feature:
        """Products of warpgroups."""
        return Feature.WARPGROUPS

    @property
    def extent(self) -> int:
        """The number of columns."""
        return self.columns.value.data

    @property
    def width(self) -> int:
        """The accumulators of a thread: neighbours in row-major order."""
        return self.extent // 2

    def verify_(self) -> None:
        self.left.verify()
        self.right.verify()
        if self.right.is_held:
            raise VerifyException("the right factor of a product lies in #tile.memory<shared>")
        verify_subscripts(self.accumulators, self.map.data, self.indices)
        types = [memref_of(buffer).element_type for buffer in (self.left_buffer, self.right_buffer)]
        if types[0] not in FACTORS or types[0] != types[1]:
            known = listed(tuple(FACTORS))
            raise VerifyException(f"both factors of a product are {known}, got {types[0]} and {types[1]}")
        if self.depth.value.data != self.left.depth:
            raise VerifyException(f"a product of {types[0]} sums over k{self.left.depth}, got k{self.depth.value.data}")
        if self.left.is_held and types[0] == i8:
            raise VerifyException("the left factor of a product of bytes lies in #tile.memory<shared>")
        sums, wanted = memref_of(self.accumulators), FACTORS[types[0]]
        if memory_of(self.accumulators) is not Memory.REGISTER or sums.element_type != wanted:
            raise VerifyException(f"sums are {wanted} in #tile.memory<register>, got {sums}")
        if not isinstance(sums.layout, NoneAttr):
            raise VerifyException(f"sums are neighbours in row-major order, got {sums}")
        if self.extent not in columns_of(types[0]):
            multiple = "8 up to 24, or of 16" if types[0] == i8 else "8"
            raise VerifyException(f"the columns of a product are a multiple of {multiple} up to 256, got {self.extent}")
        if (held := math.prod(sums.get_shape())) < self.width:
            raise VerifyException(f"a thread has {self.width} sums of this product, and {sums} holds {held}")


@op_definition
class WgmmaFenceOp(IRDLOperation, OrdersAccesses):
    """Orders what this thread did to accumulators before the products after it; the first product needs one before it.

    kernel.wgmma_fence
    """

    name = "kernel.wgmma_fence"
    traits = traits_def(OrdersSharedMemory(), Collective())
    assembly_format = "attr-dict"

    def order(self) -> FenceProducts:
        """The thread fences its accumulators."""
        return FenceProducts()


@op_definition
class WgmmaCommitOp(ClosesGroup):
    """Closes the group of products that the warpgroup has started since its last group; it may be empty.

    kernel.wgmma_commit
    """

    name = "kernel.wgmma_commit"
    OF: ClassVar[Landing] = Landing.PRODUCT


@op_definition
class WgmmaWaitOp(WaitsForGroups):
    """Waits until all groups of products of the warpgroup but the `pending` last ones are done.

    kernel.wgmma_wait 1
    """

    name = "kernel.wgmma_wait"
    OF: ClassVar[Landing] = Landing.PRODUCT

    def verify_(self) -> None:
        if self.pending.value.data not in range(8):
            raise VerifyException(f"0 to 7 groups of products may stay pending, got {self.pending.value.data}")
