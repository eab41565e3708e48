"""Products summed over axes of a launch by an engine: the operation that moves data between lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, IndexType, IntegerType, StringAttr
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.tile.slab import Places, parse_axis


@irdl_op_definition
class ContractOp(IRDLOperation):
    """Adds up the products of two factors over all points of launch axes, by an engine such as a tensor core.

    The right factor is taken where each axis named after `at` has the value of a form over axes of the result, or over
    those that are folded: so an engine whose factors and result lie in other lanes is told apart from a plain sum.
    Products are exact. Sums of floats are FP32 in an order and rounding that the engine fixes; those of integers wrap,
    so they are the same in any order. Several pairs of factors are summed in order.

    Engines read f32 as TF32, without its last 13 bits, so that is what `deplodock.precision = "medium"` means here.
    Factors may be rounded to TF32 before that, but for those of several pairs, which are parts of others.
    With `high` factors count whole, which no engine does: split-factors makes sums of products of parts of that.

        %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
    """

    name = "tile.contract"
    lhs = var_operand_def()
    rhs = var_operand_def()
    axes = var_operand_def(IndexType)
    moved = var_operand_def(IndexType)
    place_axes = var_operand_def(IndexType)
    engine = prop_def(StringAttr)
    places = prop_def(AffineMapAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self,
        engine: str,
        pairs: Sequence[tuple[SSAValue, SSAValue]],
        axes: Sequence[SSAValue],
        at: Places,
        type: Attribute,
    ):
        lhs, rhs = [one for one, _ in pairs], [other for _, other in pairs]
        super().__init__(
            operands=[lhs, rhs, axes, at.moved, at.axes],
            properties={"engine": StringAttr(engine), "places": AffineMapAttr(at.map)},
            result_types=[type],
        )

    @property
    def pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """The pairs of factors, in the order in which their products are added."""
        return list(zip(self.lhs, self.rhs, strict=True))

    @property
    def at(self) -> Places:
        """Where the right factor is taken."""
        return Places(self.moved, self.places.data, self.place_axes)

    def verify_(self) -> None:
        if not self.lhs or len(self.lhs) != len(self.rhs):
            raise VerifyException(f"contract adds pairs of factors, got {len(self.lhs)} left and {len(self.rhs)} right")
        for side in (self.lhs, self.rhs):
            if any(value.type != side[0].type for value in side):
                raise VerifyException("all left factors of a contract have one type, and all right ones")
        types = (self.lhs[0].type, self.rhs[0].type, self.result.type)
        if not any(all(isinstance(type, kind) for type in types) for kind in (AnyFloat, IntegerType)):
            raise VerifyException("contract adds products of floats to a float, or of integers to an integer")
        if not self.axes:
            raise VerifyException("contract folds one or more axes")
        for axis in (*self.axes, *self.moved, *self.place_axes):
            if not isinstance(axis, BlockArgument) or getattr(axis.block.parent_op(), "name", "") != "tile.launch":
                raise VerifyException("contract works on axes of the enclosing tile.launch only")
        self.at.verify(self.axes, "contract", over_folded=True)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.engine.data} ")

        def print_pair(pair: tuple[SSAValue, SSAValue]) -> None:
            printer.print_operand(pair[0])
            printer.print_string(" * ")
            printer.print_operand(pair[1])

        printer.print_list(self.pairs, print_pair, " + ")
        printer.print_string(" over ")
        with printer.in_parens():
            printer.print_list(self.axes, printer.print_operand)
        self.at.print(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([self.lhs[0].type, self.rhs[0].type], printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        engine, pos = parser.parse_identifier(), parser.pos
        pairs = [_parse_pair(parser)]
        while parser.parse_optional_punctuation("+"):
            pairs.append(_parse_pair(parser))
        parser.parse_keyword("over")
        axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_axis(parser))
        at = Places.parse(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        left = parser.parse_type()
        parser.parse_punctuation(",")
        right = parser.parse_type()
        parser.parse_punctuation("->")
        count = len(pairs)
        lhs = parser.resolve_operands([one for one, _ in pairs], [left] * count, pos)
        rhs = parser.resolve_operands([other for _, other in pairs], [right] * count, pos)
        op = cls(engine, list(zip(lhs, rhs, strict=True)), axes, at, parser.parse_type())
        op.attributes |= attributes
        return op


def _parse_pair(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    left = parser.parse_unresolved_operand()
    parser.parse_punctuation("*")
    return left, parser.parse_unresolved_operand()
