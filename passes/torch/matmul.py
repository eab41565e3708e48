"""Patterns for products of matrices: multiply in a common point space, then sum over its last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.einsum import einsum_labels
from deplodock.dialects.tensor import ElementwiseOp, element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.index_maps import broadcast_shape
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder, filling

SKIPS_ZEROS = arith.FastMathFlagsAttr([FastMathFlag.NO_NANS, FastMathFlag.NO_SIGNED_ZEROS])
"""What LLVM asks of a product for `x * 0 -> 0`."""


class LowerMatmul(AtenPattern):
    """Multiply the operands in the point space [batch.., m, n, k] and sum over k; a 1-D operand has no m or n."""

    overloads = ("matmul", "mm", "bmm", "mv", "dot")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        a, b = op.tensors
        _check_ranks(op.schema().name, a, b)
        return matmul(build, a, b)


class LowerAddMatmul(AtenPattern):
    """`beta * self + alpha * (a @ b)`; with beta = 0, NaN and infinities of self do not count.

    Both numbers are truncated for integers.
    """

    products: ClassVar[dict[str, str]] = {"addmm": "mm", "baddbmm": "bmm", "addmv": "mv"}
    overloads = tuple(products)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, a, b = op.tensors
        _check_ranks(self.products[op.schema().name], a, b)
        product = matmul(build, a, b)
        alpha, beta = (filling(op.value(name), element_of(product)) for name in ("alpha", "beta"))
        if alpha != 1:
            product = build.apply("mul", product, build.constant_like(alpha, product), name="scaled")
        if beta == 0:
            return product
        x = build.broadcast(x, shape_of(product))
        if beta != 1:
            x = build.apply("mul", x, build.constant_like(beta, x), name="addend")
        return build.apply("add", x, product)


class LowerOuter(AtenPattern):
    """`result[i, j] = self[i] * vec2[j]`."""

    overloads = ("outer",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        a, b = op.tensors
        if len(shape_of(a)) != 1 or len(shape_of(b)) != 1:
            raise ValueError(f"two vectors are needed, not shapes {list(shape_of(a))} and {list(shape_of(b))}")
        return build.apply("mul", *build.broadcast_all(build.reshape(a, (*shape_of(a), 1)), b))


class LowerLinear(AtenPattern):
    """`input @ weight.T + bias` with a weight of shape [n, k] (or [k]) in the point space [.., n, k]."""

    overloads = ("linear",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, weight, bias = op.operand("input"), op.operand("weight"), op.tensor("bias")
        *rows, k = shape_of(x)
        if len(shape_of(weight)) not in (1, 2) or shape_of(weight)[-1] != k:
            raise ValueError(f"a weight of shape {list(shape_of(weight))} does not fit an input of {k} features")
        space = (*rows, *shape_of(weight))
        dims = [AffineExpr.dimension(d) for d in (*range(len(rows)), len(space) - 1)]
        x = build.index_map(x, AffineMap(len(space), 0, tuple(dims)), space)
        product = contract(build, x, build.broadcast(weight, space))
        return product if bias is None else build.apply("add", product, build.broadcast(bias, shape_of(product)))


class LowerEinsum(AtenPattern):
    """Sum over the labels that the output lacks of the product of the operands, in the point space of all labels.

    The dimensions of an ellipsis that the output lacks are summed over, too.
    """

    overloads = ("einsum",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        tensors = [value for value in op.tensor_list("tensors") if value is not None]
        inputs, output, extents = einsum_labels(op.value("equation"), [shape_of(value) for value in tensors])
        order = [*output, *(label for label in extents if label not in output)]
        space = [extents[label] for label in order]
        product: SSAValue | None = None
        for value, labels in zip(tensors, inputs, strict=True):
            sources = [
                AffineExpr.dimension(order.index(label)) if extent == extents[label] else AffineExpr.constant(0)
                for label, extent in zip(labels, shape_of(value), strict=True)
            ]
            factor = build.index_map(value, AffineMap(len(space), 0, tuple(sources)), space)
            product = factor if product is None else build.apply("mul", product, factor, name="product")
        assert product is not None
        return build.reduce("add", product, list(range(len(output), len(order))))


def matmul(build: TensorBuilder, a: SSAValue, b: SSAValue, *, skips_zeros: bool = False) -> SSAValue:
    """The matrix product, with batch dimensions that broadcast; `skips_zeros` is that of `contract`."""
    (*a_batch, m, k), (*b_batch, b_k, n) = _matrix(shape_of(a), 0), _matrix(shape_of(b), 1)
    if k != b_k:
        raise ValueError(f"the inner dimensions {k} and {b_k} differ")
    batch = broadcast_shape(a_batch, b_batch)
    has_m, has_n = len(shape_of(a)) > 1, len(shape_of(b)) > 1
    space = (*batch, *([m] if has_m else []), *([n] if has_n else []), k)
    last = len(space) - 1
    a_dims = [len(batch) if has_m else None, last]
    b_dims = [last, last - 1 if has_n else None]
    a = build.index_map(a, _operand_map(shape_of(a), space, len(batch), a_dims), space)
    b = build.index_map(b, _operand_map(shape_of(b), space, len(batch), b_dims), space)
    return contract(build, a, b, skips_zeros=skips_zeros)


def contract(build: TensorBuilder, a: SSAValue, b: SSAValue, *, skips_zeros: bool = False) -> SSAValue:
    """The sum over the last dimension of a * b; `skips_zeros` allows that a factor 0 leaves out the other, NaN too."""
    product = build.apply("mul", a, b, name="product")
    if skips_zeros and isinstance(op := product.owner, ElementwiseOp):
        for scalar in op.body.block.ops:
            if isinstance(scalar, arith.MulfOp):
                scalar.fastmath = SKIPS_ZEROS
    return build.reduce("add", product, [len(shape_of(product)) - 1])


_RANKS = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}


def _check_ranks(name: str, a: SSAValue, b: SSAValue) -> None:
    ranks = (len(shape_of(a)), len(shape_of(b)))
    if _RANKS.get(name, ranks) != ranks:
        raise ValueError(f"operands of ranks {_RANKS[name]} are needed, not {ranks}")


def _matrix(shape: Sequence[int], side: int) -> tuple[int, ...]:
    """The shape of a matmul operand as a matrix: a vector is a row on the left (side 0), a column on the right."""
    if not shape:
        raise ValueError("both operands must have at least one dimension")
    return tuple(shape) if len(shape) > 1 else (1, *shape) if side == 0 else (*shape, 1)


def _operand_map(shape: Sequence[int], space: Sequence[int], batch: int, matrix: Sequence[int | None]) -> AffineMap:
    """The map of a matmul operand: batch dimensions aligned at the last, then the matrix dimensions that it has."""
    present = [dim for dim in matrix if dim is not None]
    own = len(shape) - len(present)
    results = [
        AffineExpr.dimension(dim) if shape[i] == space[dim] else AffineExpr.constant(0)
        for i, dim in enumerate((*range(batch - own, batch), *present))
    ]
    return AffineMap(len(space), 0, tuple(results))
