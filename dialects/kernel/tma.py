"""Copies and stores of boxes by the tensor memory accelerator: `cp.async.bulk.tensor` of the PTX ISA, sm_90.

The host function describes a buffer and the box that one copy moves; one thread of a CTA issues the copy, and its bytes
complete on a phase of a barrier:

    %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
    kernel.launch @k(%map, %out) : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>, memref<64x96xf32>
    ..
    loop.guard where (%thread < 1) {
      kernel.arrive %full[0] expect 4096
      kernel.tma_load %map[%block * 32, 0] to %ws[0, 0] signal %full[0]
        : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<32x32xf32, #tile.memory<shared>>
    }
    kernel.wait_phase %full[0], 0

A store goes the other way. Its thread waits for its group, until the box has been read:

    kernel.fence_proxy_async
    kernel.barrier
    loop.guard where (%thread < 1) {
      kernel.tma_store %ys[0, 0] to %map[%block * 32, 0]
        : memref<32x32xf32, #tile.memory<shared>> to !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
    }
    kernel.tma_commit
    ..
    kernel.tma_wait 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    UnitAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import parse_i64, verify_map
from deplodock.dialects.buffers import Memory, SwizzleAttr, memory_of
from deplodock.dialects.elements import ROWS, listed
from deplodock.dialects.formats import TypePair, op_definition
from deplodock.dialects.interfaces import (
    Access,
    AccessEffects,
    DescribesBuffer,
    Feature,
    HostCode,
    Landing,
    NeedsFeature,
    Place,
    TouchesMemory,
    last_elements,
)
from deplodock.dialects.kernel.mbarrier import MbarrierType, verify_slot
from deplodock.dialects.kernel.order import (
    CompleteBytes,
    OrdersAccesses,
    OrdersSharedMemory,
)
from deplodock.dialects.kernel.sync import ClosesGroup, WaitsForGroups
from deplodock.dialects.loop.access import memref_of, verify_subscripts

MAX_RANK = 5
"""The most dimensions of a tensor map (CUDA driver API, `cuTensorMapEncodeTiled`)."""

MAX_BOX = 256
"""The most elements of a box along a dimension (ibid.)."""

BOX_UNIT_BYTES = 16
"""What the rows of a box and the strides of its buffer are multiples of, in bytes (ibid.)."""

ELEMENT_BYTES: dict[Attribute, int] = {row.type: row.bytes for row in ROWS if row.tensor_map is not None}
"""The bytes of the element types that a tensor map can have here."""


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute, DescribesBuffer):
    """`!kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128, tf32>`: a global buffer, and the box of a copy.

    With a swizzle, the rows of the box have as many bytes and land as in a buffer of layout `#tile.swizzle<128>`. With
    `tf32` elements, which are f32, land rounded to TF32, as `math_ext.round_tf32` does it.
    """

    name = "kernel.tensor_map"
    source: MemRefType
    box: ArrayAttr[IntegerAttr]
    swizzle: SwizzleAttr | NoneAttr
    tf32: UnitAttr | NoneAttr

    def __init__(
        self,
        source: MemRefType[Attribute],
        box: Sequence[int],
        swizzle: SwizzleAttr | None = None,
        *,
        is_tf32: bool = False,
    ):
        rounds = UnitAttr() if is_tf32 else NoneAttr()
        super().__init__(source, ArrayAttr([IntegerAttr(n, i64) for n in box]), swizzle or NoneAttr(), rounds)

    @property
    def is_tf32(self) -> bool:
        """Whether elements land rounded to TF32."""
        return isinstance(self.tf32, UnitAttr)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of the box, of the rank of the buffer."""
        return tuple(extent.value.data for extent in self.box)

    @property
    def bytes(self) -> int:
        """The bytes that one copy completes: the whole box, also where it lies outside of the buffer."""
        return math.prod(self.extents) * ELEMENT_BYTES[self.source.element_type]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.source)
            printer.print_string(f", box [{', '.join(map(str, self.extents))}]")
            if isinstance(self.swizzle, SwizzleAttr):
                printer.print_string(f", swizzle {self.swizzle.span}")
            if self.is_tf32:
                printer.print_string(", tf32")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pos = parser.pos
            source = parser.parse_type()
            if not isinstance(source, MemRefType):
                parser.raise_error(f"a tensor map is of a memref, got {source}", pos)
            parser.parse_punctuation(",")
            parser.parse_keyword("box")
            box = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_i64(parser))
            swizzle: Attribute = NoneAttr()
            tf32: Attribute = NoneAttr()
            while isinstance(tf32, NoneAttr) and parser.parse_optional_punctuation(","):
                if isinstance(swizzle, NoneAttr) and parser.parse_optional_keyword("swizzle"):
                    swizzle = SwizzleAttr(parse_i64(parser))
                else:
                    parser.parse_keyword("tf32")
                    tf32 = UnitAttr()
        return [cast(Attribute, source), ArrayAttr([IntegerAttr(n, i64) for n in box]), swizzle, tf32]


