"""Folds of values over the coordinates around them: scans, and what `tile.combine` shares with them.

A reduction with a body of its own is `loop.reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import ClassVar, Self, TypeAlias, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IndexType, UnitAttr, i32
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, IsTerminator, MemoryEffect, MemoryEffectKind, Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects import scalar_regions
from deplodock.dialects.formats import op_definition
from deplodock.dialects.index_values import IntroducesIndices


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
