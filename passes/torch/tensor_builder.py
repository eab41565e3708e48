"""Builds tensor_ext operations in a rewrite, by the short names that the decompositions use."""

from __future__ import annotations

import math as math_module
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects import tensor
from deplodock.dialects.elements import WIDE, ui8
from deplodock.dialects.tensor import element_of, shape_of
from deplodock.passes.torch.index_maps import broadcast_map, broadcast_shape, reshape_map

# The scalar operations of each arithmetic operation: on floats, on integers.
_OPS: dict[str, tuple[type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp),
    "div": (arith.DivfOp, arith.DivSIOp),
    "pow": (math.PowFOp, math.IPowIOp),
    "maximum": (arith.MaximumfOp, arith.MaxSIOp),
    "minimum": (arith.MinimumfOp, arith.MinSIOp),
    "fmax": (arith.MaxnumfOp, arith.MaxSIOp),
    "fmin": (arith.MinnumfOp, arith.MinSIOp),
    "abs": (math.AbsFOp, math.AbsIOp),
}

_ROUNDING = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)

# On i1, whose true is -1 as a signed number; PyTorch adds booleans as 0 and 1, and 2 is true.
_BOOL_OPS: dict[str, type[Operation]] = {
    **dict.fromkeys(("maximum", "fmax", "add"), arith.OrIOp),
    **dict.fromkeys(("minimum", "fmin"), arith.AndIOp),
}

# The predicates of each comparison: on floats, signed integers and i1.
_PREDICATES = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}

_Op = TypeVar("_Op", bound=Operation)


