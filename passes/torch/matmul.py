"""Products of matrices: multiply in a common point space, then sum over its last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir.affine import AffineExpr

from deplodock.dialects.einsum import einsum_labels
from deplodock.dialects.tensor import ElementwiseOp
from deplodock.passes.torch.index_maps import broadcast_shape
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling
from deplodock.passes.torch.tensors import Tensor

SKIPS_ZEROS = arith.FastMathFlagsAttr([FastMathFlag.NO_NANS, FastMathFlag.NO_SIGNED_ZEROS])
"""What LLVM asks of a product for `x * 0 -> 0`."""

_RANKS = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}


@lowers("matmul", "mm", "bmm", "mv", "dot")
def matmul(operands: Sequence[Tensor], name: str) -> Tensor:
    """Multiply the operands in the point space [batch.., m, n, k] and sum over k; a 1-D operand has no m or n."""
    a, b = operands
    _check_ranks(name, a, b)
    return product(a, b)


@lowers("addmm", "baddbmm", "addmv")
def add_product(operands: Sequence[Tensor], name: str, beta: float, alpha: float) -> Tensor:
    """`beta * self + alpha * (a @ b)`; with beta = 0, NaN and infinities of self do not count.

    Both numbers are truncated for integers.
    """
    x, a, b = operands
    _check_ranks({"addmm": "mm", "baddbmm": "bmm", "addmv": "mv"}[name], a, b)
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
    if self.rank != 1 or vec2.rank != 1:
        raise ValueError(f"two vectors are needed, not shapes {list(self.shape)} and {list(vec2.shape)}")
    return self.reshape((*self.shape, 1)) * vec2


@lowers("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`input @ weight.T + bias` with a weight of shape [n, k] (or [k]) in the point space [.., n, k]."""
    *rows, k = input.shape
    if weight.rank not in (1, 2) or weight.shape[-1] != k:
        raise ValueError(f"a weight of shape {list(weight.shape)} does not fit an input of {k} features")
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

    factors = (factor(x, labels) for x, labels in zip(tensors, inputs, strict=True))
    value = reduce(lambda value, factor: (value * factor).named("product"), factors)
    return value.sum(range(len(output), len(order)), None)


def product(a: Tensor, b: Tensor, *, skips_zeros: bool = False) -> Tensor:
    """The matrix product, with batch dimensions that broadcast; `skips_zeros` is that of `contract`."""
    (*a_batch, m, k), (*b_batch, b_k, n) = _matrix(a.shape, 0), _matrix(b.shape, 1)
    if k != b_k:
        raise ValueError(f"the inner dimensions {k} and {b_k} differ")
    batch = broadcast_shape(a_batch, b_batch)
    space = (*batch, *([m] if a.rank > 1 else []), *([n] if b.rank > 1 else []), k)
    last = len(space) - 1
    a = a.read(_sources(a.shape, space, len(batch), [len(batch), last] if a.rank > 1 else [last]), space)
    b = b.read(_sources(b.shape, space, len(batch), [last, last - 1] if b.rank > 1 else [last]), space)
    return contract(a, b, skips_zeros=skips_zeros)


def contract(a: Tensor, b: Tensor, *, skips_zeros: bool = False) -> Tensor:
    """The sum over the last dimension of a * b; `skips_zeros` allows that a factor 0 leaves out the other, NaN too."""
    value = (a * b).named("product")
    if skips_zeros and isinstance(op := value.ssa.owner, ElementwiseOp):
        for scalar in op.body.block.ops:
            if isinstance(scalar, arith.MulfOp):
                scalar.fastmath = SKIPS_ZEROS
    return value.sum([value.rank - 1], None)


def _check_ranks(name: str, a: Tensor, b: Tensor) -> None:
    ranks = (a.rank, b.rank)
    if _RANKS.get(name, ranks) != ranks:
        raise ValueError(f"operands of ranks {_RANKS[name]} are needed, not {ranks}")


def _matrix(shape: Sequence[int], side: int) -> tuple[int, ...]:
    """The shape of a matmul operand as a matrix: a vector is a row on the left (side 0), a column on the right."""
    if not shape:
        raise ValueError("both operands must have at least one dimension")
    return tuple(shape) if len(shape) > 1 else (1, *shape) if side == 0 else (*shape, 1)


def _sources(shape: Sequence[int], space: Sequence[int], batch: int, matrix: Sequence[int]) -> list[AffineExpr]:
    """Where a matmul operand is read: batch dimensions aligned at the last, then these dimensions of its matrix."""
    own = len(shape) - len(matrix)
    return [
        AffineExpr.dimension(dim) if extent == space[dim] else AffineExpr.constant(0)
        for extent, dim in zip(shape, (*range(batch - own, batch), *matrix), strict=True)
    ]