def verify_tensor_map(type: TensorMapType) -> None:
    """Check that the hardware has such a tensor map. Raises VerifyException, which says what to change."""
    source, box = type.source, type.extents
    shape, size = source.get_shape(), ELEMENT_BYTES.get(source.element_type)
    if size is None:
        raise VerifyException(
            f"a tensor map is of {listed(tuple(ELEMENT_BYTES))}, got {source.element_type}; copy without it"
        )
    if type.is_tf32 and source.element_type != f32:
        raise VerifyException(f"tf32 rounds elements of f32, got {source.element_type}; leave it out")
    is_global = isinstance(source.memory_space, NoneAttr) and isinstance(source.layout, NoneAttr)
    if not is_global or any(extent < 1 for extent in shape):
        raise VerifyException(f"a tensor map is of a contiguous global buffer of static shape, got {source}")
    if not 1 <= len(shape) <= MAX_RANK:
        raise VerifyException(f"a tensor map has 1 to {MAX_RANK} dimensions, {source} has {len(shape)}")
    if len(box) != len(shape):
        raise VerifyException(f"the box of {source} needs {len(shape)} extents, got {len(box)}")
    if not all(1 <= extent <= MAX_BOX for extent in box):
        raise VerifyException(f"a box has 1 to {MAX_BOX} elements along each dimension, got {list(box)}; split it")
    if box[-1] * size % BOX_UNIT_BYTES:
        raise VerifyException(
            f"the rows of a box are multiples of {BOX_UNIT_BYTES} bytes, "
            f"got {box[-1]} {source.element_type}; widen them"
        )
    if isinstance(type.swizzle, SwizzleAttr) and box[-1] * size != type.swizzle.span:
        raise VerifyException(
            f"a swizzle of {type.swizzle.span} bytes is for boxes with rows of as many, got {box[-1]} "
            f"{source.element_type}"
        )
    if len(shape) > 1 and shape[-1] * size % BOX_UNIT_BYTES:
        raise VerifyException(
            f"the rows of a buffer with a tensor map are multiples of {BOX_UNIT_BYTES} bytes, got {shape[-1]} "
            f"{source.element_type}; copy without it"
        )


class TensorMapOf(TypePair):
    """The type of a tensor map, and that of its buffer."""

    @staticmethod
    def read(parser: Parser) -> tuple[Attribute, Attribute]:
        pos = parser.pos
        type = parser.parse_type()
        if not isinstance(type, TensorMapType):
            parser.raise_error(f"expected a !kernel.tensor_map, got {type}", pos)
        return type, type.source


@op_definition
class TensorMapOp(IRDLOperation):
    """Describes boxes of a buffer to the hardware: 128 bytes that the host encodes and passes to the kernel by value.

    They hold the buffer's address, so a buffer that moves needs them encoded again.

        %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
    """

    name = "kernel.tensor_map"
    source = operand_def(MemRefType)
    result = result_def(TensorMapType)
    traits = traits_def(Pure(), HostCode())
    custom_directives = (TensorMapOf,)
    assembly_format = "$source attr-dict `:` custom<TensorMapOf>(type($result), type($source))"

    def __init__(self, source: SSAValue, type: TensorMapType):
        super().__init__(operands=[source], result_types=[type])

    def verify_(self) -> None:
        assert isinstance(self.result.type, TensorMapType)
        if self.result.type.source != self.source.type:
            raise VerifyException(f"the map of {self.source.type} cannot have the type {self.result.type}")
        verify_tensor_map(self.result.type)