@dataclass
class TensorBuilder:
    """Inserts tensor_ext operations before the operation that a pattern rewrites; `name` is the hint of the result.

    `narrow` is the half precision of the operation, computed in its wide type and rounded at the end. A builder that
    `rounds_steps` rounds each sum, product and quotient on the way, too.
    """

    rewriter: PatternRewriter
    location: LocationAttr
    narrow: Attribute | None = None
    rounds_steps: bool = False

    def in_steps(self) -> TensorBuilder:
        """A builder that rounds each step, as those kernels of PyTorch do that compute in half precision."""
        return replace(self, rounds_steps=True)

    def constant(self, value: float, element: Attribute, shape: Sequence[int]) -> SSAValue:
        """A splat: `value` at every index, as a scalar that is broadcast (a dense attribute would hold every element).

        Raises:
            ValueError: the element type cannot hold the value.
        """
        if element in WIDE:
            return self.broadcast(self.cast(self.constant(value, WIDE[element], ()), element), shape)
        number = _number(value, element)
        type = cast(TensorType[AnyFloat], TensorType(element, []))
        scalar = self.insert(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, [number]))).results[0]
        return self.broadcast(scalar, shape)

    def constant_like(self, value: float, like: SSAValue) -> SSAValue:
        """A splat of the type of `like`."""
        return self.constant(value, element_of(like), shape_of(like))

    def map(self, op_class: type[Operation], *inputs: SSAValue, name: str | None = None) -> SSAValue:
        """One scalar operation at every index of inputs of one shape."""
        value = self.insert(tensor.ElementwiseOp.of(op_class, *inputs)).outputs[0]
        if self.rounds_steps and self.narrow is not None and op_class in _ROUNDING:
            value = self.cast(self.cast(value, self.narrow), element_of(value))
        return self._named(value, name)

    def apply(self, operation: str, *inputs: SSAValue, name: str | None = None) -> SSAValue:
        """An arithmetic operation of `_OPS`, such as `add`, in the form for the element type."""
        return self.map(self._op_class(operation, inputs[0]), *inputs, name=name)

    def reduce(self, operation: str, value: SSAValue, dims: Sequence[int], *, name: str | None = None) -> SSAValue:
        """Fold `dims` with `add`, `mul`, `maximum` or `minimum`; without dims the value itself."""
        if operation in ("maximum", "minimum"):
            value, dims = self._without_repeats(value, dims)
        if not dims:
            return value
        op = tensor.ReduceOp.of(self._op_class(operation, value), value, sorted(dims))
        return self._named(self.insert(op).outputs[0], name)

    def _without_repeats(self, value: SSAValue, dims: Sequence[int]) -> tuple[SSAValue, list[int]]:
        """A value and dimensions with the same extremes: those along which it only repeats its elements left out."""
        op, shape = value.owner, shape_of(value)
        if not isinstance(op, tensor.IndexMapOp):
            return value, list(dims)
        used = op.map.data.used_dims()
        idle = {dim for dim in dims if dim not in used and shape[dim] > 0}
        if not idle:
            return value, list(dims)
        kept = [dim for dim in range(len(shape)) if dim not in idle]
        new = {dim: AffineExpr.dimension(place) for place, dim in enumerate(kept)}
        renamed = [new.get(dim, AffineExpr.constant(0)) for dim in range(len(shape))]
        map = op.map.data.replace_dims_and_symbols(renamed, [], len(kept), 0)
        value = self.index_map(op.source, map, [shape[dim] for dim in kept])
        return value, [place for place, dim in enumerate(kept) if dim in dims]

    def compare(self, predicate: str, x: SSAValue, y: SSAValue, name: str | None = None) -> SSAValue:
        """`eq`, `ne`, `lt`, `le`, `gt` or `ge` at every index; with NaN only `ne` holds."""
        x, y = self.widen(x), self.widen(y)
        element = element_of(x)
        on_floats, on_integers, on_bools = _PREDICATES[predicate]
        block = Block(arg_types=[element, element])
        if isinstance(element, AnyFloat):
            op = arith.CmpfOp(block.args[0], block.args[1], on_floats)
        else:
            op = arith.CmpiOp(block.args[0], block.args[1], on_bools if element == i1 else on_integers)
        block.add_ops([op, tensor.YieldOp(op.result)])
        result = tensor.ElementwiseOp([x, y], [TensorType(i1, shape_of(x))], Region(block))
        return self._named(self.insert(result).outputs[0], name)

    def compare_with(self, predicate: str, x: SSAValue, number: float, name: str | None = None) -> SSAValue:
        """A comparison with a number."""
        return self.compare(predicate, x, self.constant_like(number, x), name)

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue, name: str | None = None) -> SSAValue:
        """`x` where the condition holds, else `y`."""
        op = tensor.ElementwiseOp.of(arith.SelectOp, condition, x, y, result_element=element_of(x))
        return self._named(self.insert(op).outputs[0], name)

    def iota(self, dim: int, shape: Sequence[int]) -> SSAValue:
        """The coordinate along a dimension at every index of a shape."""
        return self.insert(tensor.IotaOp(dim, TensorType(i64, shape))).result

    def gather(self, source: SSAValue, indices: Sequence[SSAValue], map: AffineMap) -> SSAValue:
        """Read `source` through a map whose symbols are the elements of `indices`."""
        return self.insert(tensor.GatherOp(source, indices, map)).result

    def concat(self, values: Sequence[SSAValue], dim: int) -> SSAValue:
        """Tensors one after the other along a dimension; the tensor itself if it is one."""
        return values[0] if len(values) == 1 else self.insert(tensor.ConcatOp(values, dim)).result

    def index_map(self, value: SSAValue, map: AffineMap, shape: Sequence[int]) -> SSAValue:
        """Read `value` through a map; the value itself if that changes nothing."""
        if tuple(shape) == shape_of(value) and map == AffineMap.identity(len(shape)):
            return value
        return self._named(self.insert(tensor.IndexMapOp(value, map, shape)).result, value.name_hint)

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcast to a shape, aligned at the last dimension."""
        return self.index_map(value, broadcast_map(shape_of(value), shape), shape)

    def broadcast_all(self, *values: SSAValue) -> list[SSAValue]:
        """All values broadcast to one shape."""
        shape = broadcast_shape(*(shape_of(value) for value in values))
        return [self.broadcast(value, shape) for value in values]

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements in row-major order."""
        return self.index_map(value, reshape_map(shape_of(value), shape), shape)

    def spread(self, value: SSAValue, dims: Sequence[int], shape: Sequence[int]) -> SSAValue:
        """Undo a reduction of `dims`: the value repeated along them."""
        kept = [AffineExpr.dimension(d) for d in range(len(shape)) if d not in dims]
        return self.index_map(value, AffineMap(len(shape), 0, tuple(kept)), shape)

    def mean(self, value: SSAValue, dims: Sequence[int]) -> SSAValue:
        """The sum over `dims` divided by the number of elements; a power of two is an exact multiplication instead."""
        total = self.reduce("add", value, dims, name="sum")
        count = 1
        for dim in dims:
            count *= shape_of(value)[dim]
        if count == 1:
            return total
        if count & (count - 1) == 0 and count > 0:
            return self.map(arith.MulfOp, total, self.constant_like(1 / count, total), name="mean")
        return self.map(arith.DivfOp, total, self.constant_like(count, total), name="mean")

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """Convert the elements: floats to integers truncate, anything but zero is true.

        A narrow type is converted to and from its wide one alone, as PyTorch does it.
        """
        source = element_of(value)
        if source == element:
            return value
        if source in WIDE and element != WIDE[source]:
            return self.cast(self.widen(value), element)
        if element in WIDE and source != WIDE[element]:
            return self.cast(self.cast(value, WIDE[element]), element)
        if element == i1:
            body = _nonzero_body(source)
            op = tensor.ElementwiseOp([value], [TensorType(i1, shape_of(value))], body)
        else:
            op = tensor.ElementwiseOp.of(_cast_op(source, element), value, result_element=element)
        return self.insert(op).outputs[0]

    def cast_bits(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits as elements of another type of their width."""
        op = tensor.ElementwiseOp.of(arith.BitcastOp, value, result_element=element)
        return self.insert(op).outputs[0]

    def widen(self, value: SSAValue) -> SSAValue:
        """The elements in the type in which they are computed."""
        element = element_of(value)
        return self.cast(value, WIDE.get(element, element))

    def _op_class(self, operation: str, value: SSAValue) -> type[Operation]:
        on_floats, on_integers = _OPS[operation]
        if element_of(value) == i1:
            return _BOOL_OPS.get(operation, on_integers)
        return on_floats if isinstance(element_of(value), AnyFloat) else on_integers

    def insert(self, op: _Op) -> _Op:
        """Insert an operation before the one that is rewritten, with its source position."""
        op.location = self.location
        return self.rewriter.insert(op)

    def _named(self, value: SSAValue, name: str | None) -> SSAValue:
        value.name_hint = name
        return value


def _number(value: float, element: Attribute) -> float:
    """A number as one of the element type, out of an integer's range as PyTorch wraps it."""
    if isinstance(element, AnyFloat):
        return float(value)
    if not math_module.isfinite(value) or value != int(value):
        raise ValueError(f"{value} is no {element}; cast the tensor with torch.aten._to_copy first")
    if element == i1:
        return int(value != 0)
    return wrapped(int(value), element)


def wrapped(value: int, element: Attribute) -> int:
    """A number in the range of an integer type, wrapped around."""
    width = width_of(element)
    lowest = 0 if element == ui8 else -(1 << (width - 1))
    return (value - lowest) % (1 << width) + lowest


def filling(value: float, element: Attribute) -> float:
    """A number as PyTorch fills tensors with it: integers get it truncated, booleans whether it is not 0."""
    if element == i1:
        return int(value != 0)
    return value if isinstance(element, AnyFloat) or not math_module.isfinite(value) else int(value)


def _cast_op(source: Attribute, target: Attribute) -> type[Operation]:
    """The scalar conversion between two different element types; `i1` counts 0 and 1."""
    widens = width_of(target) > width_of(source)
    if isinstance(target, AnyFloat):
        if isinstance(source, AnyFloat):
            return arith.ExtFOp if widens else arith.TruncFOp
        return arith.UIToFPOp if source == i1 else arith.SIToFPOp
    if isinstance(source, AnyFloat):
        return arith.FPToSIOp
    if source in (i1, ui8):
        return arith.ExtUIOp
    return arith.ExtSIOp if widens else arith.TruncIOp


def width_of(element: Attribute) -> int:
    """The bits of an element."""
    return element.bitwidth if isinstance(element, AnyFloat) else element.width.data  # pyright: ignore


def _nonzero_body(element: Attribute) -> Region:
    """The scalar computation `x != 0`; NaN is not zero."""
    block = Block(arg_types=[element])
    if isinstance(element, AnyFloat):
        zero = arith.ConstantOp(FloatAttr(0.0, element))
        compare = arith.CmpfOp(block.args[0], zero.result, "une")
    else:
        zero = arith.ConstantOp(IntegerAttr(0, element))  # pyright: ignore
        compare = arith.CmpiOp(block.args[0], zero.result, "ne")
    block.add_ops([zero, compare, tensor.YieldOp(compare.result)])
    return Region(block)
