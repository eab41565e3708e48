"""Folds of values over the coordinates around them: scans, and what `tile.combine` shares with them.

A reduction with a body of its own is `loop.reduce`. Steps of a program are calls in a host function that run again and
again, on other parts of buffers:

loop.repeat %t = 0 to 511 {
  %before = loop.part %hs[%t] : memref<512x4xf32> -> memref<4xf32>
  %after = loop.part %hs[%t + 1] : memref<512x4xf32> -> memref<4xf32>
  func.call @cell(%before, %after) : (memref<4xf32>, memref<4xf32>) -> ()
}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from math import prod
from typing import ClassVar, Self, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i32,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects import scalar_regions
from deplodock.dialects.affine_syntax import verify_map
from deplodock.dialects.buffers import memory_of, verify_buffer
from deplodock.dialects.formats import op_definition, parse_body, print_body
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.interfaces import HostCode
from deplodock.dialects.loop.access import memref_of


@op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """The values of one iteration of a reduction, or of a combiner.

    loop.yield %a, %b : f32, f32
    """

    name = "loop.yield"
    traits = traits_def(IsTerminator(), Pure())


class ReadsActivity(MemoryEffect):
    """Depends on which points of its axes are active here, besides the operands.

    It is modelled as a read of the first axis: equal folds merge in one block, where the same points are active, but
    not with one in a loop around it.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        assert isinstance(op, AxisFold)
        return {EffectInstance(MemoryEffectKind.READ, axis) for axis in op.axes[:1]}


Made = TypeVar("Made", bound="AxisFold")
Maker: TypeAlias = Callable[[Sequence[SSAValue], Sequence[SSAValue], ArrayAttr[Attribute], Region], Made]
"""Makes an operation of its inputs, axes, identities and combiner."""


class AxisFold(IRDLOperation):
    """Folds values over the active points of axes, with a combiner of n accumulators, then n values."""

    inputs = var_operand_def()
    axes = var_operand_def(IndexType)
    identities = prop_def(ArrayAttr)
    outputs = var_result_def()
    combiner = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    WORD: ClassVar[str]
    """What stands before the axes."""

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        axes: Sequence[SSAValue],
        identities: ArrayAttr[Attribute],
        combiner: Region,
        *others: Sequence[SSAValue],
    ):
        super().__init__(
            operands=[inputs, axes, *others],
            properties={"identities": identities},
            result_types=[[value.type for value in inputs]],
            regions=[combiner],
        )

    def verify_(self) -> None:
        kind = self.name.partition(".")[2]
        types = [value.type for value in self.inputs]
        if not types or [value.type for value in self.outputs] != types:
            raise VerifyException(f"{kind} gives one result for each value, of the value's type")
        scalar_regions.verify_combiner(self.combiner, self.identities, types, YieldOp)
        if not self.axes or len(set(self.axes)) != len(self.axes):
            raise VerifyException(f"{kind} folds over one or more distinct axes")
        self.verify_axes()

    def verify_axes(self) -> None:
        """Check what the axes are. Raises VerifyException."""
        raise NotImplementedError

    def print(self, printer: Printer) -> None:
        with scalar_regions.print_combiner(printer, self.combiner, self.identities):
            printer.print_list(self.inputs, printer.print_operand)
            printer.print_string(f" {self.WORD} ")
            with printer.in_parens():
                printer.print_list(self.axes, printer.print_operand)
            self.print_options(printer)
            printer.print_op_attributes(self.attributes)
            printer.print_string(" : ")
            printer.print_list([value.type for value in self.inputs], printer.print_attribute)

    def print_options(self, printer: Printer) -> None:
        """Print what stands behind the axes."""

    @classmethod
    def parse_options(cls, parser: Parser) -> Maker[Self]:
        """Parse what stands behind the axes; what it returns makes the operation of what stands around that."""
        raise NotImplementedError

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ops = scalar_regions.parse_op_names(parser)
        pos = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword(cls.WORD)
        axes = [
            parser.resolve_operand(axis, IndexType())
            for axis in parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        ]
        make = cls.parse_options(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        inputs = parser.resolve_operands(values, types, pos)
        combiner, identities = scalar_regions.parse_combiner(parser, ops, types, YieldOp)
        op = make(inputs, axes, identities, combiner)
        op.attributes |= attributes
        return op


@op_definition
class ScanOp(AxisFold):
    """The prefixes of a reduction: at each point the fold of a value over the points up to this one, this included.

    The points are those of the axes, the last one fastest: variables of loops around the operation, outermost first,
    then axes of its launch. A value at an inactive point counts as the identity. With `exclusive` the point itself
    does not count, so that the first result is the identity. The combiner is as in loop.reduce; it is associative.

        %sum = loop.scan {arith.addf} %v along (%k) : f32
        %before = loop.scan {arith.addf} %v along (%i, %t) exclusive : f32
    """

    name = "loop.scan"
    exclusive = opt_prop_def(UnitAttr)
    traits = traits_def(ReadsActivity())

    WORD: ClassVar[str] = "along"

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        axes: Sequence[SSAValue],
        identities: ArrayAttr[Attribute],
        combiner: Region,
        *,
        exclusive: bool = False,
    ):
        super().__init__(inputs, axes, identities, combiner)
        self.exclusive = UnitAttr() if exclusive else None

    def run_along(self, axes: Sequence[SSAValue]) -> None:
        """Set the axes."""
        self.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(self.inputs), len(axes)])
        self.operands = [*self.inputs, *axes]

    def verify_axes(self) -> None:
        for axis in self.axes:
            around = axis.block.parent_op() if isinstance(axis, BlockArgument) else None
            if not isinstance(around, IntroducesIndices) or not around.is_ancestor(self):
                raise VerifyException("scan runs along variables of loops around it and axes of its launch only")

    def print_options(self, printer: Printer) -> None:
        if self.exclusive:
            printer.print_string(" exclusive")

    @classmethod
    def parse_options(cls, parser: Parser) -> Maker[Self]:
        return partial(cls, exclusive=parser.parse_optional_keyword("exclusive") is not None)


