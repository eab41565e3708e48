"""How formulas are registered and get their arguments."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.parser import Parser

from deplodock.analysis.operations import position_of
from deplodock.dialects.torch.aten import SCHEMAS
from deplodock.passes.driver import new_context
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.passes.torch.lowering import lowerings, lowers
from deplodock.passes.torch.tensors import Tensor

BESIDE = {"name", "operands", "shape", "shapes", "element", "build"}
"""What a formula may ask for beside the parameters of the schema."""


@pytest.mark.parametrize("overload", lowerings())
def test_parameters_are_those_of_the_schema(overload: str) -> None:
    """A formula takes what the overload has; what it lacks has a default, as the last parameters of the formula."""
    formula = lowerings()[overload].formula
    wanted = [name for name in formula.__annotations__ if name != "return"]
    known = {parameter.name for parameter in SCHEMAS[overload].parameters}
    with_default = wanted[len(wanted) - len(formula.__defaults__ or ()) :]
    assert set(wanted) <= known | BESIDE | set(with_default)
    tensors = {parameter.name for parameter in SCHEMAS[overload].tensors}
    assert not [name for name in tensors & set(wanted) if "Tensor" not in formula.__annotations__[name]]


def test_an_overload_has_one_lowering() -> None:
    with pytest.raises(ValueError, match="relu has two lowerings: "):

        @lowers("relu")
        def twice(self: Tensor) -> Tensor:
            return self


def test_what_is_made_has_the_location_of_its_operation() -> None:
    """Scalar operations in regions, too: of a reduction of pairs, a conversion to truth, and a copied argument."""
    text = """
func.func @f(%x: tensor<3x4xbf16>, %w: tensor<4xbf16>) ->
  (tensor<3x4xbf16>, tensor<3xi64>, tensor<i1>, tensor<3x4xbf16>) {
  %y = torch.aten.rms_norm %x, %w {normalized_shape = [4]} : tensor<3x4xbf16>, tensor<4xbf16> -> tensor<3x4xbf16>
  %p = torch.aten.argmax %y {dim = 1} : tensor<3x4xbf16> -> tensor<3xi64>
  %a = torch.aten.any %y : tensor<3x4xbf16> -> tensor<i1>
  func.return %y, %p, %a, %x : tensor<3x4xbf16>, tensor<3xi64>, tensor<i1>, tensor<3x4xbf16>
}"""
    context = new_context()
    module = Parser(context, text).parse_module()
    (function,) = module.body.block.ops
    for line, op in enumerate(function.regions[0].block.ops, 1):
        op.location = FileLineColLoc(StringAttr("f.mlir"), IntAttr(line), IntAttr(3))
    DecomposePass().apply(context, module)
    lines = [int((position_of(op) or "f.mlir:0:0").split(":")[1]) for op in function.regions[0].walk()]
    assert set(lines) == {1, 2, 3, 4}
    assert lines == sorted(lines)
