"""Lowers the `torch` dialect to `tensor_ext`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType, UnregisteredOp, f32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.dialects.tensor import IndexMapOp
from deplodock.dialects.torch import AtenOp
from deplodock.passes.failures import failure
from deplodock.passes.torch.index_maps import broadcast_shape, permutation_map, resolve_size, wrap_dim, wrap_dims
from deplodock.passes.torch.tensor_builder import TensorBuilder, element_of, shape_of


class AtenPattern(RewritePattern):
    """Replaces the ATen operations named by `overloads` by what `lower` builds."""

    overloads: ClassVar[tuple[str, ...]]

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        """Build the value of `op`.

        Raises:
            ValueError: the arguments of `op` do not fit together.
        """
        raise NotImplementedError

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Lower `op` and check that the result has the type that it says."""
        if not isinstance(op, AtenOp) or op.schema().name not in self.overloads:
            return
        try:
            value = self.lower(op, TensorBuilder(rewriter, op.location))
        except ValueError as error:
            raise failure(op, str(error)) from None
        if value.type != op.result.type:
            raise failure(op, f"the operands and attributes give a result of type {value.type}, not {op.result.type}")
        name = value.name_hint or op.result.name_hint
        rewriter.replace(op, [], [value])
        value.name_hint = name


class LowerUnary(AtenPattern):
    """One scalar operation, the same for every float: `exp(x)`."""

    op_classes: ClassVar[dict[str, type[Operation]]] = {
        "exp": math.ExpOp,
        "log": math.LogOp,
        "sqrt": math.SqrtOp,
        "rsqrt": math.RsqrtOp,
        "tanh": math.TanhOp,
    }
    overloads = tuple(op_classes)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.map(self.op_classes[op.schema().name], op.operand("self"))


class LowerBinary(AtenPattern):
    """Broadcast both operands, then one scalar operation: `add(x, y, alpha) = x + alpha * y`."""

    operations: ClassVar[dict[str, str]] = {
        "add.Tensor": "add",
        "sub.Tensor": "sub",
        "mul.Tensor": "mul",
        "maximum": "maximum",
        "minimum": "minimum",
    }
    overloads = tuple(operations)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, y = _operands(op, build)
        if "alpha" in op.properties:
            y = build.apply("mul", y, build.constant_like(op.value("alpha"), y), name="scaled")
        return build.apply(self.operations[op.schema().name], x, y)


