"""Tensors that read no elements."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, f64
from xdsl.ir import Attribute

from deplodock.passes.torch.indexing import diagonal_mask
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling
from deplodock.passes.torch.tensors import Ints, Tensor, TensorBuilder


@lowers("full", "full_like", "new_full", widens=False)
def full(build: TensorBuilder, shape: Ints, element: Attribute, fill_value: float) -> Tensor:
    """One number everywhere."""
    return build.constant(filling(fill_value, element), element, shape)


@lowers("zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty", widens=False)
def zeros(build: TensorBuilder, shape: Ints, element: Attribute) -> Tensor:
    """0 everywhere, also what PyTorch leaves unspecified."""
    return full(build, shape, element, 0)


@lowers("ones", "ones_like", "new_ones", widens=False)
def ones(build: TensorBuilder, shape: Ints, element: Attribute) -> Tensor:
    """1 everywhere."""
    return full(build, shape, element, 1)


@lowers("scalar_tensor", widens=False)
def scalar_tensor(build: TensorBuilder, shape: Ints, element: Attribute, s: float) -> Tensor:
    """One number, without dimensions."""
    return full(build, shape, element, s)


@lowers("fill.Scalar", widens=False)
def fill_with_number(build: TensorBuilder, shape: Ints, element: Attribute, value: float) -> Tensor:
    """One number everywhere."""
    return full(build, shape, element, value)


@lowers("fill.Tensor", widens=False)
def fill(self: Tensor, value: Tensor) -> Tensor:
    """The elements of another tensor, broadcast to the shape of the first."""
    return value.broadcast(self.shape)


@lowers("copy", widens=False)
def copy(self: Tensor, src: Tensor) -> Tensor:
    """The elements of another tensor, broadcast to the shape of the first."""
    return src.broadcast(self.shape)


@lowers("arange", "arange.start", "arange.start_step")
def arange(build: TensorBuilder, shape: Ints, element: Attribute, start: float = 0, step: float = 1) -> Tensor:
    """`start + i * step`: whole numbers as integers, others in f64 and rounded once, as PyTorch does on a CPU."""
    whole = start == int(start) and step == int(step)
    if not whole and not isinstance(element, AnyFloat):
        raise ValueError(f"arange from {start} by {step} does not give integers; cast a float one")
    value = build.iota(0, shape)
    if not whole:
        value = value.cast(f64)
    if step != 1:
        value = (value * step).named("scaled")
    return (value + start if start else value).cast(element)


@lowers("eye", "eye.m")
def eye(build: TensorBuilder, shape: Ints, element: Attribute) -> Tensor:
    """Ones where the row is the column, else zeros."""
    return diagonal_mask(build, shape, 0, "eq").cast(element)
