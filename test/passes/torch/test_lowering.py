"""How formulas are registered and get their arguments."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.utils.test_value import create_ssa_value

from deplodock.dialects.torch.aten import SCHEMAS
from deplodock.passes.torch.decompose import LOWERINGS
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.tensors import Tensor

BESIDE = {"name", "operands", "result", "build"}
"""What a formula may ask for beside the parameters of the schema."""


@pytest.mark.parametrize("overload", LOWERINGS)
def test_parameters_are_those_of_the_schema(overload: str) -> None:
    """A formula takes what the overload has; what it lacks has a default, as the last parameters of the formula."""
    formula = LOWERINGS[overload].formula
    wanted = [name for name in formula.__annotations__ if name != "return"]
    known = {parameter.name for parameter in SCHEMAS[overload].parameters}
    with_default = wanted[len(wanted) - len(formula.__defaults__ or ()) :]
    assert set(wanted) <= known | BESIDE | set(with_default)
    tensors = {parameter.name for parameter in SCHEMAS[overload].tensors}
    assert not [name for name in tensors & set(wanted) if "Tensor" not in formula.__annotations__[name]]


def test_an_overload_has_one_lowering() -> None:
    with pytest.raises(ValueError, match="relu has two lowerings"):

        @lowers("relu")
        def twice(self: Tensor) -> Tensor:
            return self


def test_operators_refuse_shapes_that_do_not_broadcast() -> None:
    values = [create_ssa_value(TensorType(f32, [n])) for n in (3, 4)]
    x, y = (Tensor(value, None) for value in values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shapes \[3\] and \[4\] do not broadcast"):
        x + y
