"""The operations of the `tensor_ext` dialect that fold elements with a combiner, and what its regions yield.

A recurrence is a step after the other: a function of tensors whose results are what its next call is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Operation, Region, SSAValue
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
from xdsl.traits import IsTerminator, Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects import scalar_regions
from deplodock.dialects.affine_syntax import parse_i64
from deplodock.dialects.formats import op_definition, parse_attributes
from deplodock.dialects.tensor.indexing import element_of, shape_of, tensor_of


@op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """The values of a tensor_ext region: scalars of a body or combiner, tensors of a kernel.

    tensor_ext.yield %v : f32
    """

    name = "tensor_ext.yield"
    traits = traits_def(IsTerminator(), Pure())


@op_definition
class ReduceOp(IRDLOperation):
    """Folds dimensions away with a combiner: result[i] = fold of the operands over all indices of `dims` at i.

    The n operands share one shape; the combiner takes n accumulators, then n values, and is total on the identities.
    The fold over an empty range is the identity.

        %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
        %odd = tensor_ext.reduce %x dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
          combine (%a: f32, %b: f32) identity [1.0 : f32] {
          %c = arith.mulf %a, %b : f32
          tensor_ext.yield %c : f32
        }
    """

    name = "tensor_ext.reduce"
    inputs = var_operand_def(TensorType)
    dims = prop_def(DenseArrayBase.constr(i64))
    identities = prop_def(ArrayAttr)
    outputs = var_result_def(TensorType)
    combiner = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(
        self, inputs: Sequence[SSAValue], dims: Sequence[int], identities: ArrayAttr[Attribute], combiner: Region
    ):
        super().__init__(
            operands=[inputs],
            properties={"dims": DenseArrayBase.from_list(i64, dims), "identities": identities},
            result_types=[[_reduced_type(tensor_of(value), dims) for value in inputs]],
            regions=[combiner],
        )

    @staticmethod
    def of(op_class: type[Operation], input: SSAValue, dims: Sequence[int]) -> ReduceOp:
        """The short form. Raises ValueError if the operation has no identity on the element type."""
        return ReduceOp([input], dims, *scalar_regions.short_form(op_class, element_of(input), YieldOp))

    @property
    def reduced(self) -> tuple[int, ...]:
        """The dimensions folded away, ascending."""
        return self.dims.get_values()

    def verify_(self) -> None:
        _verify_operands("reduce", self.inputs)
        rank = len(shape_of(self.inputs[0]))
        if list(self.reduced) != sorted(set(self.reduced)) or any(not 0 <= d < rank for d in self.reduced):
            raise VerifyException(
                f"dims must be ascending, distinct and below the rank {rank}, got {list(self.reduced)}"
            )
        if len(self.outputs) != len(self.inputs):
            raise VerifyException(
                f"reduce gives one result for each operand, got {len(self.outputs)} for {len(self.inputs)} operands"
            )
        for value, result in zip(self.inputs, self.outputs, strict=True):
            wanted = _reduced_type(tensor_of(value), self.reduced)
            if result.type != wanted:
                raise VerifyException(
                    f"reducing dims {list(self.reduced)} of {value.type} gives {wanted}, not {result.type}"
                )
        elements = [element_of(value) for value in self.inputs]
        scalar_regions.verify_combiner(self.combiner, self.identities, elements, YieldOp)

    def print(self, printer: Printer) -> None:
        with scalar_regions.print_combiner(printer, self.combiner, self.identities):
            printer.print_list(self.inputs, printer.print_operand)
            printer.print_string(" dims ")
            with printer.in_square_brackets():
                printer.print_list(self.reduced, printer.print_int)
            printer.print_op_attributes(self.attributes, print_keyword=True)
            printer.print_string(" : ")
            printer.print_list([value.type for value in self.inputs], printer.print_attribute)
            printer.print_string(" -> ")
            printer.print_list([value.type for value in self.outputs], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ops = scalar_regions.parse_op_names(parser)
        pos = parser.pos
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword("dims")
        dims = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_i64(parser))
        attributes = parse_attributes(parser)
        parser.parse_punctuation(":")
        type_pos = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        inputs = parser.resolve_operands(operands, types, pos)
        elements = element_types(parser, (*types, *results), type_pos)[: len(types)]
        combiner, identities = scalar_regions.parse_combiner(parser, ops, elements, YieldOp)
        return cls.create(
            operands=inputs,
            result_types=results,
            properties={"dims": DenseArrayBase.from_list(i64, dims), "identities": identities},
            attributes=attributes,
            regions=[combiner],
        )


@op_definition
class ScanOp(IRDLOperation):
    """The prefixes of a fold along one dimension: result[.., i, ..] = fold of the operands over all j <= i there.

    With `exclusive` it is over all j < i, and the first result the identity; with `reverse` over all j >= i, or j > i.
    Operands, combiner and identities are those of `tensor_ext.reduce`, and the results have the operands' types. The
    combiner is associative.

        %sums = tensor_ext.scan {arith.addf} %x dim 1 : tensor<4x8xf32>
        %before = tensor_ext.scan {arith.addi} %n dim 0 exclusive : tensor<4xi64>
        %product = tensor_ext.scan %x dim 0 reverse : tensor<8xf32>
          combine (%a: f32, %b: f32) identity [1.0 : f32] {
          %c = arith.mulf %a, %b : f32
          tensor_ext.yield %c : f32
        }
    """

    name = "tensor_ext.scan"
    inputs = var_operand_def(TensorType)
    dim = prop_def(IntegerAttr[I64])
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)
    identities = prop_def(ArrayAttr)
    outputs = var_result_def(TensorType)
    combiner = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        dim: int,
        identities: ArrayAttr[Attribute],
        combiner: Region,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ):
        super().__init__(
            operands=[inputs],
            properties={
                "dim": IntegerAttr(dim, i64),
                "exclusive": UnitAttr() if exclusive else None,
                "reverse": UnitAttr() if reverse else None,
                "identities": identities,
            },
            result_types=[[value.type for value in inputs]],
            regions=[combiner],
        )

    @staticmethod
    def of(op_class: type[Operation], input: SSAValue, dim: int) -> ScanOp:
        """The short form. Raises ValueError if the operation has no identity on the element type."""
        return ScanOp([input], dim, *scalar_regions.short_form(op_class, element_of(input), YieldOp))

    def verify_(self) -> None:
        _verify_operands("scan", self.inputs)
        rank = len(shape_of(self.inputs[0]))
        if not 0 <= self.dim.value.data < rank:
            raise VerifyException(f"dim must be below the rank {rank}, got {self.dim.value.data}")
        if [value.type for value in self.outputs] != [value.type for value in self.inputs]:
            raise VerifyException("scan gives one result for each operand, of the operand's type")
        elements = [element_of(value) for value in self.inputs]
        scalar_regions.verify_combiner(self.combiner, self.identities, elements, YieldOp)

    def print(self, printer: Printer) -> None:
        with scalar_regions.print_combiner(printer, self.combiner, self.identities):
            printer.print_list(self.inputs, printer.print_operand)
            printer.print_string(f" dim {self.dim.value.data}")
            printer.print_string(f"{' exclusive' if self.exclusive else ''}{' reverse' if self.reverse else ''}")
            printer.print_op_attributes(self.attributes, print_keyword=True)
            printer.print_string(" : ")
            printer.print_list([value.type for value in self.inputs], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ops = scalar_regions.parse_op_names(parser)
        pos = parser.pos
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword("dim")
        dim = parse_i64(parser)
        exclusive = parser.parse_optional_keyword("exclusive") is not None
        reverse = parser.parse_optional_keyword("reverse") is not None
        attributes = parse_attributes(parser)
        parser.parse_punctuation(":")
        type_pos = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        inputs = parser.resolve_operands(operands, types, pos)
        elements = element_types(parser, types, type_pos)
        combiner, identities = scalar_regions.parse_combiner(parser, ops, elements, YieldOp)
        op = cls(inputs, dim, identities, combiner, exclusive=exclusive, reverse=reverse)
        op.attributes |= attributes
        return op


def _verify_operands(kind: str, inputs: Sequence[SSAValue]) -> None:
    """Check that there are operands, all of one shape. Raises VerifyException."""
    if not inputs:
        raise VerifyException(f"{kind} needs at least one operand")
    source = tensor_of(inputs[0])
    for value in inputs:
        if shape_of(value) != source.get_shape():
            raise VerifyException(f"{kind} operands must have one shape, got {source} and {tensor_of(value)}")


def element_types(parser: Parser, types: Sequence[Attribute], pos: int) -> list[Attribute]:
    """The element types of types that must be tensors; `pos` is where they start in the text."""
    for type in types:
        if not isinstance(type, TensorType):
            parser.raise_error(f"expected tensor types, got {type}", pos)
    return [element_of(type) for type in types]


def _reduced_type(type: TensorType[Attribute], dims: Sequence[int]) -> TensorType[Attribute]:
    """The type of `type` with the dimensions `dims` dropped."""
    return TensorType(type.element_type, [n for d, n in enumerate(type.get_shape()) if d not in dims])


class _CallsCell(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, RecurrenceOp)
        cell = SymbolTable.lookup_symbol(op, op.cell)
        if not isinstance(cell, FuncOp):
            raise VerifyException(f"the module does not define the function {op.cell}")
        if list(cell.function_type.inputs) != op.cell_inputs or list(cell.function_type.outputs) != op.cell_outputs:
            inputs, outputs = (", ".join(map(str, types)) for types in (op.cell_inputs, op.cell_outputs))
            raise VerifyException(f"{op.cell} must be a function of ({inputs}) to ({outputs})")


@op_definition
class RecurrenceOp(IRDLOperation):
    """Calls a function for each step in order: its results are the first arguments of the next call.

    The cell takes the values that are carried, at first those `from` which they start; then a row of each tensor of
    `each`, that of the step; then what is the same in all steps, `with`. It gives the values that are carried on. A
    result of the operation is the sequence of one of them: a row for each step, of which the last is the last value.

        %hs = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<9x4xf32>)
              with (%w : tensor<4x4xf32>) -> tensor<9x4xf32>
    """

    name = "tensor_ext.recurrence"
    cell = prop_def(SymbolRefAttr)
    carried = var_operand_def(TensorType)
    each = var_operand_def(TensorType)
    fixed = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure(), _CallsCell())
    assembly_format = (
        "$cell `from` ` ` `(` $carried `:` type($carried) `)` (`each` ` ` `(` $each^ `:` type($each) `)`)?"
        " (`with` ` ` `(` $fixed^ `:` type($fixed) `)`)? attr-dict `->` type($outputs)"
    )

    def __init__(
        self, cell: str, steps: int, carried: Sequence[SSAValue], each: Sequence[SSAValue], fixed: Sequence[SSAValue]
    ):
        super().__init__(
            operands=[carried, each, fixed],
            properties={"cell": SymbolRefAttr(cell)},
            result_types=[[TensorType(element_of(value), (steps, *shape_of(value))) for value in carried]],
        )

    @property
    def steps(self) -> int:
        """How often the cell is called."""
        return shape_of(self.outputs[0])[0]

    @property
    def cell_inputs(self) -> list[TensorType]:
        """The types of the cell's arguments."""
        rows = [TensorType(element_of(value), shape_of(value)[1:]) for value in self.each]
        return [*map(tensor_of, self.carried), *rows, *map(tensor_of, self.fixed)]

    @property
    def cell_outputs(self) -> list[TensorType]:
        """The types of the cell's results."""
        return [*map(tensor_of, self.carried)]

    def verify_(self) -> None:
        if not self.outputs or len(self.outputs) != len(self.carried):
            raise VerifyException("a recurrence carries one value or more, and has a result for each")
        if not all(shape_of(value) for value in (*self.outputs, *self.each)) or not self.steps:
            raise VerifyException("the first dimension of results, and of what each step takes a row, is the steps'")
        for value, start in zip(self.outputs, self.carried, strict=True):
            if value.type != TensorType(element_of(start), (self.steps, *shape_of(start))):
                raise VerifyException(f"the result {value.type} must have {self.steps} rows of {start.type}")
        for value in self.each:
            if shape_of(value)[0] != self.steps:
                raise VerifyException(f"{value.type} must have a row for each of {self.steps} steps")
