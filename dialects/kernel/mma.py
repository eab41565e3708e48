"""Products of matrices by the tensor cores of a warp (PTX ISA, `mma.sync`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, IndexType, MemRefType, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.buffers import Memory, memory_of, memref_of, verify_buffer
from deplodock.dialects.engines import ENGINES, Engine
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import Access, AccessEffects, Feature, NeedsFeature, TouchesMemory, row


@dataclass(frozen=True)
class Fragment:
    """What a lane holds of a matrix: the elements of a register buffer at a map of the fragment's coordinates.

    The coordinates are the dimensions of the map, `indices` its symbols.
    """

    buffer: SSAValue
    map: AffineMap
    indices: Sequence[SSAValue]
    extents: tuple[int, ...]
    packed: int
    """The elements of a register, neighbours along the last coordinate and in the buffer."""

    def registers(self) -> Iterator[tuple[tuple[int, ...], AffineMap]]:
        """The coordinates of the first element of each register, the last fastest, and its subscripts over indices."""
        symbols = [AffineExpr.dimension(i) for i in range(len(self.indices))]
        for place in product(*map(range, self.extents[:-1]), range(0, self.extents[-1], self.packed)):
            dims = [AffineExpr.constant(i) for i in place]
            results = [expr.replace_dims_and_symbols(dims, symbols) for expr in self.map.results]
            yield place, AffineMap(len(symbols), 0, tuple(results))

    def accesses(self, op: Operation, *, writes: bool) -> list[Access]:
        """An access of each register."""
        extents = row(len(self.map.results), self.packed)
        return [Access(op, self.buffer, writes, map, self.indices, extents) for _, map in self.registers()]


@op_definition
class MmaOp(IRDLOperation, TouchesMemory, NeedsFeature):
    """A warp multiplies two matrices and adds the product to a third; each lane holds a fragment of each.

    A fragment is the elements of a register buffer at subscripts over its coordinates: `d0, d1` are the row and the
    element along k that a lane holds of the left factor, `d0` the element along k of the right one, `d0, d1` the row
    and the column of the sums. Which rows and columns a lane holds says `dialects/engines.py`. Sums of floats are FP32,
    rounded toward zero; those of integers wrap. All lanes of the warp take part.

        kernel.mma m16n8k16 %a[%i, d0, %s * 4 + d1] * %b[%j, %s * 4 + d0] into %c[%i, %j, d0, d1]
          : memref<4x2x8xbf16, #tile.memory<register>>, memref<4x8xbf16, #tile.memory<register>>
          -> memref<4x4x2x2xf32, #tile.memory<register>>
    """

    name = "kernel.mma"
    left = operand_def(MemRefType)
    right = operand_def(MemRefType)
    sums = operand_def(MemRefType)
    left_indices = var_operand_def(IndexType)
    right_indices = var_operand_def(IndexType)
    sums_indices = var_operand_def(IndexType)
    instruction = prop_def(StringAttr)
    left_map = prop_def(AffineMapAttr)
    right_map = prop_def(AffineMapAttr)
    sums_map = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects())
    assembly_format = (
        "custom<Word>($instruction) $left custom<MatrixSubscripts>($left_indices, $left_map)"
        " `*` $right custom<VectorSubscripts>($right_indices, $right_map)"
        " `into` $sums custom<MatrixSubscripts>($sums_indices, $sums_map) attr-dict"
        " `:` custom<Memref>(type($left)) `,` custom<Memref>(type($right)) `->` custom<Memref>(type($sums))"
    )

    def __init__(self, instruction: str, *places: tuple[SSAValue, AffineMap, Sequence[SSAValue]]):
        """The places are those of the left and the right factor and of the sums."""
        left, right, sums = places
        super().__init__(
            operands=[left[0], right[0], sums[0], left[2], right[2], sums[2]],
            properties={
                "instruction": StringAttr(instruction),
                "left_map": AffineMapAttr(left[1]),
                "right_map": AffineMapAttr(right[1]),
                "sums_map": AffineMapAttr(sums[1]),
            },
        )

    @property
    def engine(self) -> Engine:
        """What the instruction multiplies: factors of the left one's type, if there are such; else of another type.

        Raises VerifyException where there is none of that name.
        """
        found = [engine for engine in ENGINES if engine.instruction == self.instruction.data]
        if not found:
            known = ", ".join(dict.fromkeys(engine.instruction for engine in ENGINES))
            raise VerifyException(f"there is no instruction {self.instruction.data}; there are {known}")
        element = str(memref_of(self.left).element_type)
        return next((engine for engine in found if element in engine.factors), found[0])

    @property
    def fragments(self) -> tuple[Fragment, Fragment, Fragment]:
        """The left factor, the right one and the sums."""
        engine = self.engine
        return (
            Fragment(self.left, self.left_map.data, self.left_indices, (engine.held[0], engine.depth), engine.packed),
            Fragment(self.right, self.right_map.data, self.right_indices, (engine.depth,), engine.packed),
            Fragment(self.sums, self.sums_map.data, self.sums_indices, engine.held, 1),
        )

    def accesses(self) -> list[Access]:
        """It reads the registers of the left factor, the right one and the sums, and writes those of the sums."""
        left, right, sums = self.fragments
        read = [access for fragment in (left, right, sums) for access in fragment.accesses(self, writes=False)]
        return [*read, *sums.accesses(self, writes=True)]

    def needs(self) -> Feature:
        """Tensor cores that multiply such matrices."""
        return Feature.MMA

    def verify_(self) -> None:
        left, right, sums = (_element(fragment) for fragment in self.fragments)
        if left not in self.engine.factors or left != right or sums != self.engine.result:
            wanted = " or ".join(self.engine.factors)
            raise VerifyException(
                f"{self.instruction.data} multiplies two of {wanted} to {self.engine.result}, "
                f"got {left}, {right} and {sums}"
            )


def _element(fragment: Fragment) -> str:
    """The element type of a fragment. Raises VerifyException where its buffer or its subscripts do not fit."""
    type, map = memref_of(fragment.buffer), fragment.map
    verify_buffer(type)
    verify_divisors("the subscripts of a fragment", map)
    if memory_of(fragment.buffer) is not Memory.REGISTER:
        raise VerifyException(f"a fragment lies in #tile.memory<register>, got {type}")
    if (map.num_dims, map.num_symbols) != (len(fragment.extents), len(fragment.indices)):
        raise VerifyException(
            f"the subscripts of a fragment are over {len(fragment.extents)} coordinates and "
            f"{len(fragment.indices)} operands, got {map}"
        )
    if len(map.results) != len(type.get_shape()):
        raise VerifyException(f"{type} needs {len(type.get_shape())} subscripts, got {len(map.results)}")
    return type.element_type.name if isinstance(type.element_type, AnyFloat) else str(type.element_type)