class LowerDiv(AtenPattern):
    """True division of floats; integers were cast when they were captured."""

    overloads = ("div.Tensor",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.map(arith.DivfOp, *_operands(op, build))


class LowerRsub(AtenPattern):
    """`rsub(x, other, alpha) = other - alpha * x`."""

    overloads = ("rsub.Scalar",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if "alpha" in op.properties:
            x = build.apply("mul", x, build.constant_like(op.value("alpha"), x), name="scaled")
        return build.apply("sub", build.constant_like(op.value("other"), x), x)


class LowerPow(AtenPattern):
    """`pow(x, e)`: as PyTorch computes it for e in {0, 1, 2, 3, 1/2, -1/2, -1, -2}, else by `math.powf`.

    Integers are raised by repeated squaring.
    """

    overloads = ("pow.Tensor_Scalar", "square")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        exponent = 2 if op.schema().name == "square" else op.value("exponent")
        if not isinstance(element_of(x), AnyFloat):
            return _integer_power(build, x, exponent)
        if exponent in (0, 1, 2, 3):
            return _product(build, x, int(exponent))
        if exponent == 0.5:
            return build.map(math.SqrtOp, x)
        if exponent == -0.5:
            return build.map(math.RsqrtOp, x)
        if exponent in (-1, -2):
            return build.map(arith.DivfOp, build.constant_like(1, x), _product(build, x, -int(exponent)))
        return build.map(math.PowFOp, x, build.constant_like(exponent, x))


class LowerNeg(AtenPattern):
    """`-x`; of an integer `0 - x`."""

    overloads = ("neg",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if isinstance(element_of(x), AnyFloat):
            return build.map(arith.NegfOp, x)
        return build.apply("sub", build.constant_like(0, x), x)


class LowerAbs(AtenPattern):
    """`|x|`."""

    overloads = ("abs",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.apply("abs", op.operand("self"))


class LowerRelu(AtenPattern):
    """`maximum(x, 0)`, which propagates NaN."""

    overloads = ("relu",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return build.apply("maximum", x, build.constant_like(0, x))


class LowerReciprocal(AtenPattern):
    """`1 / x`."""

    overloads = ("reciprocal",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return build.map(arith.DivfOp, build.constant_like(1, x), x)


class LowerSigmoid(AtenPattern):
    """`1 / (1 + exp(-x))`."""

    overloads = ("sigmoid",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        one = build.constant_like(1, x)
        exp = build.map(math.ExpOp, build.map(arith.NegfOp, x, name="neg"), name="exp")
        return build.map(arith.DivfOp, one, build.map(arith.AddfOp, one, exp, name="denominator"))


class LowerCast(AtenPattern):
    """Convert the elements to the type of the result."""

    overloads = ("_to_copy",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.cast(op.operand("self"), op.value("dtype") or element_of(op.operand("self")))


class LowerReduction(AtenPattern):
    """Fold the dimensions `dim`, all if there are none; `keepdim` leaves them as ones."""

    overloads = ("sum", "sum.dim_IntList", "mean", "mean.dim", "max", "amax")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        name = op.schema().name
        given = op.value("dim") if "." in name or name == "amax" else None
        dims = wrap_dims(given, len(shape_of(x))) if given else list(range(len(shape_of(x))))
        kind = name.partition(".")[0]
        if kind == "mean":
            value = build.mean(x, dims)
        else:
            if kind != "sum" and any(shape_of(x)[dim] == 0 for dim in dims):
                raise ValueError("the maximum of no elements is not defined")
            value = build.reduce("add" if kind == "sum" else "maximum", x, dims, name=kind)
        if given is None or not op.value("keepdim"):
            return value
        shape = [1 if dim in dims else n for dim, n in enumerate(shape_of(x))]
        return build.spread(value, dims, shape)


class LowerSoftmax(AtenPattern):
    """`e / sum(e)` with `e = exp(x - max(x))`, along `dim`."""

    overloads = ("softmax.int",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        shape = shape_of(x)
        dims = wrap_dims([op.value("dim")], len(shape))
        maximum = build.reduce("maximum", x, dims, name="max")
        shifted = build.map(arith.SubfOp, x, build.spread(maximum, dims, shape), name="shifted")
        exp = build.map(math.ExpOp, shifted, name="exp")
        total = build.reduce("add", exp, dims, name="sum")
        return build.map(arith.DivfOp, exp, build.spread(total, dims, shape))


class LowerRmsNorm(AtenPattern):
    """`x * rsqrt(mean(x * x) + eps) * weight` over the last dimensions; eps is that of the type unless given."""

    overloads = ("rms_norm",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, weight = op.operand("input"), op.tensor("weight")
        shape, normalized = shape_of(x), op.value("normalized_shape")
        if not normalized or shape[-len(normalized) :] != normalized:
            raise ValueError(
                f"normalized_shape {list(normalized)} must be the last dimensions of the shape {list(shape)}"
            )
        if weight is not None and shape_of(weight) != normalized:
            raise ValueError(f"the weight must have the shape {list(normalized)}, not {list(shape_of(weight))}")
        dims = list(range(len(shape) - len(normalized), len(shape)))
        square = build.map(arith.MulfOp, x, x, name="sq")
        mean = build.mean(square, dims)
        eps = op.value("eps") if op.value("eps") is not None else _epsilon(element_of(x))
        shifted = build.map(arith.AddfOp, mean, build.constant_like(eps, mean), name="mean_eps")
        scale = build.map(math.RsqrtOp, shifted, name="rsqrt")
        normal = build.map(arith.MulfOp, x, build.spread(scale, dims, shape), name="normal")
        return normal if weight is None else build.map(arith.MulfOp, normal, build.broadcast(weight, shape))


class LowerMatmul(AtenPattern):
    """Multiply the operands in the point space [batch.., m, n, k] and sum over k; a 1-D operand has no m or n."""

    overloads = ("matmul", "mm", "bmm", "mv", "dot")
    ranks: ClassVar[dict[str, tuple[int, int]]] = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        a, b = op.tensors
        (*a_batch, m, k), (*b_batch, b_k, n) = _matrix(shape_of(a), 0), _matrix(shape_of(b), 1)
        ranks = (len(shape_of(a)), len(shape_of(b)))
        if self.ranks.get(op.schema().name, ranks) != ranks:
            raise ValueError(f"operands of ranks {self.ranks[op.schema().name]} are needed, not {ranks}")
        if k != b_k:
            raise ValueError(f"the inner dimensions {k} and {b_k} differ")
        batch = broadcast_shape(a_batch, b_batch)
        space = (*batch, *([m] if ranks[0] > 1 else []), *([n] if ranks[1] > 1 else []), k)
        last = len(space) - 1
        n_dim = last - 1 if ranks[1] > 1 else None
        m_dim = len(batch) if ranks[0] > 1 else None
        a = build.index_map(a, _operand_map(shape_of(a), space, len(batch), [m_dim, last]), space)
        b = build.index_map(b, _operand_map(shape_of(b), space, len(batch), [last, n_dim]), space)
        return _contract(build, a, b)


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
        product = _contract(build, x, build.broadcast(weight, space))
        return product if bias is None else build.apply("add", product, build.broadcast(bias, shape_of(product)))


class LowerPermutation(AtenPattern):
    """Reorder the dimensions."""

    overloads = ("t", "transpose.int", "permute")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        rank = len(shape_of(x))
        order = list(range(rank))
        match op.schema().name:
            case "t":
                if rank > 2:
                    raise ValueError(f"t takes at most 2 dimensions, not {rank}; use transpose.int")
                order.reverse()
            case "permute":
                order = wrap_dims(op.value("dims"), rank)
                if len(order) != rank:
                    raise ValueError(f"dims {list(op.value('dims'))} do not name each of {rank} dimensions")
            case _ if rank > 0:
                i, j = (wrap_dim(op.value(name), rank) for name in ("dim0", "dim1"))
                order[i], order[j] = order[j], order[i]
            case _:
                return x
        return build.index_map(x, permutation_map(order), [shape_of(x)[dim] for dim in order])


class LowerReshape(AtenPattern):
    """Read the elements in row-major order under another shape."""

    overloads = ("view", "_unsafe_view", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return build.reshape(x, _reshaped(op, shape_of(x)))


class LowerExpand(AtenPattern):
    """Repeat dimensions of extent 1; -1 keeps an extent."""

    overloads = ("expand",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        size = op.value("size")
        offset = len(size) - len(shape_of(x))
        shape = [shape_of(x)[i - offset] if n == -1 and i >= offset >= 0 else n for i, n in enumerate(size)]
        return build.broadcast(x, shape)


class LowerAlias(AtenPattern):
    """The operand itself: tensors are values here."""

    overloads = ("clone", "detach", "alias")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return op.operand("self")


PATTERNS: tuple[type[AtenPattern], ...] = (
    LowerUnary, LowerBinary, LowerDiv, LowerRsub, LowerPow, LowerNeg, LowerAbs, LowerRelu, LowerReciprocal,
    LowerSigmoid, LowerCast, LowerReduction, LowerSoftmax, LowerRmsNorm, LowerMatmul, LowerLinear, LowerPermutation,
    LowerReshape, LowerExpand, LowerAlias,
)  # fmt: skip
"""One pattern for each family of operations."""


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Lowers every operation of the `torch` dialect to `tensor_ext` operations and splat constants.

    Composite operations become the formula by which PyTorch computes them, broadcasts become explicit index maps:

        %0 = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>

    becomes

        %zero = arith.constant dense<0.0> : tensor<4xf32>
        %0 = tensor_ext.elementwise {arith.maximumf} %x, %zero : tensor<4xf32>

    A function returns fresh tensors: an argument that it returns, or a value that it returns twice, is copied by an
    identity index map.
    """

    name = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns: list[RewritePattern] = [pattern() for pattern in PATTERNS]
        PatternRewriteWalker(GreedyRewritePatternApplier(patterns), apply_recursively=False).rewrite_module(op)
        left = [inner for inner in op.walk() if _name(inner).startswith("torch.")]
        if left:
            names = ", ".join(sorted({_name(inner) for inner in left}))
            raise failure(left[0], f"no decomposition of {names}")
        for inner in op.walk():
            if isinstance(inner, func.ReturnOp):
                _copy_returned(inner)


def _copy_returned(op: func.ReturnOp) -> None:
    """Copy returned arguments, and all but the first of equal returned values."""
    seen: list[SSAValue] = []
    for index, value in enumerate(op.operands):
        if isinstance(value.type, TensorType) and (isinstance(value, BlockArgument) or value in seen):
            copy = IndexMapOp(value, AffineMap.identity(len(shape_of(value))), shape_of(value))
            copy.result.name_hint = "copy"
            Rewriter.insert_op(copy, InsertPoint.before(op))
            op.operands[index] = copy.result
        seen.append(value)


def _operands(op: AtenOp, build: TensorBuilder) -> tuple[SSAValue, SSAValue]:
    """`self` and `other`, a number as a splat, broadcast to one shape."""
    x, y = op.operand("self"), op.tensor("other")
    if y is None:
        return x, build.constant_like(op.value("other"), x)
    shape = broadcast_shape(shape_of(x), shape_of(y))
    return build.broadcast(x, shape), build.broadcast(y, shape)


def _contract(build: TensorBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """The sum over the last dimension of a * b."""
    product = build.apply("mul", a, b, name="product")
    return build.reduce("add", product, [len(shape_of(product)) - 1])


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


def _product(build: TensorBuilder, x: SSAValue, count: int) -> SSAValue:
    """x multiplied `count` times with itself, from the left."""
    value = build.constant_like(1, x) if count == 0 else x
    for _ in range(count - 1):
        value = build.apply("mul", value, x)
    return value


def _integer_power(build: TensorBuilder, x: SSAValue, exponent: float) -> SSAValue:
    if exponent < 0 or exponent != int(exponent):
        raise ValueError(f"an integer cannot be raised to {exponent}; cast to a float first")
    power, value, rest = x, None, int(exponent)
    while rest:
        if rest % 2:
            value = power if value is None else build.apply("mul", value, power)
        rest //= 2
        power = build.apply("mul", power, power) if rest else power
    return build.constant_like(1, x) if value is None else value


def _reshaped(op: AtenOp, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a reshaping operation gives."""
    match op.schema().name:
        case "view" | "_unsafe_view":
            return resolve_size(op.value("size"), shape)
        case "unsqueeze":
            dim = wrap_dim(op.value("dim"), len(shape) + 1)
            return (*shape[:dim], 1, *shape[dim:])
        case "squeeze":
            return tuple(n for n in shape if n != 1)
        case _:
            given = op.value("dim")
            dims = wrap_dims([given] if isinstance(given, int) else given, len(shape))
            return tuple(n for i, n in enumerate(shape) if n != 1 or i not in dims)


def _epsilon(element: Attribute) -> float:
    """The difference between 1 and the next number: C's FLT_EPSILON and DBL_EPSILON."""
    return 2.0**-23 if element == f32 else 2.0**-52


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name
