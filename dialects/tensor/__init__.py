"""The `tensor_ext` dialect: tensor computation as elementwise, reduce, scan and index_map on `tensor` types.

These four, and `iota`, `gather`, `pad` and `concat`, express every ATen op of the torch dialect, so that other
frontends need nothing below this level; a recurrence calls a function of them for each step. A kernel, the unit that
fusion decides on, is a region of them. (The name `tensor` belongs to xDSL's builtin dialect of that name.)

    %sq  = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<32x2048xf32>
    %sum = tensor_ext.reduce {arith.addf} %sq dims [1] : tensor<32x2048xf32> -> tensor<32xf32>
    %pre = tensor_ext.scan {arith.addf} %sq dim 1 : tensor<32x2048xf32>
    %wb  = tensor_ext.index_map %w affine_map<(d0, d1) -> (d1)> : tensor<2048xf32> -> tensor<32x2048xf32>
    %col = tensor_ext.iota dim 1 : tensor<4x8xi64>
    %row = tensor_ext.gather %t at %i affine_map<(d0)[s0] -> (s0)> : tensor<9xf32> at tensor<4xi64> -> tensor<4xf32>
    %pad = tensor_ext.pad %x affine_map<(d0, d1) -> (d0, d1 - 1)> : tensor<32x2048xf32> -> tensor<32x2050xf32>
    %hs  = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<9x4xf32>) -> tensor<9x4xf32>
    %ab  = tensor_ext.concat %a, %b dim 0 : tensor<2x4xf32>, tensor<3x4xf32> -> tensor<5x4xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeAlias

from xdsl.dialects.builtin import (
    StringAttr,
    SymbolNameConstraint,
    TensorType,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects import scalar_regions
from deplodock.dialects.formats import op_definition, parse_attributes, parse_operands, parse_types
from deplodock.dialects.precision import verify_precision
from deplodock.dialects.tensor.folds import RecurrenceOp, ReduceOp, ScanOp, YieldOp, element_types
from deplodock.dialects.tensor.indexing import (
    ConcatOp,
    GatherOp,
    IndexMapOp,
    IotaOp,
    PadOp,
    element_of,
    shape_of,
    tensor_of,
)


@op_definition
class ElementwiseOp(IRDLOperation):
    """Applies a scalar computation at every index: result[i] = body(operand0[i], operand1[i], ...).

    All operands and results have one shape; a broadcast is an explicit `index_map`. The short form `{arith.mulf}`
    stands for a body of that one operation on its arguments in order.

        %sum = tensor_ext.elementwise {arith.addf} %x, %y : tensor<4xf32>
        %less = tensor_ext.elementwise %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1> (%a: f32, %b: f32) {
          %c = arith.cmpf olt, %a, %b : f32
          tensor_ext.yield %c : i1
        }
    """

    name = "tensor_ext.elementwise"
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region):
        super().__init__(operands=[inputs], result_types=[result_types], regions=[body])

    @staticmethod
    def of(op_class: type[Operation], *inputs: SSAValue, result_element: Attribute | None = None) -> ElementwiseOp:
        """The short form: one property-less scalar operation; the result has the inputs' element type unless given."""
        types = [tensor_of(value) for value in inputs]
        element = result_element or types[0].element_type
        body = scalar_regions.map_region(op_class, [type.element_type for type in types], element, YieldOp)
        return ElementwiseOp(inputs, [TensorType(element, types[0].get_shape())], body)

    def verify_(self) -> None:
        if not self.outputs:
            raise VerifyException("elementwise needs at least one result")
        shape = shape_of(self.outputs[0])
        for value in (*self.inputs, *self.outputs):
            if shape_of(value) != shape:
                raise VerifyException(
                    f"elementwise operands and results must have one shape, got {value.type} and"
                    f" {self.outputs[0].type}; broadcast with tensor_ext.index_map"
                )
        if [arg.type for arg in self.body.block.args] != [element_of(value) for value in self.inputs]:
            raise VerifyException("the body must take one scalar for each operand, of the operand's element type")
        _verify_yield(self.body, [element_of(value) for value in self.outputs])
        for op in self.body.block.ops:
            verify_precision(op)

    def print(self, printer: Printer) -> None:
        op = scalar_regions.mapped_op(self.body) if len(self.outputs) == 1 else None
        printer.print_string(" " if op is None else f" {{{op.name}}} ")
        printer.print_list(self.inputs, printer.print_operand)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : " if self.inputs else ": ")
        result_types = [value.type for value in self.outputs]
        if op is not None and all(value.type == result_types[0] for value in self.inputs):
            printer.print_attribute(result_types[0])
            return
        printer.print_list([value.type for value in self.inputs], printer.print_attribute)
        printer.print_string(" -> " if self.inputs else "-> ")
        printer.print_list(result_types, printer.print_attribute)
        if op is None:
            printer.print_string(" ")
            with printer.in_parens():
                scalar_regions.print_arguments(printer, self.body.block.args)
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ops = scalar_regions.parse_op_names(parser)
        if ops is not None and len(ops) != 1:
            parser.raise_error(
                "elementwise takes one operation in braces; write several as a region", ops[1].start, ops[-1].end
            )
        pos = parser.pos
        operands = parse_operands(parser)
        attributes = parse_attributes(parser)
        parser.parse_punctuation(":")
        type_pos = parser.pos
        types = parse_types(parser)
        if parser.parse_optional_punctuation("->"):
            results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        else:
            if ops is None or len(types) != 1:
                parser.raise_error("expected '->' and the result types")
            results = types
            types = types * len(operands)
        inputs = parser.resolve_operands(operands, types, pos)
        if ops is None:
            args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
            body = parser.parse_region(args)
        else:
            elements = element_types(parser, (*types, *results), type_pos)
            body = scalar_regions.parse_mapped(parser, ops[0], elements[: len(types)], elements[len(types)], YieldOp)
        op = cls(inputs, results, body)
        op.attributes |= attributes
        return op