@op_definition
class TmaLoadOp(IRDLOperation, TouchesMemory, OrdersAccesses, NeedsFeature):
    """Starts to copy the box of a tensor map that starts at these subscripts to shared memory, as one thread.

    The box lands row by row from the destination's element on, in whole rows of it, and its bytes complete on the
    current phase of a barrier, which must expect them. What lies outside of the buffer is zero, and counts. The box
    starts at a multiple of 128 bytes, a swizzled one at a multiple of 8 of its rows.

        kernel.tma_load %map[%k * 32, %block * 32] to %ws[%k mod 3, 0, 0] signal %full[%k mod 3]
          : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<3x32x32xf32, #tile.memory<shared>>
    """

    name = "kernel.tma_load"
    map = operand_def(TensorMapType)
    destination = operand_def(MemRefType)
    barrier = operand_def(MbarrierType)
    source_indices = var_operand_def(IndexType)
    destination_indices = var_operand_def(IndexType)
    slot_indices = var_operand_def(IndexType)
    source_map = prop_def(AffineMapAttr)
    destination_map = prop_def(AffineMapAttr)
    slot = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects(), OrdersSharedMemory())
    assembly_format = (
        "$map custom<Subscripts>($source_indices, $source_map)"
        " `to` $destination custom<Subscripts>($destination_indices, $destination_map)"
        " `signal` $barrier custom<Subscript>($slot_indices, $slot) attr-dict `:`"
        " type($map) `to` custom<Memref>(type($destination))"
    )

    def __init__(
        self,
        source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        destination: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        barrier: SSAValue,
        slot: Place,
    ):
        super().__init__(
            operands=[source[0], destination[0], barrier, source[2], destination[2], slot[1]],
            properties={
                "source_map": AffineMapAttr(source[1]),
                "destination_map": AffineMapAttr(destination[1]),
                "slot": AffineMapAttr(slot[0]),
            },
        )

    @property
    def tensor_map(self) -> TensorMapType:
        """The type of the map."""
        assert isinstance(self.map.type, TensorMapType)
        return self.map.type

    def accesses(self) -> list[Access]:
        """It reads a box of the buffer of the map, and writes one of the destination, which lands with the phase."""
        source = self.source_map.data, self.source_indices, self.tensor_map.extents
        filled = last_elements(memref_of(self.destination).get_shape(), math.prod(self.tensor_map.extents))
        destination = self.destination_map.data, self.destination_indices, filled
        return [
            Access(self, self.map, False, *source, lands=Landing.PHASE, by_proxy=True),
            Access(self, self.destination, True, *destination, lands=Landing.PHASE, by_proxy=True),
        ]

    def order(self) -> CompleteBytes:
        """The bytes of the box complete on the current phase."""
        return CompleteBytes(self.barrier, (self.slot.data, self.slot_indices), self.tensor_map.bytes)

    def needs(self) -> Feature:
        """Copies of boxes."""
        return Feature.BOXES

    def verify_(self) -> None:
        verify_slot(self.barrier, (self.slot.data, self.slot_indices))
        _verify_box(self.tensor_map, (self.source_map.data, self.source_indices), self.destination)
        verify_subscripts(self.destination, self.destination_map.data, self.destination_indices)


