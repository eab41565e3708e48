"""split-reductions: fold a long reduction with few results in two steps, so that many CTAs share it.

    %sum = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<10000019xf32> -> tensor<f32>
    ->
    %parts = tensor_ext.index_map %x affine_map<(d0, d1) -> (d0 * 6812 + d1)> : .. -> tensor<1468x6812xf32>
    %sum_parts = tensor_ext.reduce {arith.addf} %parts dims [1] : tensor<1468x6812xf32> -> tensor<1468xf32>
    %left = tensor_ext.index_map %x affine_map<(d0) -> (d0 + 10000016)> : .. -> tensor<3xf32>
    %sum_left = tensor_ext.reduce {arith.addf} %left dims [0] : tensor<3xf32> -> tensor<f32>
    %sum_whole = tensor_ext.reduce {arith.addf} %sum_parts dims [0] : tensor<1468xf32> -> tensor<f32>
    %sum = tensor_ext.elementwise {arith.addf} %sum_whole, %sum_left : tensor<f32>

One reduced dimension is cut into parts of one length, so that no element needs a mask; what is left over is folded by
the kernel that folds the parts. The reduced dimensions before it stay free in the first step. Where the cut is, and
whether there is one, is what costs least on the target (`analysis/machine/cost.py`): a launch more against the SMs that
idle while few CTAs reduce. Every combiner is associative and commutative, so any of them can be folded in parts; the
order is fixed. Contractions are left to `split-matmul-k`, and so are operations with attributes as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.cost import Rates, Work
from deplodock.analysis.machine.targets import ACCESS_BYTES, WARP, target_of
from deplodock.analysis.shape.fusion import Demand, dependence
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, ReduceOp, element_of, shape_of, tensor_of
from deplodock.passes.options import Integers, OptionsPass, option
from deplodock.passes.tensor.group import reduction_ns, row_threads
from deplodock.passes.tensor.pricing import Pricing
from deplodock.schedule.choose.sizes import CTA_THREADS, THREAD_VALUES, VECTOR


@dataclass(frozen=True)
class SplitReductionsPass(OptionsPass):
    """Fold long reductions with few results in two steps."""

    name = "split-reductions"
    parts: int | None = option(
        None,
        Integers((4, 16, 64), least=2),
        "about how many parts each result is folded from, in every reduction that has them; by default as many as fill "
        "the target, in reductions where that pays",
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for function in op.walk():
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                _split_all(function.body.block, target, self.parts)


def _split_all(block: Block, target: TargetAttr, parts: int | None) -> None:
    found = [op for op in block.ops if isinstance(op, ReduceOp) and not op.attributes and _is_static(op)]
    if not any(parts or _parts(op, target) > 1 for op in found):
        return
    demand = Demand(dependence(block))
    pricing = Pricing(demand, Rates.of(target), {op: position for position, op in enumerate(block.ops)})
    cuts = [(op, cut_of(op, pricing, target, parts)) for op in found if not demand.contracts(op)]
    for op, cut in cuts:
        if cut is not None:
            _split(op, cut)


def cut_of(op: ReduceOp, pricing: Pricing, target: TargetAttr, parts: int | None = None) -> Cut | None:
    """The cut of a reduction, no contraction, into about so many parts, by default the one that pays; None if none."""
    if (count := parts or _parts(op, target)) < 2:
        return None
    plan = _Plan.of(op, pricing, Rates.of(target))
    cut = min(plan.cuts(count), key=plan.nanoseconds, default=None)
    return None if cut is None or (parts is None and plan.nanoseconds(cut) >= plan.uncut) else cut


def _is_static(op: ReduceOp) -> bool:
    return tensor_of(op.inputs[0]).has_static_shape()


def _parts(op: ReduceOp, target: TargetAttr) -> int:
    """How many parts of each result fill the target, while the threads of a part keep `THREAD_VALUES` values each.

    Along contiguous memory a part has a CTA, else a warp.
    """
    shape = shape_of(op.inputs[0])
    threads = CTA_THREADS if row_threads(shape, op.reduced) > WARP else WARP
    resident = target.fact("sms") * target.fact("threads_per_sm")
    results = prod(shape_of(op.outputs[0]))
    elements = prod(shape[d] for d in op.reduced)
    return min(resident // CTA_THREADS, resident // (threads * max(results, 1)), elements // (threads * THREAD_VALUES))


@dataclass(frozen=True)
class Cut:
    """`count` parts of `length` elements along the dimension `dim`."""

    dim: int
    length: int
    count: int


@dataclass(frozen=True)
class _Plan:
    """What a reduction of `shape` over the dimensions `reduced` costs, in one step (`uncut`) and in two.

    `moved` bytes and `work` are those of one step; an element of the results has `size` bytes. Accesses of
    what is read take up to `vector` elements.
    """

    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    rates: Rates
    moved: int
    work: Work
    size: int
    vector: int
    uncut: float

    @staticmethod
    def of(op: ReduceOp, pricing: Pricing, rates: Rates) -> _Plan:
        """The plan of a reduction together with what its kernel computes before it."""
        group = pricing.alone(op)
        size = sum(element_bytes(element_of(value)) for value in op.outputs)
        widest = max((element_bytes(element_of(value)) for value in group.reads), default=ACCESS_BYTES)
        vector = max(VECTOR, ACCESS_BYTES // widest)
        shape, (moved, work) = shape_of(op.inputs[0]), group.traffic(rates)
        return _Plan(shape, op.reduced, rates, moved, work, size, vector, group.nanoseconds(rates))

    def cuts(self, parts: int) -> Iterator[Cut]:
        """For each dimension the cut into `parts` parts to twice as many that leaves least over."""
        for dim in self.reduced:
            extent, before = self.shape[dim], prod(self.shape[d] for d in self.reduced if d < dim)
            count = -(-parts // max(before, 1))
            shortest = 2 if dim == self.reduced[-1] else 1
            unit = self.vector if dim == len(self.shape) - 1 and extent >= count * self.vector else 1
            lengths = {extent // some // unit * unit for some in range(count, 2 * count + 1)}
            usable = sorted(n for n in lengths if shortest <= n <= extent // 2)
            if usable:
                length = min(usable, key=lambda n: (extent % n, -n))
                yield Cut(dim, length, extent // length)

    def nanoseconds(self, cut: Cut) -> float:
        """The cost of the two kernels of a cut."""
        extent = self.shape[cut.dim]
        inside = cut.count * cut.length
        kept = [d for d in range(len(self.shape)) if d not in self.reduced or d < cut.dim]
        rows, results = (prod(self.shape[d] for d in dims) for dims in (kept, set(kept).difference(self.reduced)))
        partial = rows * cut.count * self.size
        after = [d + 1 for d in self.reduced if d >= cut.dim]
        moved, work = self._share(inside, extent)
        first = reduction_ns(self.rates, moved, partial, work, _cut_shape(self.shape, cut), after)
        moved, work = self._share(extent - inside, extent)
        parts = rows * cut.count // results
        return first + reduction_ns(self.rates, moved + partial, 0, work, (results, parts), [1])

    def _share(self, elements: int, extent: int) -> tuple[int, Work]:
        """The bytes and the work for some of the elements along a dimension."""
        work = Work(self.work.instructions * elements // extent, self.work.specials * elements // extent)
        return self.moved * elements // extent, work


def _cut_shape(shape: Sequence[int], cut: Cut) -> tuple[int, ...]:
    return (*shape[: cut.dim], cut.count, cut.length, *shape[cut.dim + 1 :])


def _split(op: ReduceOp, cut: Cut) -> None:
    """Replace a reduction by one of the parts, one of what is left over, and what folds their results."""
    shape, inside = shape_of(op.inputs[0]), cut.count * cut.length
    before = [d for d in op.reduced if d < cut.dim]
    made: list[IndexMapOp | ReduceOp | ElementwiseOp] = []
    inputs = list[SSAValue](op.inputs)
    after = [d for d in op.reduced if d > cut.dim]
    if cut.length > 1:
        inputs = _read(inputs, _part_map(len(shape), cut), _cut_shape(shape, cut), made)
        after = [d + 1 for d in (cut.dim, *after)]
    parts = _fold(op, inputs, after, "parts", made)
    kept = [d for d in range(len(shape)) if d not in op.reduced or d <= cut.dim]
    results = _fold(op, parts, [kept.index(d) for d in (*before, cut.dim)], "whole", made)
    if inside < shape[cut.dim]:
        left_shape = [shape[d] - inside if d == cut.dim else n for d, n in enumerate(shape)]
        left = _read(op.inputs, _offset_map(len(shape), cut.dim, inside), left_shape, made)
        rest = _fold(op, left, op.reduced, "left", made)
        made.append(ElementwiseOp([*results, *rest], [value.type for value in results], op.combiner.clone()))
        results = list[SSAValue](made[-1].results)
    for new in made:
        new.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(op))
    for old, new in zip(op.outputs, results, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(op, [], results)


def _part_map(rank: int, cut: Cut) -> AffineMap:
    """Reads the element `length * d + d'` along the dimension that is cut, where d and d' stand in its place."""
    dims = [AffineExpr.dimension(d) for d in range(rank + 1)]
    whole = dims[cut.dim] * cut.length + dims[cut.dim + 1]
    return AffineMap(rank + 1, 0, (*dims[: cut.dim], whole, *dims[cut.dim + 2 :]))


def _offset_map(rank: int, dim: int, start: int) -> AffineMap:
    """Reads what starts at an element of a dimension."""
    exprs = [AffineExpr.dimension(d) + start if d == dim else AffineExpr.dimension(d) for d in range(rank)]
    return AffineMap(rank, 0, tuple(exprs))


def _read(
    values: Sequence[SSAValue], map: AffineMap, shape: Sequence[int], made: list[IndexMapOp | ReduceOp | ElementwiseOp]
) -> list[SSAValue]:
    maps = [IndexMapOp(value, map, shape) for value in values]
    made += maps
    return [map.result for map in maps]


def _fold(
    op: ReduceOp,
    values: Sequence[SSAValue],
    dims: Sequence[int],
    name: str,
    made: list[IndexMapOp | ReduceOp | ElementwiseOp],
) -> list[SSAValue]:
    """Fold values by the combiner of `op`; the results are named after its own."""
    folded = ReduceOp(values, dims, op.identities, op.combiner.clone())
    for old, new in zip(op.outputs, folded.outputs, strict=True):
        new.name_hint = f"{old.name_hint or 'acc'}_{name}"
    made.append(folded)
    return list(folded.outputs)
