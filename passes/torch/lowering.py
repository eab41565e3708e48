"""How a formula on tensors becomes the lowering of ATen operations: its arguments, and what becomes of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects.elements import FLOATS, INTEGERS, WIDE
from deplodock.dialects.precision import precision_of
from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.dialects.torch.aten import WIDE_NUMBERS
from deplodock.dialects.torch.schema import OWN_ELEMENTS
from deplodock.loading import loaded
from deplodock.passes.remarks import failure
from deplodock.passes.torch.scalars import wrapped
from deplodock.passes.torch.tensors import Tensor, TensorBuilder, broadcast

_NUMBERS = ("self", "other", "alpha", "min", "max", "min_val", "max_val")
"""Parameters whose numbers PyTorch converts to the element type before it computes."""

_Formula = TypeVar("_Formula", bound=Callable[..., Tensor | Sequence[Tensor]])


@dataclass(frozen=True)
class Lowering:
    """A formula, and in which form it takes its tensors."""

    formula: Callable[..., Tensor | Sequence[Tensor]]
    broadcasts: bool
    widens: bool

    def arguments(self, op: AtenOp, build: TensorBuilder) -> dict[str, Any]:
        """The arguments of the formula for an operation, by its annotations."""
        kinds = {name: kind for name, kind in self.formula.__annotations__.items() if name != "return"}
        beside = {
            "name": op.schema().name.partition(".")[0],
            "operands": [Tensor(value, build) for value in op.tensors],
            "shape": op.tensor_type.get_shape(),
            "shapes": [shape_of(output) for output in op.outputs],
            "element": op.tensor_type.element_type,
            "build": build,
        }
        given: dict[str, Any] = {name: value for name, value in beside.items() if name in kinds}
        given |= {name: _argument(op, name, build) for name in kinds if op.has(name)}
        if self.broadcasts:
            operands = {name: given[name] for name, kind in kinds.items() if kind == "Tensor"}
            given |= _broadcast(operands, op.tensor_type.element_type, build)
        return given


FAMILIES = (
    *("elementwise", "matmul", "reductions", "shapes", "normalizations", "comparisons", "indexing", "creation"),
    *("division", "attention", "windows", "recurrences"),
)
"""The files whose functions lower all operations, in the order in which they are looked through."""

_LOWERINGS: dict[str, Lowering] = {}
"""The lowering of each overload of the families that have been looked through."""


def lowering_of(overload: str) -> Lowering | None:
    """The lowering of an overload; None if no family has one."""
    for family in FAMILIES:
        if overload in _LOWERINGS:
            break
        loaded(f"deplodock.passes.torch.{family}")
    return _LOWERINGS.get(overload)


def lowerings() -> Mapping[str, Lowering]:
    """The lowering of each overload of all families."""
    for family in FAMILIES:
        loaded(f"deplodock.passes.torch.{family}")
    return _LOWERINGS


def lowers(*overloads: str, broadcasts: bool = False, widens: bool = True) -> Callable[[_Formula], _Formula]:
    """Make a function of tensors the lowering of these overloads.

    Its parameters are those of the schema by name, in any order. It may leave out some, and one that not all of the
    overloads have needs a default. A tensor is given as a `Tensor`, everything else as Python's value, None if it is
    absent. Besides, `name` is the operation's without overload, `operands` are all tensors in order, `shape` and
    `element` are those of the first result, `shapes` those of all, and `build` is the builder. The operation has been
    verified, so that its shapes fit; the function raises a ValueError for arguments that are wrong otherwise, or not
    supported.

    Args:
        broadcasts: whether all that is annotated as `Tensor` is broadcast to one shape; it may be a number.
        widens: whether narrow elements are computed in their wide type and rounded once, at the end of the operation,
            as PyTorch's kernels do it. What only moves elements takes them as they are.
    """

    def register(formula: _Formula) -> _Formula:
        for overload in overloads:
            if overload in _LOWERINGS:
                raise ValueError(f"{overload} has two lowerings: {_LOWERINGS[overload].formula} and {formula}")
            _LOWERINGS[overload] = Lowering(formula, broadcasts, widens)
        return formula

    return register


def lower(op: AtenOp, lowering: Lowering) -> None:
    """Replace an operation by what its lowering makes of it, and check that this has the types that it says."""
    element = op.tensor_type.element_type
    rewriter = PatternRewriter(op)
    narrow = element if element in WIDE and element in FLOATS else None
    build = TensorBuilder(rewriter, op.location, narrow, precision=precision_of(op))
    is_narrow = any(element_of(value) in WIDE for value in (*op.tensors, *op.outputs))
    wide = _widened(op, build) if lowering.widens and is_narrow else op
    try:
        lowered = lowering.formula(**lowering.arguments(wide, build))
    except ValueError as error:
        raise failure(op, str(error)) from None
    tensors = [lowered] if isinstance(lowered, Tensor) else lowered
    if wide is not op:
        wide.drop_all_references()
        tensors = [x.cast(result.type.element_type) for x, result in zip(tensors, op.outputs, strict=True)]
    values = [x.ssa for x in tensors]
    if [value.type for value in values] != [result.type for result in op.outputs]:
        given = ", ".join(str(value.type) for value in values)
        wanted = ", ".join(str(result.type) for result in op.outputs)
        raise failure(op, f"the operands and attributes give a result of type {given}, not {wanted}")
    names = [value.name_hint or result.name_hint for value, result in zip(values, op.outputs, strict=True)]
    rewriter.replace(op, [], values)
    for value, name in zip(values, names, strict=True):
        value.name_hint = name


def _argument(op: AtenOp, name: str, build: TensorBuilder) -> Any:
    """The argument for a parameter of the schema: a tensor, a list of them, or Python's value."""
    parameter = next(p for p in op.schema().parameters if p.name == name)
    if parameter.is_list:
        return [None if value is None else Tensor(value, build) for value in op.tensor_list(name)]
    value = op.tensor(name) if parameter.is_tensor else None
    return op.value(name) if value is None else Tensor(value, build)


def _broadcast(operands: Mapping[str, Tensor | float], result: Attribute, build: TensorBuilder) -> Mapping[str, Tensor]:
    """The operands as tensors of one shape; a number has the element type of those that compute, or of the result."""
    elements = [x.element for name, x in operands.items() if isinstance(x, Tensor) and name not in OWN_ELEMENTS]
    element = elements[0] if elements else result
    tensors = [x if isinstance(x, Tensor) else build.constant(x, element, ()) for x in operands.values()]
    return dict(zip(operands, broadcast(*tensors), strict=True))


def _widened(op: AtenOp, build: TensorBuilder) -> AtenOp:
    """The same operation on elements of the wide types, which stands nowhere."""
    types = [result.type for result in op.outputs]
    wide = [TensorType(WIDE.get(type.element_type, type.element_type), type.get_shape()) for type in types]
    operands = [Tensor(value, build).widen().ssa for value in op.tensors]
    properties = dict(op.properties)
    for name in _NUMBERS:
        number, element = properties.get(name), types[0].element_type
        is_wide = name == "other" and op.schema().name in WIDE_NUMBERS
        if isinstance(number, FloatAttr) and isinstance(element, AnyFloat) and not is_wide:
            properties[name] = FloatAttr(FloatAttr(number.value.data, element).value.data, f64)
        if isinstance(number, IntegerAttr) and element in WIDE and element in INTEGERS:
            properties[name] = IntegerAttr(wrapped(number.value.data, element), i64)
    return type(op).create(operands=operands, properties=properties, result_types=wide)
