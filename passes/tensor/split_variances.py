"""split-variances: compute the sum of squared deviations from a mean in parts that are read once.

    %sum = reduce {addf} %x                            %sum_parts = reduce {addf} %parts
    %mean = %sum / n                                   %mean_parts = %sum_parts / length
    %sq = (%x - %mean)^2                       ->      %sq_parts = (%parts - %mean_parts)^2
    %sum_1 = reduce {addf} %sq                         %sum_parts_1 = reduce {addf} %sq_parts
                                                       %sum = reduce {addf} %sum_parts
                                                       %mean = %sum / n
                                                       %sum_1 = reduce {addf} %sum_parts_1
                                                                    + length * (%mean_parts - %mean)^2

The deviations of a part are those from its own mean, which the kernel that reads it knows: the part stays in registers
of its CTA. What that leaves out is the distance of the two means, as the deviations from a part's own mean add up to 0:
the formula of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances",
1979), for many parts of one length at once. So the elements are read once, not twice, and the parts are as many as the
target needs, however few the results are. A large mean costs no more digits than in Welford's updates, by which eager
computes variances on GPUs: the error grows with the ratio of mean to deviation, not with its square.

The square must allow that with `fastmath<reassoc>`; the decompositions of variances and norms do. Parts are cut from
the last dimensions that are reduced, as far as they lie side by side; the reduced dimensions before those are parts,
too. What is left over is added by the kernel that folds the parts. There are parts where that costs less on the target
(`analysis/machine/cost.py`) than a row for each result, which may be few or not fit on chip, and where split-reductions
would cut the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.cost import Rates, Work
from deplodock.analysis.machine.targets import ACCESS_BYTES, WARP, target_of
from deplodock.analysis.shape.fusion import Demand, bytes_of, dependence
from deplodock.analysis.shape.streaming import folds
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, ReduceOp, element_of, shape_of, tensor_of
from deplodock.passes.options import Integers, OptionsPass, option
from deplodock.passes.tensor.group import WORD, reduction_ns
from deplodock.passes.tensor.pricing import Pricing
from deplodock.passes.tensor.split_reductions import cut_of
from deplodock.passes.torch.reductions import squared_deviations
from deplodock.passes.torch.tensors import Tensor, TensorBuilder
from deplodock.schedule.choose.sizes import ROW_VALUES

_CUTS = 64
"""How many numbers of parts are weighed, from the least whose parts stay on chip."""


@dataclass(frozen=True)
class SplitVariancesPass(OptionsPass):
    """Compute sums of squared deviations in parts that are read once."""

    name = "split-variances"
    length: int | None = option(
        None, Integers((4, 64, 1024), least=2), "how long a part is at most, wherever that can be; by default what pays"
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for function in op.walk():
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                _split_all(function.body.block, target, self.length)


@dataclass(frozen=True)
class _Variance:
    """`squares` adds up the squared deviations of `x` from `mean`, and `total` all of `x` along the same dimensions."""

    x: SSAValue
    mean: SSAValue
    total: ReduceOp
    squares: ReduceOp


def _split_all(block: Block, target: TargetAttr, length: int | None) -> None:
    found = [variance for op in block.ops if isinstance(op, ReduceOp) and (variance := _variance(op)) is not None]
    if not found:
        return
    rates = Rates.of(target)
    positions = {op: position for position, op in enumerate(block.ops)}
    pricing = Pricing(Demand(dependence(block)), rates, positions)
    plans = [_Statistics.of(variance, pricing, target) for variance in found]
    splits = [length is not None or cut_of(variance.total, pricing, target) is not None for variance in found]
    for variance, plan, is_split in zip(found, plans, splits, strict=True):
        cut = min(plan.cuts(length), key=lambda cut: (plan.left(cut), plan.nanoseconds(cut)), default=None)
        if cut is not None and (is_split or plan.nanoseconds(cut) < plan.uncut):
            plan.split(variance, cut)


def _variance(squares: ReduceOp) -> _Variance | None:
    """The variance whose squares a reduction adds up, or None."""
    if not _adds(squares) or (centred := _squared(squares.inputs[0])) is None:
        return None
    if (operands := _operands(centred, arith.SubfOp)) is None:
        return None
    x, spread = operands
    source = spread.owner
    kept = [AffineExpr.dimension(d) for d in range(len(shape_of(x))) if d not in squares.reduced]
    if not isinstance(source, IndexMapOp) or list(source.map.data.results) != kept:
        return None
    others = (use.operation for use in x.uses)
    totals = [op for op in others if isinstance(op, ReduceOp) and _adds(op) and op.reduced == squares.reduced]
    return _Variance(x, source.source, totals[0], squares) if totals else None


def _adds(op: ReduceOp) -> bool:
    """Whether a reduction that may be cut is a sum of floats."""
    is_static = tensor_of(op.inputs[0]).has_static_shape()
    return is_static and not op.attributes and folds(op, "addf") and prod(shape_of(op.inputs[0])) > 0


def _squared(value: SSAValue) -> SSAValue | None:
    """What a value is the square of, if that allows for parts."""
    if (operands := _operands(value, arith.MulfOp)) is None or operands[0] is not operands[1]:
        return None
    assert isinstance(value.owner, ElementwiseOp)
    product = value.owner.body.block.first_op
    assert isinstance(product, arith.MulfOp)
    return operands[0] if FastMathFlag.REASSOC in product.fastmath.data else None


def _operands(value: SSAValue, of: type[arith.MulfOp | arith.SubfOp]) -> tuple[SSAValue, SSAValue] | None:
    """The operands of an elementwise operation that is one product or difference."""
    op = value.owner
    if not isinstance(op, ElementwiseOp) or op.attributes or len(list(op.body.block.ops)) != 2:
        return None
    scalar = op.body.block.first_op
    if not isinstance(scalar, of):
        return None
    left, right = scalar.operands
    assert isinstance(left, BlockArgument)
    assert isinstance(right, BlockArgument)
    return op.inputs[left.index], op.inputs[right.index]


@dataclass(frozen=True)
class _Cut:
    """`count` parts of `length` elements along the last dimension of `_Statistics.shape` that is reduced."""

    length: int
    count: int


@dataclass(frozen=True)
class _Statistics:
    """What a variance of elements costs in one kernel (`uncut`), and in parts.

    `shape` is that of the elements, where those of the last dimensions that are reduced are one, `dim`, and `before`
    are the reduced ones before it. Their rows have `row` elements. A part has at most `limit` elements. `moved`
    bytes are read, once in one kernel if the rows stay on chip, then `again` by the kernel that needs the variance.
    """

    shape: tuple[int, ...]
    dim: int
    before: tuple[int, ...]
    row: int
    limit: int
    vector: int
    rates: Rates
    moved: int
    work: Work
    again: float
    uncut: float

    @staticmethod
    def of(variance: _Variance, pricing: Pricing, target: TargetAttr) -> _Statistics:
        """The plan of a variance together with what its kernel computes before it."""
        rates, reduced = Rates.of(target), variance.squares.reduced
        whole, dim = shape_of(variance.x), reduced[-1]
        while dim - 1 in reduced:
            dim -= 1
        shape = (*whole[:dim], prod(whole[dim : reduced[-1] + 1]), *whole[reduced[-1] + 1 :])
        is_contiguous = prod(shape[dim + 1 :]) == 1
        limit = ROW_VALUES * (target.fact("threads_per_block") // 2 if is_contiguous else WARP)
        group = pricing.together(variance.squares, variance.total)
        overflows, (_, work) = group.rows_overflow(rates), group.traffic(rates)
        widest = max((element_bytes(element_of(value)) for value in group.reads), default=ACCESS_BYTES)
        return _Statistics(
            shape,
            dim,
            tuple(d for d in reduced if d < dim),
            _row(whole[dim + 1 : reduced[-1] + 1], limit),
            limit,
            ACCESS_BYTES // widest if is_contiguous else 1,
            rates,
            sum(map(bytes_of, group.reads)),
            work,
            0 if overflows else rates.launch_ns + rates.moving_ns(sum(map(bytes_of, group.reads))),
            group.nanoseconds(rates),
        )

    def cuts(self, length: int | None) -> Iterator[_Cut]:
        """The least number of parts that have at most `length` elements, by default `limit`, and some more.

        Parts are whole rows of memory, where these fit; else they start where wide accesses do.
        """
        extent, limit = self.shape[self.dim], length or self.limit
        unit = next((unit for unit in (self.row, self.vector) if 1 < unit <= limit), 1)
        has_parts = prod(self.shape[d] for d in self.before) > 1
        least = max(-(-extent // (limit // unit * unit)), 1 if has_parts else 2)
        for count in range(least, least + (1 if length else _CUTS)):
            cut = extent // unit // count * unit
            if cut > 1:
                yield _Cut(cut, extent // cut)

    def left(self, cut: _Cut) -> int:
        """The elements along `dim` that are in no part."""
        return self.shape[self.dim] - cut.count * cut.length

    def nanoseconds(self, cut: _Cut) -> float:
        """The cost of the two kernels of a cut, and of what reads the elements again."""
        rows = prod(n for d, n in enumerate(self.shape) if d != self.dim) * cut.count
        results = prod(n for d, n in enumerate(self.shape) if d != self.dim and d not in self.before)
        partial = 2 * WORD * rows
        first = reduction_ns(self.rates, self.moved, partial, self.work, self._parts(cut), [self._inner(cut)])
        last = self.moved * self.left(cut) // self.shape[self.dim] + partial
        return first + reduction_ns(self.rates, last, 0, Work(rows), (results, rows // results), [1]) + self.again

    def _parts(self, cut: _Cut) -> tuple[int, ...]:
        """The shape of the parts, which have a dimension of their own if there are several along `dim`."""
        counts = [cut.count] if cut.count > 1 else []
        return (*self.shape[: self.dim], *counts, cut.length, *self.shape[self.dim + 1 :])

    def _inner(self, cut: _Cut) -> int:
        """The dimension of a part's elements."""
        return self.dim + (cut.count > 1)

    def split(self, variance: _Variance, cut: _Cut) -> None:
        """Replace both reductions of a variance by those of its parts and by what folds their results."""
        inside, left_over, dim, inner = cut.count * cut.length, self.left(cut), self.dim, self._inner(cut)
        reduced, folded = (*self.before, dim), (*self.before, *range(dim, inner))
        x = _tensor(variance.x, variance.total).reshape(self.shape)
        parts = x.along(dim, AffineExpr.dimension(dim), inside).reshape(self._parts(cut))
        sums = parts.sum([inner], "sum_parts")
        means = (sums / cut.length).named("mean_parts")
        squares = squared_deviations(parts, means, [inner]).sum([inner], "squares_parts")
        total = sums.sum(folded)
        left = x.along(dim, AffineExpr.dimension(dim) + inside, left_over) if left_over else None
        if left is not None:
            total = (total + left.sum(reduced, "sum_left")).named("sum")
        _replace(variance.total, total)
        mean = _tensor(variance.mean, variance.squares)
        means, squares = (_tensor(value.ssa, variance.squares) for value in (means, squares))
        between = squared_deviations(means, mean, folded) * cut.length
        total = (squares + between).sum(folded)
        if left is not None:
            left = _tensor(left.ssa, variance.squares)
            total = (total + squared_deviations(left, mean, reduced).sum(reduced, "squares_left")).named("sum")
        _replace(variance.squares, total)


def _row(extents: Sequence[int], limit: int) -> int:
    """The elements of the last dimensions that are at most `limit`."""
    row = 1
    for extent in reversed(extents):
        if row * extent > limit:
            break
        row *= extent
    return row


def _tensor(value: SSAValue, at: ReduceOp) -> Tensor:
    """A value that is computed with before an operation."""
    return Tensor(value, TensorBuilder(PatternRewriter(at), at.location))


def _replace(op: ReduceOp, value: Tensor) -> None:
    value.named(op.outputs[0].name_hint or "sum")
    Rewriter.replace_op(op, [], [value.ssa])
