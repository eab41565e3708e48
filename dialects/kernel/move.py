"""The wide copy of a thread: consecutive elements in one access, or beside the program."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import (
    verify_conditions,
)
from deplodock.dialects.buffers import Memory, last_dimension, memory_of
from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import (
    Access,
    AccessEffects,
    Feature,
    Landing,
    NeedsFeature,
    Place,
    TouchesMemory,
    row,
)
from deplodock.dialects.loop.access import memref_of, verify_subscripts

ASYNC_BYTES = (4, 8, 16)
"""The bytes that one asynchronous copy of a thread can move (PTX ISA, `cp.async`)."""


@op_definition
class MoveOp(IRDLOperation, TouchesMemory, NeedsFeature):
    """Copies `width` consecutive elements, along the last dimension of several elements of both sides, in one access.

    Where the conditions fail the source is not touched: an on-chip destination gets zeros. A wide access needs both
    addresses aligned to its size: the example is a guarded 16-byte load of f32. An `async` move from global to shared
    memory, of 4, 8 or 16 bytes, runs beside the program until a kernel.wait_group of its thread.

        kernel.move 4 %x[%t * 4] to %r[0] where (%t * 4 < 1000)
          : memref<1000xf32> to memref<4xf32, #tile.memory<register>>
    """

    name = "kernel.move"
    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    source_indices = var_operand_def(IndexType)
    destination_indices = var_operand_def(IndexType)
    where_indices = var_operand_def(IndexType)
    width = prop_def(IntegerAttr.constr(i64))
    source_map = prop_def(AffineMapAttr)
    destination_map = prop_def(AffineMapAttr)
    where = opt_prop_def(AffineMapAttr)
    is_async = opt_prop_def(UnitAttr, prop_name="async")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects())
    assembly_format = (
        "$width (`async` $async^)? $source custom<Subscripts>($source_indices, $source_map)"
        " `to` $destination custom<Subscripts>($destination_indices, $destination_map)"
        " (`where` custom<Conditions>($where_indices, $where)^)? attr-dict `:`"
        " custom<Memref>(type($source)) `to` custom<Memref>(type($destination))"
    )

    def __init__(
        self,
        width: int,
        source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        destination: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        where: Place | None = None,
        is_async: bool = False,
    ):
        super().__init__(
            operands=[source[0], destination[0], source[2], destination[2], where[1] if where else []],
            properties={
                "width": IntegerAttr(width, i64),
                "source_map": AffineMapAttr(source[1]),
                "destination_map": AffineMapAttr(destination[1]),
                "where": AffineMapAttr(where[0]) if where else None,
                "async": UnitAttr() if is_async else None,
            },
        )

    @property
    def elements(self) -> int:
        """The number of elements moved."""
        return self.width.value.data

    def accesses(self) -> list[Access]:
        """It reads the source where the conditions hold, and writes the destination, maybe when its group lands."""
        source, destination = self.source_map.data, self.destination_map.data
        where = None if self.where is None else (self.where.data, self.where_indices)
        lands = Landing.GROUP if self.is_async else None
        along = [last_dimension(memref_of(buffer)) for buffer in (self.source, self.destination)]
        read = row(len(source.results), self.elements, along[0])
        written = row(len(destination.results), self.elements, along[1])
        return [
            Access(self, self.source, False, source, self.source_indices, read, where, lands, along=along[0]),
            Access(
                self,
                self.destination,
                True,
                destination,
                self.destination_indices,
                written,
                lands=lands,
                along=along[1],
            ),
        ]

    def needs(self) -> Feature | None:
        """Asynchronous copies, if it is one."""
        return Feature.ASYNC_COPIES if self.is_async else None

    def verify_(self) -> None:
        verify_subscripts(self.source, self.source_map.data, self.source_indices)
        verify_subscripts(self.destination, self.destination_map.data, self.destination_indices)
        if self.where is None and self.where_indices:
            raise VerifyException("operands of conditions need the property `where` that says the conditions")
        if self.where is not None:
            verify_conditions("the conditions of the move", self.where.data, self.where_indices)
            if memory_of(self.destination) is None:
                raise VerifyException(
                    "a move to global memory is guarded by loop.guard; `where` fills an on-chip destination"
                )
        if memref_of(self.source).element_type != memref_of(self.destination).element_type:
            raise VerifyException(f"a move keeps the element type, got {self.source.type} and {self.destination.type}")
        verify_width(self.elements, (self.source, self.destination))
        if self.is_async:
            self._verify_async()

    def _verify_async(self) -> None:
        if memory_of(self.source) is not None or memory_of(self.destination) is not Memory.SHARED:
            raise VerifyException(
                f"an async move is from global to shared memory, got {self.source.type} to {self.destination.type}"
            )
        element = memref_of(self.source).element_type
        if isinstance(element, AnyFloat | IntegerType):
            bytes = self.elements * max(1, element.bitwidth // 8)
            if bytes not in ASYNC_BYTES:
                raise VerifyException(f"an async move is of 4, 8 or 16 bytes, got {self.elements} {element}")


def verify_width(width: int, buffers: Sequence[SSAValue]) -> None:
    """Raises VerifyException unless one access moves so many elements, and the last dimension of buffers has them."""
    if width not in (1, 2, 4, 8, 16):
        raise VerifyException(f"the width must be 1, 2, 4, 8 or 16 elements, got {width}")
    for buffer in buffers:
        type = memref_of(buffer)
        last = type.get_shape()[last_dimension(type)] if type.get_shape() else 1
        if width > 1 and 0 <= last < width:
            raise VerifyException(f"the last dimension of {buffer.type} has no {width} elements to move")
