"""Patterns for tensors that read no elements."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, f64
from xdsl.ir import SSAValue

from deplodock.dialects.tensor import shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.indexing import diagonal_mask
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder, filling


class LowerFull(AtenPattern):
    """One number everywhere; what PyTorch leaves unspecified is 0."""

    computes = False
    overloads = (
        *("full", "zeros", "ones", "scalar_tensor", "full_like", "zeros_like", "ones_like"),
        *("new_full", "new_zeros", "new_ones", "fill.Scalar", "empty.memory_format", "empty_like", "new_empty"),
    )

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        name = op.schema().name
        parameter = next(filter(op.has, ("fill_value", "s", "value")), None)
        value = op.value(parameter) if parameter is not None else int("ones" in name)
        shape = op.value("size") if op.has("size") else () if name == "scalar_tensor" else shape_of(op.operand("self"))
        element = op.tensor_type.element_type
        return build.constant(filling(value, element), element, shape)


class LowerFill(AtenPattern):
    """The elements of another tensor, broadcast to the shape of the first."""

    computes = False
    overloads = ("fill.Tensor", "copy")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        source = op.operand("value" if op.schema().name == "fill.Tensor" else "src")
        return build.broadcast(source, shape_of(op.operand("self")))


class LowerArange(AtenPattern):
    """`start + i * step`: whole numbers as integers, others in f64 and rounded once, as PyTorch does on a CPU."""

    overloads = ("arange", "arange.start", "arange.start_step")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        start, step = (op.value(name) if op.has(name) else value for name, value in (("start", 0), ("step", 1)))
        shape, element = tuple(op.tensor_type.get_shape()), op.tensor_type.element_type
        whole = start == int(start) and step == int(step)
        if not whole and not isinstance(element, AnyFloat):
            raise ValueError(f"arange from {start} by {step} does not give integers; cast a float one")
        if len(shape) != 1 or step == 0:
            raise ValueError(f"arange gives a vector and needs a step, not {step}")
        value = build.iota(0, shape)
        if not whole:
            value = build.cast(value, f64)
        if step != 1:
            value = build.apply("mul", value, build.constant_like(step, value), name="scaled")
        if start:
            value = build.apply("add", value, build.constant_like(start, value))
        return build.cast(value, element)


class LowerEye(AtenPattern):
    """Ones where the row is the column, else zeros."""

    overloads = ("eye", "eye.m")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        rows = op.value("n")
        columns = op.value("m") if op.schema().name == "eye.m" else rows
        return build.cast(diagonal_mask(build, (rows, columns), 0, "eq"), op.tensor_type.element_type)
