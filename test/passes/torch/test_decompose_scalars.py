"""Operations that take a dimension, on tensors that have none: what PyTorch gives, or one message."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region
from xdsl.utils.exceptions import DiagnosticException

from deplodock.dialects.torch import AtenOp, aten_op, attribute_of
from deplodock.dialects.torch.aten import SCHEMAS
from deplodock.dialects.torch.schema import OWN_ELEMENTS, Parameter, Schema, TypeRule
from deplodock.passes.torch.decompose import DecomposePass

torch = pytest.importorskip("torch")
F = torch.nn.functional

CASES: dict[str, Callable[[Any], Any]] = {
    "unfold": lambda x: (x.unfold(0, 1, 1), x.unfold(-1, 1, 3), x.unfold(0, 0, 2), torch.unfold_copy(x, 0, 1, 1)),
    "transpose": lambda x: (x.transpose(0, -1), x.permute(()), x.movedim(0, -1), x.swapaxes(-1, 0), x.t()),
    "flip": lambda x: (x.flip(0), x.flip(-1), x.flip(()), x.roll(3)),
    "squeeze": lambda x: (x.squeeze(0), x.squeeze(-1), x.squeeze((0,)), x.unsqueeze(-1), x.unsqueeze(0)),
    "reduction": lambda x: (x.sum(0), x.sum(-1, keepdim=True), x.prod(0), x.amax(-1, keepdim=True), x.amin(())),
    "float reduction": lambda x: (x.float().mean(0), x.float().var(0, correction=0), x.float().logsumexp(-1)),
    "norm": lambda x: (torch.linalg.vector_norm(x.float(), dim=0), F.normalize(x.float(), dim=0)),
    "any": lambda x: (x.any(0), x.all(-1, keepdim=True), x.any((0,)), torch.all(x, dim=())),
    "position": lambda x: (x.argmax(0), x.argmin(-1, keepdim=True), x.max(0), x.min(-1, keepdim=True)),
    "softmax": lambda x: (x.float().softmax(0), x.float().log_softmax(-1), F.softmin(x.float(), 0)),
    "cumulative": lambda x: (x.cumsum(0), x.cumprod(-1)),
    "index_select": lambda x: (x.index_select(0, torch.tensor([0])), x.index_select(-1, torch.tensor(0))),
    "gather": lambda x: (x.gather(0, torch.tensor(0)), x.gather(0, torch.tensor([0, 0])), x.take(torch.tensor([0, 0]))),
    "stack": lambda x: (torch.stack([x, x], -1), torch.hstack([x, x]), torch.column_stack([x, x])),
    "repeat": lambda x: (x.repeat(2), x.repeat(()), x.tile((2, 1)), x.repeat_interleave(3), x.expand(2, 3)),
    "flatten": lambda x: (x.flatten(0, -1), x.ravel(), x.diagflat(), torch.block_diag(x, x), torch.atleast_3d(x)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("value", [1.5, 2, -3], ids=str)
def test_equals_torch(check_with_torch: Callable[..., set[str]], name: str, value: float) -> None:
    check_with_torch(CASES[name], torch.tensor(value))


DIMENSIONS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")
TAKES_A_DIMENSION = [name for name, schema in SCHEMAS.items() if any(p.name in DIMENSIONS for p in schema.parameters)]
GIVEN = {"size": 1, "step": 1, "split_size": 1, "split_sizes": [1], "repeats": 1, "index": 0, "shifts": [1]}


@pytest.mark.parametrize("name", [*TAKES_A_DIMENSION, "index.Tensor"])
@pytest.mark.parametrize("dim", [0, -1, 1])
def test_text_that_names_a_dimension_of_a_scalar(name: str, dim: int) -> None:
    """An operation of every overload that takes a dimension lowers, or is refused in one message."""
    schema = SCHEMAS[name]
    element = schema.elements[0] if schema.rule is not TypeRule.COMPARE else f32
    arguments: dict[str, Any] = {}
    block = Block()
    for parameter in schema.parameters:
        if parameter.is_tensor:
            own = OWN_ELEMENTS[parameter.name][-1] if parameter.name in OWN_ELEMENTS else element
            tensor = block.insert_arg(TensorType(own, []), len(block.args))
            arguments[parameter.name] = [tensor] if parameter.is_list else tensor
        elif not parameter.is_storage and (attribute := property_of(parameter, dim)) is not None:
            arguments[parameter.name] = attribute
    op_class = aten_op(name)
    assert op_class is not None
    op = op_class.of(arguments, [TensorType(kind, []) for kind in result_elements(schema, element)])
    block.add_ops([op, ReturnOp(*op.outputs)])
    types = [arg.type for arg in block.args], [result.type for result in op.outputs]
    module = ModuleOp([FuncOp("main", types, Region(block))])
    with suppress(DiagnosticException):
        module.verify()
        DecomposePass().apply(Context(), module)
        assert not [inner for inner in module.walk() if isinstance(inner, AtenOp)]


def property_of(parameter: Parameter, dim: int) -> Attribute | None:
    """The property for a parameter that is no tensor: `dim` for a dimension, else some value if it needs one."""
    if parameter.name in DIMENSIONS:
        return attribute_of([dim] if parameter.kind.endswith("[]") else dim, parameter.kind)
    if parameter.name in GIVEN:
        return attribute_of(GIVEN[parameter.name], parameter.kind)
    return None if parameter.has_default or parameter.optional else attribute_of(1, parameter.kind)


def result_elements(schema: Schema, element: Attribute) -> list[Attribute]:
    count = max(1, schema.text.rpartition(" -> ")[2].count("Tensor"))
    found = [schema.result_elements(position) for position in range(count)]
    return [element if element in elements else elements[-1] for elements in found]
