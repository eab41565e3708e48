"""Scalar accesses of buffers: the loads and stores of the loop dialect, which the tile and kernel dialects use, too."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_map
from deplodock.dialects.buffers import memref_of, verify_buffer
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import Access, TouchesMemory, row


class ReadsSource(MemoryEffect):
    """Reads the buffer in the op's `source` operand."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.READ, op.operands[0])}


class WritesDestination(MemoryEffect):
    """Writes the buffer in the op's `destination` operand, its second."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.WRITE, op.operands[1])}


def verify_subscripts(buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> None:
    """Check `buffer` and that `map` gives one subscript for each of its dimensions. Raises VerifyException."""
    verify_buffer(memref_of(buffer))
    verify_map("the subscripts", map, indices)
    rank = len(memref_of(buffer).get_shape())
    if len(map.results) != rank:
        raise VerifyException(f"{buffer.type} needs {rank} subscripts, got {len(map.results)}")


@op_definition
class LoadOp(IRDLOperation, TouchesMemory):
    """Reads one element; a `padded` read of one outside the buffer gives 0.

    %v = loop.load %x[%i, %k + 1] : memref<32x2048xf32>
    %p = loop.load padded %x[%i, %k - 1] : memref<32x2048xf32>
    """

    name = "loop.load"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    padded = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(ReadsSource())
    assembly_format = (
        "(`padded` $padded^)? $source custom<Subscripts>($indices, $map) attr-dict `:`"
        " custom<MemrefOf>(type($source), type($result))"
    )

    def __init__(self, source: SSAValue, map: AffineMap, indices: Sequence[SSAValue], *, padded: bool = False):
        super().__init__(
            operands=[source, indices],
            properties={"map": AffineMapAttr(map), "padded": UnitAttr() if padded else None},
            result_types=[memref_of(source).element_type],
        )

    def accesses(self) -> list[Access]:
        """It reads an element."""
        return [Access(self, self.source, False, self.map.data, self.indices, row(len(self.map.data.results)))]

    def verify_(self) -> None:
        verify_subscripts(self.source, self.map.data, self.indices)
        if self.result.type != memref_of(self.source).element_type:
            raise VerifyException(f"loading from {self.source.type} gives its element type, not {self.result.type}")


@op_definition
class StoreOp(IRDLOperation, TouchesMemory):
    """Writes one element.

    loop.store %v, %out[%i] : memref<32xf32>
    """

    name = "loop.store"
    value = operand_def()
    destination = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    traits = traits_def(WritesDestination())
    assembly_format = (
        "$value `,` $destination custom<Subscripts>($indices, $map) attr-dict `:`"
        " custom<MemrefOf>(type($destination), type($value))"
    )

    def __init__(self, value: SSAValue, destination: SSAValue, map: AffineMap, indices: Sequence[SSAValue]):
        super().__init__(operands=[value, destination, indices], properties={"map": AffineMapAttr(map)})

    def accesses(self) -> list[Access]:
        """It writes an element."""
        return [Access(self, self.destination, True, self.map.data, self.indices, row(len(self.map.data.results)))]

    def verify_(self) -> None:
        verify_subscripts(self.destination, self.map.data, self.indices)
        if self.value.type != memref_of(self.destination).element_type:
            raise VerifyException(
                f"cannot store {self.value.type} to {self.destination.type}: the element types differ"
            )
