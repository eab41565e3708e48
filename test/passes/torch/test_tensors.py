"""The operators of tensors insert operations, in the order in which Python evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects.tensor import ElementwiseOp
from deplodock.passes.torch.tensors import Tensor, TensorBuilder, where

Formula = Callable[..., Tensor]


def inserted(formula: Formula, *shapes: Sequence[int], element: Attribute = f32) -> list[str]:
    """What a formula on arguments of these shapes inserts: names of operations, of values, and numbers."""
    function = FuncOp("f", ([TensorType(element, shape) for shape in shapes], []))
    end = ReturnOp()
    function.body.block.add_op(end)
    module = ModuleOp([function])
    build = TensorBuilder(PatternRewriter(end), end.location)
    formula(*(Tensor(argument, build) for argument in function.args))
    module.verify()
    return [described(op) for op in function.body.block.ops if op is not end]


def described(op: object) -> str:
    match op:
        case ConstantOp(value=DenseIntOrFPElementsAttr() as value):
            return f"{value.get_values()[0]:g}"
        case ElementwiseOp():
            names = [inner.name for inner in op.body.block.ops][:-1]
            return " ".join([*names, *filter(None, [op.outputs[0].name_hint])])
        case _:
            return getattr(op, "name", "")


def leaky(x: Tensor) -> Tensor:
    scaled = (x * 0.5).named("scaled")
    return where(x > 0, x, scaled)


SPLAT = "tensor_ext.index_map"


def test_a_formula_with_names() -> None:
    wanted = ["0.5", SPLAT, "arith.mulf scaled", "0", SPLAT, "arith.cmpf", "arith.select"]
    assert inserted(leaky, [4]) == wanted


def test_numbers_on_the_left() -> None:
    assert inserted(lambda x: 1 / (2 - x), [4]) == ["2", SPLAT, "arith.subf", "1", SPLAT, "arith.divf"]


def test_integers_have_their_own_operations() -> None:
    assert inserted(lambda x: -x / 2, [4], element=i32) == ["0", SPLAT, "arith.subi", "2", SPLAT, "arith.divsi"]


def test_operands_broadcast_where_shapes_differ() -> None:
    assert inserted(lambda x, y: x + y, [3, 1], [4]) == [SPLAT, SPLAT, "arith.addf"]
    assert inserted(lambda x, y: x + y, [3, 4], [3, 4]) == ["arith.addf"]


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shapes \[3\] and \[4\] do not broadcast"):
        inserted(lambda x, y: x + y, [3], [4])


def test_a_reduction_of_no_dimension_keeps_the_name() -> None:
    """The value is that of another operation then."""
    names = inserted(lambda x: (x * x).named("square").sum([]), [4])
    assert names == ["arith.mulf square"]