@op_definition
class KernelOp(IRDLOperation):
    """The tensor computation of one kernel: a region on tensors whose yielded values are stored to memory.

    Fusion writes its decisions as these regions and keeps the ones it finds. The region sees its arguments only.

        %out = tensor_ext.kernel @k(%x0 = %x : tensor<4xf32>) -> tensor<4xf32> {
          %y = tensor_ext.elementwise {math.exp} %x0 : tensor<4xf32>
          tensor_ext.yield %y : tensor<4xf32>
        }
    """

    name = "tensor_ext.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    def __init__(self, name: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region):
        super().__init__(
            operands=[inputs],
            properties={"sym_name": StringAttr(name)},
            result_types=[result_types],
            regions=[body],
        )

    def verify_(self) -> None:
        if not self.outputs:
            raise VerifyException("a kernel needs at least one result")
        if [arg.type for arg in self.body.block.args] != [value.type for value in self.inputs]:
            raise VerifyException("the body must take one argument for each operand, of the operand's type")
        _verify_yield(self.body, [value.type for value in self.outputs])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(
                zip(self.body.block.args, self.inputs, strict=True), lambda pair: _print_binding(printer, *pair)
            )
        printer.print_string(" -> ")
        printer.print_list([value.type for value in self.outputs], printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_binding(parser))
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        attributes = parse_attributes(parser)
        body = parser.parse_region([argument for argument, _ in bindings])
        op = cls(name.data, [value for _, value in bindings], results, body)
        op.attributes |= attributes
        return op


def _print_binding(printer: Printer, argument: SSAValue, operand: SSAValue) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    printer.print_ssa_value(operand)
    printer.print_string(" : ")
    printer.print_attribute(operand.type)


def _parse_binding(parser: Parser) -> tuple[Parser.Argument, SSAValue]:
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    type = parser.parse_type()
    return argument.resolve(type), parser.resolve_operand(operand, type)


def _verify_yield(body: Region, types: Sequence[Attribute]) -> None:
    terminator = body.block.last_op
    if not isinstance(terminator, YieldOp) or [value.type for value in terminator.operands] != list(types):
        wanted = ", ".join(str(type) for type in types)
        raise VerifyException(f"the body must end with tensor_ext.yield of values of the types ({wanted})")


InMemory: TypeAlias = KernelOp | RecurrenceOp
"""What reads its operands from memory, and stores its results."""

TensorExt = Dialect(
    "tensor_ext",
    [ElementwiseOp, YieldOp, ReduceOp, ScanOp, IndexMapOp, IotaOp, GatherOp, PadOp, ConcatOp, KernelOp, RecurrenceOp],
    [],
)