@op_definition
class TmaStoreOp(IRDLOperation, TouchesMemory, NeedsFeature):
    """Starts to store a box in shared memory to that of a tensor map which starts at these subscripts, as one thread.

    It lies in memory as `kernel.tma_load` lands one. What lies outside of the buffer is not stored. The asynchronous
    proxy reads the box, so the threads that wrote it fence that before they hand it over. It is being read until a
    `kernel.tma_wait` of its thread for its group; what it stores is in memory when the kernel has ended.

        kernel.tma_store %ys[0, 0] to %map[%block * 32, %n * 32]
          : memref<32x32xf32, #tile.memory<shared>> to !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
    """

    name = "kernel.tma_store"
    source = operand_def(MemRefType)
    map = operand_def(TensorMapType)
    source_indices = var_operand_def(IndexType)
    destination_indices = var_operand_def(IndexType)
    source_map = prop_def(AffineMapAttr)
    destination_map = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects(), OrdersSharedMemory())
    assembly_format = (
        "$source custom<Subscripts>($source_indices, $source_map)"
        " `to` $map custom<Subscripts>($destination_indices, $destination_map) attr-dict `:`"
        " custom<Memref>(type($source)) `to` type($map)"
    )

    def __init__(
        self,
        source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
        destination: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
    ):
        super().__init__(
            operands=[source[0], destination[0], source[2], destination[2]],
            properties={"source_map": AffineMapAttr(source[1]), "destination_map": AffineMapAttr(destination[1])},
        )

    @property
    def tensor_map(self) -> TensorMapType:
        """The type of the map."""
        assert isinstance(self.map.type, TensorMapType)
        return self.map.type

    def accesses(self) -> list[Access]:
        """It reads a box of the source until its group is waited for, and writes one of the buffer of the map."""
        read = last_elements(memref_of(self.source).get_shape(), math.prod(self.tensor_map.extents))
        source = self.source_map.data, self.source_indices, read
        destination = self.destination_map.data, self.destination_indices, self.tensor_map.extents
        return [
            Access(self, self.source, False, *source, lands=Landing.STORE, by_proxy=True),
            Access(self, self.map, True, *destination, lands=Landing.STORE, by_proxy=True),
        ]

    def needs(self) -> Feature:
        """Copies of boxes."""
        return Feature.BOXES

    def verify_(self) -> None:
        if self.tensor_map.is_tf32:
            raise VerifyException("a store keeps all bits, which a map with tf32 does not; leave it out")
        _verify_box(self.tensor_map, (self.destination_map.data, self.destination_indices), self.source)
        verify_subscripts(self.source, self.source_map.data, self.source_indices)


@op_definition
class TmaCommitOp(ClosesGroup, NeedsFeature):
    """Closes the group of stores of boxes that this thread has started since its last group; it may be empty.

    kernel.tma_commit
    """

    name = "kernel.tma_commit"
    OF: ClassVar[Landing] = Landing.STORE

    def needs(self) -> Feature:
        """Copies of boxes."""
        return Feature.BOXES


@op_definition
class TmaWaitOp(WaitsForGroups, NeedsFeature):
    """Waits until the boxes of all groups of stores of this thread but the `pending` last ones have been read.

    Other threads may write there after a barrier. A kernel must not end before.

        kernel.tma_wait 0
    """

    name = "kernel.tma_wait"
    OF: ClassVar[Landing] = Landing.STORE

    def needs(self) -> Feature:
        """Copies of boxes."""
        return Feature.BOXES


def _verify_box(type: TensorMapType, place: Place, shared: SSAValue) -> None:
    """Check that a box of a tensor map, which starts at a place, lies in a shared buffer. Raises VerifyException."""
    buffer = memref_of(shared)
    verify_tensor_map(type)
    verify_map("the subscripts of the map", *place, results=len(type.extents))
    if memory_of(shared) is not Memory.SHARED or buffer.layout not in (NoneAttr(), type.swizzle):
        raise VerifyException(f"a box lies in a contiguous buffer in #tile.memory<shared>, got {buffer}")
    if buffer.layout != type.swizzle:
        raise VerifyException(f"the swizzle of {type} must be that of its buffer in shared memory, got {buffer}")
    if type.source.element_type != buffer.element_type:
        raise VerifyException(f"a copy keeps the element type, got {type.source} and {buffer}")
    box = [extent for extent in type.extents if extent > 1]
    filled = [extent for extent in buffer.get_shape() if extent > 1][-len(box) :]
    if len(filled) < len(box) or box[1:] != filled[1:] or box[:1] > filled[:1]:
        raise VerifyException(
            f"a box of {list(type.extents)} fills rows of the last dimensions of its buffer, got {buffer}"
        )
