"""Declared syntax: every format compiles, and each when its operation is first used."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.utils.exceptions import ParseError

from deplodock.dialects.formats import op_definition
from deplodock.dialects.kernel import Kernel
from deplodock.dialects.loop import Loop
from deplodock.dialects.math_ext import MathExt
from deplodock.dialects.tensor import TensorExt
from deplodock.dialects.tile import Tile

OPERATIONS = [op for dialect in (TensorExt, MathExt, Loop, Tile, Kernel) for op in dialect.operations]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_formats_compile(op: type[Operation]) -> None:
    assert issubclass(op, IRDLOperation)
    definition = op.get_irdl_definition()
    if definition.assembly_format is None:
        assert op.print is not Operation.print
    else:
        FormatProgram.from_str(definition.assembly_format, definition)


def test_a_format_is_compiled_when_its_operation_is_used() -> None:
    @op_definition
    class UnknownDirectiveOp(IRDLOperation):
        name = "test.unknown_directive"
        assembly_format = "custom<Unknown>() attr-dict"

    with pytest.raises(ParseError, match="Custom directive Unknown cannot be found"):
        str(UnknownDirectiveOp())
