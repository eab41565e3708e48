"""A step after the other: a function of tensors whose results are what its next call is given."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import SymbolRefAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.formats import op_definition
from deplodock.dialects.tensor.indexing import element_of, shape_of, tensor_of


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