PART_BYTES = 16
"""Parts of buffers start at multiples of so many bytes, as all buffers do."""


@op_definition
class RepeatOp(IRDLOperation, IntroducesIndices):
    """Runs its body in a host function for every value of the induction variable, from 0 below a number, in order.

    loop.repeat %t = 0 to 511 {
    }
    """

    name = "loop.repeat"
    count = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(HostCode(), NoTerminator(), RecursiveMemoryEffect())

    def __init__(self, count: int, body: Region):
        super().__init__(properties={"count": IntegerAttr(count, IndexType())}, regions=[body])

    @property
    def iv(self) -> BlockArgument:
        """The induction variable."""
        return self.body.block.args[0]

    @property
    def trips(self) -> int:
        """The number of iterations."""
        return self.count.value.data

    def extent(self, index: SSAValue) -> int | None:
        return self.trips if index.owner is self.body.block else None

    def verify_(self) -> None:
        if [arg.type for arg in self.body.block.args] != [IndexType()]:
            raise VerifyException("the body of loop.repeat takes one argument, the induction variable of type index")
        if self.trips < 0:
            raise VerifyException(f"loop.repeat runs 0 times or more, not {self.trips}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.iv)
        printer.print_string(f" = 0 to {self.trips}")
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        iv = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        pos = parser.pos
        if parser.parse_integer(allow_boolean=False) != 0:
            parser.raise_error("a loop starts at 0; shift the subscripts instead", pos)
        parser.parse_keyword("to")
        count = parser.parse_integer(allow_boolean=False)
        body, attributes = parse_body(parser, [iv])
        op = cls(count, body)
        op.attributes |= attributes
        return op


@op_definition
class PartOp(IRDLOperation):
    """The part of a buffer that starts with one of its rows, as a buffer of its own shape; both are contiguous.

    A row is what has one subscript of the first dimension. The part starts at a multiple of 16 bytes.

        %after = loop.part %hs[%t + 1] : memref<512x4xf32> -> memref<2x2xf32>
    """

    name = "loop.part"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(HostCode(), Pure())
    assembly_format = (
        "$source custom<Subscript>($indices, $map) attr-dict `:` custom<Memref>(type($source))"
        " `->` custom<Memref>(type($result))"
    )

    def __init__(self, source: SSAValue, map: AffineMap, indices: Sequence[SSAValue], type: MemRefType[Attribute]):
        super().__init__(operands=[source, indices], properties={"map": AffineMapAttr(map)}, result_types=[type])

    @property
    def row(self) -> int:
        """The elements of a row."""
        return prod(memref_of(self.source).get_shape()[1:])

    @property
    def size(self) -> int:
        """The elements of the part."""
        return prod(memref_of(self.result).get_shape())

    def start(self, indices: Sequence[int]) -> int:
        """The number of the part's first element, for values of the indices.

        Raises:
            ValueError: the part is not inside the buffer then.
        """
        (first,) = self.map.data.eval([*indices], [])
        rows = memref_of(self.source).get_shape()[0]
        if first < 0 or first * self.row + self.size > rows * self.row:
            raise ValueError(f"the part from row {first} on is not inside of {self.source.type}")
        return first * self.row

    def verify_(self) -> None:
        source, result = memref_of(self.source), memref_of(self.result)
        for type, value in ((source, self.source), (result, self.result)):
            verify_buffer(type)
            if not type.has_static_shape() or memory_of(value) is not None:
                raise VerifyException(f"parts are of buffers of static shapes in global memory, got {type}")
        if source.element_type != result.element_type or not source.get_shape():
            raise VerifyException(f"a part of {source} has its element type, and starts with a row, got {result}")
        verify_map("the row", self.map.data, self.indices, results=1)
        if self.row * max(1, cast(FixedBitwidthType, source.element_type).size) % PART_BYTES:
            raise VerifyException(f"a row of {source} is no multiple of {PART_BYTES} bytes")
        if isinstance(self.map.data.results[0], AffineConstantExpr):
            try:
                self.start([])
            except ValueError as error:
                raise VerifyException(str(error)) from None


def whole(buffer: SSAValue) -> SSAValue:
    """The buffer of which a buffer is a part; itself if it is none."""
    while isinstance(buffer.owner, PartOp):
        buffer = buffer.owner.source
    return buffer
