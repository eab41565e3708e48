"""The base of the patterns that lower ATen operations, and how they read operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from deplodock.dialects.elements import FLOATS, INTEGERS, WIDE
from deplodock.dialects.tensor import element_of
from deplodock.dialects.torch import AtenOp
from deplodock.dialects.torch.aten import WIDE_NUMBERS
from deplodock.passes.failures import failure
from deplodock.passes.torch.index_maps import wrap_dims
from deplodock.passes.torch.tensor_builder import TensorBuilder, wrapped

_NUMBERS = ("self", "other", "alpha", "min", "max", "min_val", "max_val")
"""Parameters whose numbers PyTorch converts to the element type before it computes."""


class AtenPattern(RewritePattern):
    """Replaces the ATen operations named by `overloads` by what `lower` builds.

    Narrow elements are computed in their wide type and rounded once, at the end of the operation, as PyTorch's kernels
    do it. A pattern that sets `computes` to False only moves elements, and takes them as they are.
    """

    overloads: ClassVar[tuple[str, ...]]
    computes: ClassVar[bool] = True

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue | Sequence[SSAValue]:
        """Build the value of `op`, or its values if it has several.

        Raises:
            ValueError: the arguments of `op` do not fit together, or are not supported.
        """
        raise NotImplementedError

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Lower `op` and check that the results have the types that it says."""
        if not isinstance(op, AtenOp) or op.schema().name not in self.overloads:
            return
        element = op.outputs[0].type.element_type
        build = TensorBuilder(rewriter, op.location, element if element in WIDE and element in FLOATS else None)
        wide = _widened(op, build) if self.computes and _is_narrow(op) else op
        try:
            lowered = self.lower(wide, build)
        except ValueError as error:
            raise failure(op, str(error)) from None
        values = [lowered] if isinstance(lowered, SSAValue) else list(lowered)
        if wide is not op:
            wide.drop_all_references()
            elements = [result.type.element_type for result in op.outputs]
            values = [build.cast(value, element) for value, element in zip(values, elements, strict=True)]
        if [value.type for value in values] != [result.type for result in op.outputs]:
            given = ", ".join(str(value.type) for value in values)
            wanted = ", ".join(str(result.type) for result in op.outputs)
            raise failure(op, f"the operands and attributes give a result of type {given}, not {wanted}")
        names = [value.name_hint or result.name_hint for value, result in zip(values, op.outputs, strict=True)]
        rewriter.replace(op, [], values)
        for value, name in zip(values, names, strict=True):
            value.name_hint = name


def _is_narrow(op: AtenOp) -> bool:
    return any(element_of(value) in WIDE for value in (*op.tensors, *op.outputs))


def _widened(op: AtenOp, build: TensorBuilder) -> AtenOp:
    """The same operation on elements of the wide types, which stands nowhere."""
    types = [result.type for result in op.outputs]
    wide = [TensorType(WIDE.get(type.element_type, type.element_type), type.get_shape()) for type in types]
    operands = [build.widen(value) for value in op.tensors]
    properties = dict(op.properties)
    for name in _NUMBERS:
        number, element = properties.get(name), types[0].element_type
        is_wide = name == "other" and op.schema().name in WIDE_NUMBERS
        if isinstance(number, FloatAttr) and isinstance(element, AnyFloat) and not is_wide:
            properties[name] = FloatAttr(FloatAttr(number.value.data, element).value.data, f64)
        if isinstance(number, IntegerAttr) and element in WIDE and element in INTEGERS:
            properties[name] = IntegerAttr(wrapped(number.value.data, element), i64)
    return type(op).create(operands=operands, properties=properties, result_types=wide)


def operand_pair(
    op: AtenOp, build: TensorBuilder, first: str = "self", second: str = "other"
) -> tuple[SSAValue, SSAValue]:
    """Two operands broadcast to one shape; at most one may be a number, which becomes a splat."""
    x, y = op.tensor(first), op.tensor(second)
    if x is not None and y is not None:
        x, y = build.broadcast_all(x, y)
        return x, y
    if x is not None:
        return x, build.constant_like(op.value(second), x)
    if y is None:
        raise ValueError(f"{first} or {second} must be a tensor")
    return build.constant_like(op.value(first), y), y


def reduced_dims(op: AtenOp, rank: int, *, empty_is_all: bool = True) -> list[int]:
    """The dimensions that the parameter `dim` names, counted from the front; all if there is none or it is None."""
    given = op.value("dim") if op.has("dim") else None
    if given is None or (given == () and empty_is_all):
        return list(range(rank))
    return wrap_dims([given] if isinstance(given, int) else given, rank)


def with_dims(op: AtenOp, build: TensorBuilder, value: SSAValue, dims: Sequence[int], shape: Sequence[int]) -> SSAValue:
    """The result of reducing `dims` of a tensor of this shape, with ones for them if the operation keeps them."""
    if not op.has("keepdim") or not op.value("keepdim"):
        return value
    return build.spread(value, dims, [1 if dim in dims else n for dim, n in enumerate(shape)])
