"""What fusion and the lowering to loops read off tensor operations.

That is along which dimensions values vary, which elements of its operands an operation needs, and which reductions
are contractions. An index into a tensor is a tuple of linear forms over axes, each the induction variable of a loop, in
the program already or not.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_of, form_of
from deplodock.analysis.machine.cost import Work, code_size, element_work
from deplodock.analysis.shape.roles import WIDENING_CASTS
from deplodock.dialects import loop, scalar_regions
from deplodock.dialects.math_ext import WithLowPartOp
from deplodock.dialects.tensor import (
    ConcatOp,
    ElementwiseOp,
    GatherOp,
    IndexMapOp,
    IotaOp,
    PadOp,
    ReduceOp,
    ScanOp,
    element_of,
    shape_of,
)

Index = tuple[Linear, ...]

ZERO = Linear()
"""The index of a dimension along which nothing varies."""


def new_loop(extent: int) -> loop.ForOp:
    """A free loop with an empty body, to be filled and placed later or to stand for an axis."""
    return loop.ForOp(extent, Region(Block(arg_types=[IndexType()])))


def axis_of(form: Linear) -> SSAValue | None:
    """The axis whose coordinate a form is, or None if it is something else."""
    if form.constant or len(form.terms) != 1:
        return None
    atom, coefficient = form.terms[0]
    return atom if coefficient == 1 and not isinstance(atom, Division) else None


def axes_in(index: Index) -> list[SSAValue]:
    """The distinct axes of an index, in order of appearance."""
    return list(dict.fromkeys(axis for form in index for axis in form.roots()))


def compose(map: AffineMap, index: Index) -> Index:
    """The index that `map` reads at `index`."""
    return tuple(substitute(form_of(expr, (), index), {}) for expr in map.results)


def rejoin(form: Linear) -> Linear:
    """Put quotients and remainders back together: `x floordiv c * c + x mod c` is `x`."""
    coefficients = dict(form.terms)
    for atom, low in form.terms:
        if not isinstance(atom, Division) or not atom.remainder:
            continue
        quotient = atom.form // atom.divisor
        for other, high in form.terms:
            if high != low * atom.divisor:
                continue
            if quotient.terms == ((other, 1),) and not quotient.constant:
                whole = atom.form
            elif isinstance(other, Division) and other.remainder and other.form == quotient:
                whole = atom.form % (atom.divisor * other.divisor)
            else:
                continue
            rest = {key: c for key, c in coefficients.items() if key not in (atom, other)}
            return rejoin(Linear(tuple(rest.items()), form.constant) + whole * low)
    return form


def substitute(form: Linear, values: Mapping[SSAValue, Linear]) -> Linear:
    """Replace axes in a form by other forms, and put quotients and remainders in it back together."""
    result = Linear(constant=form.constant)
    for atom, coefficient in form.terms:
        if isinstance(atom, Division):
            inner = substitute(atom.form, values)
            term = inner % atom.divisor if atom.remainder else inner // atom.divisor
        else:
            term = values.get(atom) or Linear.of(atom)
        result = result + term * coefficient
    return rejoin(result)


def walked_axes(index: Index, shape: Sequence[int]) -> list[SSAValue] | None:
    """The axes of an index if different points on them have different indices into a tensor of `shape`, else None.

    The index, flattened in row-major order, must be a number in mixed radix whose digits are axes, or the quotient and
    the remainder of one axis.
    """
    flat = ZERO
    for form, extent in zip(index, shape, strict=True):
        flat = rejoin(flat * max(extent, 1) + form)
    reach = 0
    for atom, coefficient in sorted(flat.terms, key=lambda term: abs(term[1])):
        bounds = Linear.of(atom).range()
        if bounds is None or abs(coefficient) <= reach:
            return None
        reach += abs(coefficient) * (bounds[1] - bounds[0])
    digits = dict(flat.terms)
    for axis in axes_in(index):
        form = Linear.of(axis)
        divisors = [atom.divisor for atom in digits if isinstance(atom, Division) and atom.form == form]
        if axis not in digits and len(divisors) == len(set(divisors)):
            return None
    return axes_in(index)


def unify(source: Index, target: Index, axes: Sequence[SSAValue]) -> dict[SSAValue, Linear] | None:
    """The values for `axes` that turn `source` into `target`, or None if `source` does not determine them all."""
    values: dict[SSAValue, Linear] = {}
    for form, wanted in zip(source, target, strict=True):
        axis = axis_of(form)
        if axis is not None and axis in axes:
            values.setdefault(axis, wanted)
    if len(values) < len(axes) or any(substitute(s, values) != t for s, t in zip(source, target, strict=True)):
        return None
    return values


def is_permutation(index: Index, shape: Sequence[int]) -> bool:
    """Whether each dimension that is not 1 runs along a whole axis of its own, so that each element is met once."""
    axes = [axis_of(form) for form, extent in zip(index, shape, strict=True) if extent != 1]
    extents = [extent for extent in shape if extent != 1]
    whole = all(axis is not None and extent_of(axis) == extent for axis, extent in zip(axes, extents, strict=True))
    return whole and len(set(axes)) == len(axes)


TensorOp = ElementwiseOp | IndexMapOp | ReduceOp | ScanOp | IotaOp | GatherOp | PadOp | ConcatOp | arith.ConstantOp
"""The operations that a kernel is made of."""

Operands: TypeAlias = tuple[tuple[SSAValue, Index], ...]
"""Values, each with the index at which it is needed."""

_Question: TypeAlias = tuple[TensorOp, Index, tuple[SSAValue, ...]]

_NARROWING_CASTS = (arith.TruncFOp, arith.FPToSIOp, arith.TruncIOp)
_CASTS = (*WIDENING_CASTS, *_NARROWING_CASTS)


def bytes_of(value: SSAValue) -> int:
    """The bytes of a tensor value in memory."""
    return prod(shape_of(value)) * element_bytes(element_of(value))


def widens(op: Operation) -> bool:
    """Whether an operation does nothing but give elements in a type of more bytes, in their places or others."""
    while isinstance(op, IndexMapOp) and isinstance(op.source.owner, Operation):
        op = op.source.owner
    return _bytes_added(op, WIDENING_CASTS) > 0


def narrows(op: Operation | Block) -> bool:
    """Whether an operation does nothing but give elements in a type of fewer bytes."""
    return _bytes_added(op, _NARROWING_CASTS) < 0


def _bytes_added(op: Operation | Block, casts: tuple[type[Operation], ...]) -> int:
    """How many more bytes the result of an operation has that does nothing but some casts; 0 for any other."""
    if not isinstance(op, ElementwiseOp) or len(op.inputs) != 1 or len(op.outputs) != 1:
        return 0
    *inner, _ = op.body.block.ops
    return bytes_of(op.outputs[0]) - bytes_of(op.inputs[0]) if all(isinstance(each, casts) for each in inner) else 0


def splat_of(op: arith.ConstantOp) -> Attribute | None:
    """The one value of a tensor constant as a scalar (0 where the tensor is empty), or None if there are several."""
    elements = op.value
    if not isinstance(elements, DenseIntOrFPElementsAttr):
        return None
    data, count = elements.data.data, prod(elements.get_shape() or ())
    type = elements.get_element_type()
    if count == 0:
        return FloatAttr(0.0, type) if isinstance(type, AnyFloat) else IntegerAttr(0, cast(IntegerType, type))
    width = len(data) // count
    return next(iter(elements.iter_attrs())) if data == data[:width] * count else None


def dependence(block: Block) -> dict[SSAValue, frozenset[int]]:
    """For each value of a block of tensor operations, the dimensions along which its elements may differ."""
    varies: dict[SSAValue, frozenset[int]] = {}
    for argument in block.args:
        varies[argument] = _long_dims(argument)
    for op in block.ops:
        for result in op.results:
            varies[result] = _result_dependence(op, result, varies)
    return varies


def _long_dims(value: SSAValue) -> frozenset[int]:
    return frozenset(d for d, extent in enumerate(shape_of(value)) if extent != 1)


def _result_dependence(op: Operation, result: SSAValue, varies: dict[SSAValue, frozenset[int]]) -> frozenset[int]:
    match op:
        case arith.ConstantOp() if splat_of(op) is not None:
            return frozenset()
        case ElementwiseOp():
            return frozenset[int]().union(*(varies[value] for value in op.inputs))
        case ScanOp():
            return _long_dims(result) & {op.dim.value.data}.union(*(varies[value] for value in op.inputs))
        case ReduceOp():
            kept = [d for d in range(len(shape_of(op.inputs[0]))) if d not in op.reduced]
            source = frozenset[int]().union(*(varies[value] for value in op.inputs))
            return frozenset(i for i, d in enumerate(kept) if d in source)
        case IndexMapOp() | GatherOp():
            exprs = [expr for d, expr in enumerate(op.map.data.results) if d in varies[op.source]]
            used = frozenset(d for expr in exprs for d in expr.used_dims())
            at = op.indices if isinstance(op, GatherOp) else ()
            return _long_dims(result) & used.union(*(varies[value] for value in at))
        case IotaOp():
            return _long_dims(result) & {op.dim.value.data}
        case _:
            return _long_dims(result)


@dataclass(frozen=True)
class Span:
    """The axes of an index, and the points of their space."""

    axes: frozenset[SSAValue]
    points: int


@dataclass(frozen=True)
class Demand:
    """Which elements of its operands an operation needs; indices are 0 where the value does not vary.

    Answers are remembered, as fusion asks again and again: the operations must stay as they are meanwhile.
    """

    varies: dict[SSAValue, frozenset[int]]
    _operands: dict[_Question, Operands] = field(default_factory=dict[_Question, Operands], init=False, repr=False)
    _contractions: dict[ReduceOp, bool] = field(default_factory=dict[ReduceOp, bool], init=False, repr=False)
    _axes: dict[ReduceOp, tuple[SSAValue, ...]] = field(
        default_factory=dict[ReduceOp, tuple[SSAValue, ...]], init=False, repr=False
    )
    _works: dict[Operation, tuple[Work, int]] = field(
        default_factory=dict[Operation, tuple[Work, int]], init=False, repr=False
    )
    _extents: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int], init=False, repr=False)
    _bytes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int], init=False, repr=False)
    _spans: dict[Index, Span] = field(default_factory=dict[Index, Span], init=False, repr=False)

    def normal(self, value: SSAValue, index: Index) -> Index:
        """The index with 0 in the dimensions along which `value` does not vary."""
        varies = self.varies[value]
        return tuple(form if d in varies else ZERO for d, form in enumerate(index))

    def operands(self, op: TensorOp, index: Index, axes: Sequence[SSAValue]) -> Operands:
        """Each operand of `op` with the index at which the element `index` of its results needs it.

        `axes` are those that the reduction runs over, one for each of its `long_axes`. What a gather reads where its
        index tensors say, what a pad reads, and the parts of a concat, are not among them.
        """
        question = op, index, tuple(axes)
        if (known := self._operands.get(question)) is None:
            known = self._operands[question] = tuple(self._needed(*question))
        return known

    def _needed(self, op: TensorOp, index: Index, axes: Sequence[SSAValue]) -> list[tuple[SSAValue, Index]]:
        match op:
            case ElementwiseOp() | ScanOp():
                return [(value, self.normal(value, index)) for value in op.inputs]
            case IndexMapOp():
                return [(op.source, self.normal(op.source, compose(op.map.data, index)))]
            case ReduceOp():
                inner = dict(zip(long_axes(op), map(Linear.of, axes), strict=True))
                outer = iter(index)
                dims = range(len(shape_of(op.inputs[0])))
                whole = tuple(inner.get(d, ZERO) if d in op.reduced else next(outer) for d in dims)
                return [(value, self.normal(value, whole)) for value in op.inputs]
            case GatherOp():
                return [(value, self.normal(value, index)) for value in op.indices]
            case IotaOp() | PadOp() | ConcatOp() | arith.ConstantOp():
                return []

    def axes(self, op: ReduceOp) -> tuple[SSAValue, ...]:
        """The axes that a reduction runs over where nothing else is said, one for each of its `long_axes`."""
        if (known := self._axes.get(op)) is None:
            shape = shape_of(op.inputs[0])
            known = self._axes[op] = tuple(new_loop(shape[d]).iv for d in long_axes(op))
        return known

    def contracts(self, op: ReduceOp) -> bool:
        """Whether a reduction is a contraction: see `is_contraction`."""
        if (known := self._contractions.get(op)) is None:
            known = self._contractions[op] = is_contraction(op, self.varies)
        return known

    def work(self, op: Operation) -> tuple[Work, int]:
        """The work for one element of an operation, and the instructions that nvcc makes of its scalar operations."""
        if (known := self._works.get(op)) is None:
            known = self._works[op] = element_work(op), code_size(op)
        return known

    def volume(self, axes: Iterable[SSAValue]) -> int:
        """The points of a space of axes."""
        points = 1
        for axis in axes:
            if (extent := self._extents.get(axis)) is None:
                extent = self._extents[axis] = extent_of(axis) or 0
            points *= extent
        return points

    def span(self, index: Index) -> Span:
        """What an index walks over."""
        if (known := self._spans.get(index)) is None:
            axes = axes_in(index)
            known = self._spans[index] = Span(frozenset(axes), self.volume(axes))
        return known

    def bytes(self, value: SSAValue) -> int:
        """The bytes of a tensor value in memory."""
        if (known := self._bytes.get(value)) is None:
            known = self._bytes[value] = bytes_of(value)
        return known

    def factors(
        self, op: ReduceOp, index: Index, axes: Sequence[SSAValue], stored: Container[SSAValue] = ()
    ) -> list[tuple[SSAValue, Index]]:
        """What a sum of products multiplies along its `axes`, as it lies in memory, at the element `index` of the sum.

        Index maps, casts to wider types and further products are looked through, as far as they are not stored.
        """
        found: list[tuple[SSAValue, Index]] = []
        pending = list(self.operands(op, index, axes))
        while pending:
            value, at = pending.pop()
            source = value.owner
            is_step = isinstance(source, IndexMapOp) or (_factors(value, self.varies) and not narrows(source))
            if is_step and value not in stored:
                assert isinstance(source, IndexMapOp | ElementwiseOp)
                pending += self.operands(source, at, ())
            elif any(axis in axes for axis in axes_in(at)):
                found.append((value, at))
        return found


def long_axes(op: ReduceOp) -> list[int]:
    """The reduced dimensions that need a loop: those of an extent other than 1."""
    shape = shape_of(op.inputs[0])
    return [d for d in op.reduced if shape[d] != 1]


@dataclass(frozen=True)
class Course:
    """The axis that a scan runs along, and whether backwards, from its last coordinate to the first."""

    axis: SSAValue
    backwards: bool

    @staticmethod
    def of(op: ScanOp, index: Index) -> Course | None:
        """The course of a scan whose results are needed at an index; None where it is not that of one axis.

        Along that axis each other coordinate stays the same, which it does not on a diagonal.
        """
        along = op.dim.value.data
        form, others = index[along], index[:along] + index[along + 1 :]
        flipped = -form + (shape_of(op.inputs[0])[along] - 1)
        for place, backwards in ((form, False), (flipped, True)):
            if (axis := axis_of(place)) is not None and axis not in axes_in(others):
                return Course(axis, backwards != bool(op.reverse))
        return None


def is_contraction(op: ReduceOp, varies: dict[SSAValue, frozenset[int]]) -> bool:
    """Whether `op` adds products of two values, each of which varies along a free dimension that the other does not."""
    names = scalar_regions.short_combiner(op.combiner, op.identities)
    if names not in (["arith.addf"], ["arith.addi"]):
        return False
    value, reduced = op.inputs[0], frozenset(op.reduced)
    while (factors := _factors(value, varies)) is not None:
        for (_, left), (_, right) in combinations(factors, 2):
            if left - right - reduced and right - left - reduced:
                return True
        value = max(factors, key=lambda factor: len(factor[1]))[0]
    return False


def knows_low_part(op: Operation) -> bool:
    """Whether an operation does nothing but give a value together with its low part."""
    return isinstance(op, ElementwiseOp) and isinstance(op.body.block.first_op, WithLowPartOp)


def _factors(value: SSAValue, varies: dict[SSAValue, frozenset[int]]) -> list[tuple[SSAValue, frozenset[int]]] | None:
    """The tensors that `value` multiplies elementwise, or the one that it casts, and the dimensions they vary along."""
    op = value.owner
    if not isinstance(op, ElementwiseOp) or len(op.outputs) != 1 or len(list(op.body.block.ops)) != 2:
        return None
    product = op.body.block.first_op
    if not isinstance(product, (arith.MulfOp, arith.MuliOp, *_CASTS)):
        return None
    arguments = [cast(BlockArgument, scalar) for scalar in product.operands]
    return [(op.inputs[argument.index], varies[op.inputs[argument.index]]) for argument in arguments]


def reducing(block: Block) -> set[SSAValue]:
    """The values of a block that a reduction takes part in computing."""
    found: set[SSAValue] = set()
    for op in block.ops:
        if isinstance(op, ReduceOp) or any(value in found for value in op.operands):
            found.update(op.results)
    return found
