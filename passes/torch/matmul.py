"""Products of matrices: multiply in a common point space, then sum over its last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir.affine import AffineExpr

from deplodock.dialects.einsum import einsum_labels
from deplodock.dialects.precision import set_precision_of
from deplodock.dialects.shapes import broadcast_shape
from deplodock.dialects.tensor import ElementwiseOp
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling
from deplodock.passes.torch.tensors import Tensor

SKIPS_ZEROS = (FastMathFlag.NO_NANS, FastMathFlag.NO_SIGNED_ZEROS)
"""What LLVM asks of a product for `x * 0 -> 0`."""


@lowers("matmul", "mm", "bmm", "mv", "dot")
def matmul(operands: Sequence[Tensor]) -> Tensor:
    """Multiply the operands in the point space [batch.., m, n, k] and sum over k; a 1-D operand has no m or n."""
    a, b = operands
    return product(a, b)


@lowers("addmm", "baddbmm", "addmv")
def add_product(operands: Sequence[Tensor], beta: float, alpha: float) -> Tensor:
    """`beta * self + alpha * (a @ b)`; with beta = 0, NaN and infinities of self do not count.

    Both numbers are truncated for integers.
    """
    x, a, b = operands
    value = product(a, b)
    alpha, beta = (filling(number, value.element) for number in (alpha, beta))
    if alpha != 1:
        value = (value * alpha).named("scaled")
    if beta == 0:
        return value
    x = x.broadcast(value.shape)
    return (x if beta == 1 else (x * beta).named("addend")) + value


@lowers("outer")
def outer(self: Tensor, vec2: Tensor) -> Tensor:
    """`result[i, j] = self[i] * vec2[j]`."""
    return self.reshape((*self.shape, 1)) * vec2


@lowers("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`input @ weight.T + bias` with a weight of shape [n, k] (or [k]) in the point space [.., n, k]."""
    rows = input.shape[:-1]
    space = (*rows, *weight.shape)
    x = input.read([AffineExpr.dimension(d) for d in (*range(len(rows)), len(space) - 1)], space)
    value = contract(x, weight.broadcast(space))
    return value if bias is None else value + bias


@lowers("einsum")
def einsum(equation: str, tensors: Sequence[Tensor]) -> Tensor:
    """Sum over the labels that the output lacks of the product of the operands, in the point space of all labels.

    The dimensions of an ellipsis that the output lacks are summed over, too.
    """
    inputs, output, extents = einsum_labels(equation, [x.shape for x in tensors])
    order = [*output, *(label for label in extents if label not in output)]
    space = [extents[label] for label in order]

    def factor(x: Tensor, labels: Sequence[str]) -> Tensor:
        sources = [
            AffineExpr.dimension(order.index(label)) if extent == extents[label] else AffineExpr.constant(0)
            for label, extent in zip(labels, x.shape, strict=True)
        ]
        return x.read(sources, space)

    summed = range(len(output), len(order))
    *before, last = (factor(x, labels) for x, labels in zip(tensors, inputs, strict=True))
    if not before:
        return last.sum(summed, None)
    value = reduce(lambda value, factor: (value * factor).named("product"), before)
    return multiplied(value, last).sum(summed, None) if summed else (value * last).named("product")


def product(a: Tensor, b: Tensor, *, skips_zeros: bool = False) -> Tensor:
    """The matrix product, with batch dimensions that broadcast; `skips_zeros` is that of `contract`."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    space = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()), a.shape[-1])
    last = len(space) - 1
    a = a.read(_sources(a.shape, space, len(batch), [len(batch), last] if a.rank > 1 else [last]), space)
    b = b.read(_sources(b.shape, space, len(batch), [last, last - 1] if b.rank > 1 else [last]), space)
    return contract(a, b, skips_zeros=skips_zeros)


def contract(a: Tensor, b: Tensor, *, skips_zeros: bool = False) -> Tensor:
    """The sum over the last dimension of a * b; `skips_zeros` allows that a factor 0 leaves out the other, NaN too."""
    value = multiplied(a, b)
    if skips_zeros:
        value = value.allowing(*SKIPS_ZEROS)
    return value.sum([value.rank - 1], None)


def multiplied(a: Tensor, b: Tensor) -> Tensor:
    """`a * b`, which is summed up; of FP32 in the precision that the operation says."""
    value = (a * b).named("product")
    if isinstance(op := value.ssa.owner, ElementwiseOp):
        for scalar in op.body.block.ops:
            if isinstance(scalar, arith.MulfOp):
                set_precision_of(scalar, value.build.precision)
    return value


def _sources(shape: Sequence[int], space: Sequence[int], batch: int, matrix: Sequence[int]) -> list[AffineExpr]:
    """Where a matmul operand is read: batch dimensions aligned at the last, then these dimensions of its matrix."""
    own = len(shape) - len(matrix)
    return [
        AffineExpr.dimension(dim) if extent == space[dim] else AffineExpr.constant(0)
        for extent, dim in zip(shape, (*range(batch - own, batch), *matrix), strict=True)
    ]
