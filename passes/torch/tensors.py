"""Tensors with the operators of Python: what the formulas of the decompositions compute with.

    scaled = (x * 0.5).named("scaled")
    y = where(x > 0, x, scaled)

inserts the `tensor_ext` operations of these lines, in their order. Operands broadcast as in numpy, and a number stands
for itself at every index.

What moves elements is an affine map from the indices of a result to those of its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, LocationAttr, TensorType, i1, i64
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects import tensor
from deplodock.dialects.elements import WIDE
from deplodock.dialects.precision import PRECISIONS
from deplodock.dialects.shapes import broadcast_shape, check_broadcast
from deplodock.dialects.tensor import element_of, shape_of
from deplodock.passes.torch.scalars import cast_op, comparison, is_nonzero, number_of, scalar_op

Ints: TypeAlias = tuple[int, ...]
"""A shape, or another list of integers of a schema."""

_ROUNDING = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)


@dataclass(frozen=True)
class TensorBuilder:
    """Inserts operations before the one that a pattern rewrites, with its location.

    `narrow` is the half precision of the operation, computed in its wide type and rounded at the end. A builder that
    `rounds_steps` rounds each sum, product and quotient on the way, too. `precision` is that of the products of factors
    (`matmul.multiplied`).
    """

    rewriter: PatternRewriter
    location: LocationAttr
    narrow: Attribute | None = None
    rounds_steps: bool = False
    precision: str = PRECISIONS[0]

    def insert(self, op: Operation) -> list[Tensor]:
        """Insert an operation; returns its results. It and all in its regions get the location of what is rewritten."""
        for inner in op.walk():
            inner.location = self.location
        self.rewriter.insert(op)
        return [Tensor(result, self) for result in op.results]

    def constant(self, value: float, element: Attribute, shape: Sequence[int]) -> Tensor:
        """A splat: `value` at every index, as a scalar that is broadcast (a dense attribute would hold every element).

        Raises:
            ValueError: the element type cannot hold the value.
        """
        if element in WIDE:
            return self.constant(value, WIDE[element], ()).cast(element).broadcast(shape)
        type = cast(TensorType[AnyFloat], TensorType(element, []))
        attribute = DenseIntOrFPElementsAttr.from_list(type, [number_of(value, element)])
        return self.insert(arith.ConstantOp(attribute))[0].broadcast(shape)

    def iota(self, dim: int, shape: Sequence[int]) -> Tensor:
        """The coordinate along a dimension at every index of a shape."""
        return self.insert(tensor.IotaOp(dim, TensorType(i64, shape)))[0]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor value, and the builder that inserts what is computed from it; `/` rounds integers towards zero."""

    ssa: SSAValue
    build: TensorBuilder

    @property
    def shape(self) -> Ints:
        """The extents of the dimensions."""
        return shape_of(self.ssa)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def element(self) -> Attribute:
        """The type of the elements."""
        return element_of(self.ssa)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return isinstance(self.element, AnyFloat)

    def named(self, name: str) -> Tensor:
        """The tensor, whose value was just computed and is printed under this name."""
        self.ssa.name_hint = name
        return self

    def allowing(self, *flags: FastMathFlag) -> Tensor:
        """The tensor, which was just computed by an operation that may be rewritten as these flags of LLVM say."""
        if isinstance(op := self.ssa.owner, tensor.ElementwiseOp):
            for scalar in op.body.block.ops:
                if isinstance(scalar, arith.AddfOp | arith.MulfOp | arith.DivfOp | math.ExpOp):
                    scalar.fastmath = arith.FastMathFlagsAttr(flags)
        return self

    def in_steps(self) -> Tensor:
        """The tensor, from which each step rounds, as in those kernels of PyTorch that compute in half precision."""
        return Tensor(self.ssa, replace(self.build, rounds_steps=True))

    def like(self, value: Operand) -> Tensor:
        """A number at every index of this shape, as an element of this type; a tensor is itself."""
        return value if isinstance(value, Tensor) else self.build.constant(value, self.element, self.shape)

    def map(self, op_class: type[Operation], *others: Operand) -> Tensor:
        """One scalar operation at every index."""
        inputs = broadcast(self, *(self.like(other) for other in others))
        (value,) = self.build.insert(tensor.ElementwiseOp.of(op_class, *(x.ssa for x in inputs)))
        if self.build.rounds_steps and self.build.narrow is not None and op_class in _ROUNDING:
            value = value.cast(self.build.narrow).cast(value.element)
        return value

    def apply(self, operation: str, *others: Operand) -> Tensor:
        """An arithmetic operation, such as `add`, in the form for the element type."""
        return self.map(scalar_op(operation, self.element), *others)

    def compare(self, predicate: str, other: Operand) -> Tensor:
        """`eq`, `ne`, `lt`, `le`, `gt` or `ge` at every index; with NaN only `ne` holds."""
        x, y = (side.widen() for side in broadcast(self, self.like(other)))
        body = comparison(predicate, x.element)
        return self.build.insert(tensor.ElementwiseOp([x.ssa, y.ssa], [TensorType(i1, x.shape)], body))[0]

    def __neg__(self) -> Tensor:
        return self.map(arith.NegfOp) if self.is_float else 0 - self

    def __abs__(self) -> Tensor:
        return self.apply("abs")

    def __add__(self, other: Operand) -> Tensor:
        return self.apply("add", other)

    def __sub__(self, other: Operand) -> Tensor:
        return self.apply("sub", other)

    def __mul__(self, other: Operand) -> Tensor:
        return self.apply("mul", other)

    def __truediv__(self, other: Operand) -> Tensor:
        return self.apply("div", other)

    def __radd__(self, other: float) -> Tensor:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Tensor:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Tensor:
        return self.like(other) / self

    def __and__(self, other: Tensor) -> Tensor:
        return self.map(arith.AndIOp, other)

    def __xor__(self, other: Operand) -> Tensor:
        return self.map(arith.XOrIOp, other)

    def __lt__(self, other: Operand) -> Tensor:
        return self.compare("lt", other)

    def __le__(self, other: Operand) -> Tensor:
        return self.compare("le", other)

    def __gt__(self, other: Operand) -> Tensor:
        return self.compare("gt", other)

    def __ge__(self, other: Operand) -> Tensor:
        return self.compare("ge", other)

    def __eq__(self, other: Operand) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.compare("eq", other)

    def __ne__(self, other: Operand) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.compare("ne", other)

    def cast(self, element: Attribute) -> Tensor:
        """Convert the elements: floats to integers truncate, anything but zero is true.

        A narrow type is converted to and from its wide one alone, as PyTorch does it.
        """
        source = self.element
        if source == element:
            return self
        if source in WIDE and element != WIDE[source]:
            return self.widen().cast(element)
        if element in WIDE and source != WIDE[element]:
            return self.cast(WIDE[element]).cast(element)
        if element == i1:
            op = tensor.ElementwiseOp([self.ssa], [TensorType(i1, self.shape)], is_nonzero(source))
        else:
            op = tensor.ElementwiseOp.of(cast_op(source, element), self.ssa, result_element=element)
        return self.build.insert(op)[0]

    def cast_bits(self, element: Attribute) -> Tensor:
        """The same bits as elements of another type of their width."""
        return self.build.insert(tensor.ElementwiseOp.of(arith.BitcastOp, self.ssa, result_element=element))[0]

    def widen(self) -> Tensor:
        """The elements in the type in which they are computed."""
        return self.cast(WIDE.get(self.element, self.element))

    def reduce(self, operation: str, dims: Sequence[int], name: str | None = None) -> Tensor:
        """Fold `dims` with `add`, `mul`, `maximum` or `minimum`; without dims the tensor itself, under its own name."""
        value, dims = self._without_repeats(dims) if operation in ("maximum", "minimum") else (self, dims)
        if not dims:
            return value
        op = tensor.ReduceOp.of(scalar_op(operation, value.element), value.ssa, sorted(dims))
        op.outputs[0].name_hint = name
        return self.build.insert(op)[0]

    def _without_repeats(self, dims: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """A tensor and dimensions with the same extremes: those along which it only repeats its elements left out."""
        op, shape = self.ssa.owner, self.shape
        if not isinstance(op, tensor.IndexMapOp):
            return self, dims
        used = op.map.data.used_dims()
        idle = {dim for dim in dims if dim not in used and shape[dim] > 0}
        if not idle:
            return self, dims
        kept = [dim for dim in range(len(shape)) if dim not in idle]
        new = {dim: AffineExpr.dimension(place) for place, dim in enumerate(kept)}
        renamed = [new.get(dim, AffineExpr.constant(0)) for dim in range(len(shape))]
        map = op.map.data.replace_dims_and_symbols(renamed, [], len(kept), 0)
        value = Tensor(op.source, self.build).index_map(map, [shape[dim] for dim in kept])
        return value, [place for place, dim in enumerate(kept) if dim in dims]

    def sum(self, dims: Sequence[int], name: str | None = "sum") -> Tensor:
        """The sum over `dims`."""
        return self.reduce("add", dims, name)

    def max(self, dims: Sequence[int], name: str = "max") -> Tensor:
        """The largest element over `dims`; NaN is larger than all."""
        return self.reduce("maximum", dims, name)

    def mean(self, dims: Sequence[int]) -> Tensor:
        """The sum over `dims` divided by the number of elements; a power of two is an exact multiplication instead."""
        total, count = self.sum(dims), prod(self.shape[dim] for dim in dims)
        if count == 1:
            return total
        is_power_of_two = count & (count - 1) == 0 and count > 0
        return (total * (1 / count) if is_power_of_two else total / count).named("mean")

    def index_map(self, map: AffineMap, shape: Sequence[int]) -> Tensor:
        """Read the tensor through a map; the tensor itself if that changes nothing."""
        return self._through(tensor.IndexMapOp, map, shape)

    def read(self, sources: Sequence[AffineExpr], shape: Sequence[int]) -> Tensor:
        """A tensor of this shape, whose element is that at `sources`, in terms of its own index."""
        return self.index_map(AffineMap(len(shape), 0, tuple(sources)), shape)

    def along(self, dim: int, source: AffineExpr, extent: int) -> Tensor:
        """Read one dimension at `source`, in terms of its own index, of which there are so many."""
        shape = [*self.shape[:dim], extent, *self.shape[dim + 1 :]]
        return self.index_map(dim_map(self.rank, dim, source), shape)

    def broadcast(self, shape: Sequence[int]) -> Tensor:
        """Broadcast to a shape, aligned at the last dimension."""
        return self.index_map(broadcast_map(self.shape, shape), shape)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """The same elements in row-major order."""
        return self.index_map(reshape_map(self.shape, shape), shape)

    def spread(self, dims: Sequence[int], shape: Sequence[int]) -> Tensor:
        """Undo a reduction of `dims`: the tensor repeated along them."""
        return self.read([AffineExpr.dimension(d) for d in range(len(shape)) if d not in dims], shape)

    def padded(self, map: AffineMap, shape: Sequence[int]) -> Tensor:
        """Read the tensor through a map, with 0 where that leads outside; the tensor itself if it changes nothing."""
        return self._through(tensor.PadOp, map, shape)

    def _through(self, kind: type[tensor.IndexMapOp | tensor.PadOp], map: AffineMap, shape: Sequence[int]) -> Tensor:
        if tuple(shape) == self.shape and map == AffineMap.identity(len(shape)):
            return self
        op = kind(self.ssa, map, shape)
        op.result.name_hint = self.ssa.name_hint
        return self.build.insert(op)[0]

    def gather(self, indices: Sequence[Tensor], map: AffineMap) -> Tensor:
        """Read the tensor through a map whose symbols are the elements of `indices`."""
        return self.build.insert(tensor.GatherOp(self.ssa, [index.ssa for index in indices], map))[0]


Operand: TypeAlias = Tensor | float
"""A number stands for a tensor that holds it at every index."""


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """All tensors broadcast to one shape. Raises ValueError if there is none."""
    if all(x.shape == tensors[0].shape for x in tensors):
        return list(tensors)
    shape = broadcast_shape(*(x.shape for x in tensors))
    return [x.broadcast(shape) for x in tensors]


def alike(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """Two operands as tensors, of which one at least is one, and a number is like the other."""
    like = x if isinstance(x, Tensor) else y
    assert isinstance(like, Tensor)
    return like.like(x), like.like(y)


def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """`x` where the condition holds, else `y`; one of them at least is a tensor."""
    inputs = broadcast(condition, *alike(x, y))
    op = tensor.ElementwiseOp.of(arith.SelectOp, *(x.ssa for x in inputs), result_element=inputs[1].element)
    return condition.build.insert(op)[0]


def concat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other along a dimension; the tensor itself if it is one."""
    if len(tensors) == 1:
        return tensors[0]
    return tensors[0].build.insert(tensor.ConcatOp([x.ssa for x in tensors], dim))[0]


def maximum(x: Tensor, y: Operand) -> Tensor:
    """The larger one; NaN is larger than all."""
    return x.apply("maximum", y)


def minimum(x: Tensor, y: Operand) -> Tensor:
    """The smaller one; NaN is smaller than all."""
    return x.apply("minimum", y)


def _function(op_class: type[Operation]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.map(op_class)


exp = _function(math.ExpOp)
log = _function(math.LogOp)
log1p = _function(math.Log1pOp)
sqrt = _function(math.SqrtOp)
rsqrt = _function(math.RsqrtOp)
erf = _function(math.ErfOp)
tanh = _function(math.TanhOp)
floor = _function(math.FloorOp)
trunc = _function(math.TruncOp)


_ZERO = AffineExpr.constant(0)


def broadcast_map(source: Sequence[int], target: Sequence[int]) -> AffineMap:
    """The map that reads `source` as if it had the shape `target`, as numpy broadcasts.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    check_broadcast(source, target)
    offset = len(target) - len(source)
    results = [AffineExpr.dimension(offset + i) if n == target[offset + i] else _ZERO for i, n in enumerate(source)]
    return AffineMap(len(target), 0, tuple(results))


def permutation_map(dims: Sequence[int]) -> AffineMap:
    """The map of a permutation: dimension `i` of the result walks dimension `dims[i]` of the source."""
    position = {dim: i for i, dim in enumerate(dims)}
    return AffineMap(len(dims), 0, tuple(AffineExpr.dimension(position[dim]) for dim in range(len(dims))))


def dim_map(rank: int, dim: int, source: AffineExpr, symbols: int = 0) -> AffineMap:
    """The identity of a rank but for one dimension, whose source is the given expression."""
    return AffineMap(rank, symbols, tuple(source if d == dim else AffineExpr.dimension(d) for d in range(rank)))


def reshape_map(source: Sequence[int], target: Sequence[int]) -> AffineMap:
    """The map of a row-major reshape; a dimension that the reshape keeps stays a plain dimension.

    Raises:
        ValueError: the shapes do not hold the same number of elements.
    """
    if prod(source) != prod(target):
        raise ValueError(f"shape {list(source)} holds {prod(source)} elements, {list(target)} {prod(target)}")
    results = [_ZERO] * len(source)
    if 0 not in source:
        for source_dims, target_dims in _groups(source, target):
            terms = list(zip(target_dims, _strides([target[d] for d in target_dims]), strict=True))
            strides = _strides([source[d] for d in source_dims])
            for dim, stride in zip(source_dims, strides, strict=True):
                modulus = None if dim == source_dims[0] else source[dim]
                results[dim] = _digit(terms, target, stride, modulus)
    return AffineMap(len(target), 0, tuple(results))


def _groups(source: Sequence[int], target: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The shortest runs of non-unit dimensions of both shapes that hold the same number of elements."""
    left = [d for d, n in enumerate(source) if n != 1]
    right = [d for d, n in enumerate(target) if n != 1]
    while left:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        while (a := prod(source[d] for d in ours)) != (b := prod(target[d] for d in theirs)):
            if a < b:
                ours.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        yield ours, theirs


def _strides(extents: Sequence[int]) -> list[int]:
    return [prod(extents[i + 1 :]) for i in range(len(extents))]


def _digit(terms: Sequence[tuple[int, int]], extents: Sequence[int], stride: int, modulus: int | None) -> AffineExpr:
    """`(sum of d * s over the terms) floordiv stride mod modulus`, without the parts that the extents make idle."""
    whole = [(d, s // stride) for d, s in terms if s % stride == 0]
    rest = [(d, s) for d, s in terms if s % stride != 0]
    if modulus is not None:
        whole = [(d, s) for d, s in whole if s % modulus != 0]
    highest = _highest(whole, extents) + _highest(rest, extents) // stride
    expression = _sum(whole)
    if _highest(rest, extents) >= stride:
        part = _sum(rest) // stride
        expression = expression + part if whole else part
    return expression if modulus is None or highest < modulus else expression % modulus


def _sum(terms: Sequence[tuple[int, int]]) -> AffineExpr:
    expression: AffineExpr | None = None
    for dim, factor in terms:
        term = AffineExpr.dimension(dim) * factor if factor != 1 else AffineExpr.dimension(dim)
        expression = term if expression is None else expression + term
    return _ZERO if expression is None else expression


def _highest(terms: Sequence[tuple[int, int]], extents: Sequence[int]) -> int:
    return sum((extents[dim] - 1) * factor for dim, factor in terms)
