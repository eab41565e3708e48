"""The roles of axes, read off the subscripts: which reduction is a contraction, and which axes are m, n and batch.

An axis of windows has neighbours that fold the same elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, SSAValue

from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.analysis.shape.dependence import Dependence, without
from deplodock.analysis.shape.nest import Nest, launch_nest, only_loop
from deplodock.dialects import loop, math_ext, scalar_regions, tile

Product: TypeAlias = arith.MulfOp | arith.MuliOp | tile.ContractOp
"""What multiplies the factors of a contraction."""

WIDENING_CASTS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp)
"""The operations that give a value in a type that can hold more; they take 0 to 0."""


PARTS = (math_ext.HighPartOp, math_ext.RoundTf32Op, math_ext.LowPartOp, math_ext.WithLowPartOp)
"""The operations that give an f32, or a part of it."""


@dataclass(frozen=True)
class Contraction:
    """A reduction of a product: `m` axes only the left factor varies along, `n` only the right one, `batch` both.

    `reduction` is the outermost of the loops that run through k together. It may add up several products, each a
    result, whose factors vary along the same axes: contractions in one loop, such as those of a gate and what it lets
    through.
    """

    reduction: loop.ReduceOp
    m: tuple[SSAValue, ...]
    n: tuple[SSAValue, ...]
    batch: tuple[SSAValue, ...]

    @property
    def innermost(self) -> loop.ReduceOp:
        """The innermost loop along k, which yields the products; `reduction` itself unless k runs in chunks."""
        return innermost_reduction(self.reduction)

    @property
    def products(self) -> list[Product]:
        """The products, one for each result."""
        return summed_products(self.reduction)

    @property
    def factors(self) -> list[tuple[SSAValue, SSAValue]]:
        """The two factors of each product, in their order in the program; the first ones where there are several."""
        return [factors_of(product)[0] for product in self.products]

    @property
    def operands(self) -> list[SSAValue]:
        """All these factors, those of one product after those of another."""
        return [factor for pair in self.factors for factor in pair]


def contraction_of(launch: tile.LaunchOp) -> Contraction | None:
    """The contraction of a launch, or None, as `contraction`."""
    return contraction(launch_nest(launch))


def contraction(nest: Nest) -> Contraction | None:
    """The first contraction among a nest's reductions, or None."""
    return next(contractions(nest), None)


def contractions(nest: Nest) -> Iterator[Contraction]:
    """The contractions among a nest's reductions, in order.

    A contraction adds products of two values, each of which varies along a free axis that the other does not. The
    factor that varies along the nest's later axis is the right one, so that n walks the output's contiguous dimension.
    """
    dependence = Dependence()
    found = (_as_contraction(reduction, nest, dependence) for reduction in nest.reductions())
    return (contraction for contraction in found if contraction is not None)


def _as_contraction(reduction: loop.ReduceOp, nest: Nest, dependence: Dependence) -> Contraction | None:
    found = [_roles(reduction, product, nest, dependence) for product in summed_products(reduction)]
    return found[0] if found and all(roles == found[0] for roles in found) else None


def _roles(reduction: loop.ReduceOp, product: Product, nest: Nest, dependence: Dependence) -> Contraction | None:
    found = [_varies(product, value, dependence) for value in factors_of(product)[0]]
    sides = [[axis for axis in nest.axes if axis in axes] for axes in found]
    only = [tuple(without(sides[i], set(sides[1 - i]))) for i in (0, 1)]
    if not only[0] or not only[1]:
        return None
    order: dict[SSAValue, int] = {axis: i for i, axis in enumerate(nest.axes)}
    m, n = sorted(only, key=lambda axes: max(order[axis] for axis in axes))
    return Contraction(reduction, m, n, tuple(axis for axis in sides[0] if axis in sides[1]))


def _varies(product: Product, factor: SSAValue, dependence: Dependence) -> dict[SSAValue, None]:
    """What a factor varies along where the product is taken, less what that folds."""
    found = dependence.of(factor)
    if not isinstance(product, tile.ContractOp):
        return found
    if any(axis in found for axis in product.moved):
        found = without(found, set(product.moved)) | dependence.of(*product.place_axes)
    return without(found, set(product.axes))


def factors_of(product: Product) -> list[tuple[SSAValue, SSAValue]]:
    """The pairs of factors whose products are added."""
    return product.pairs if isinstance(product, tile.ContractOp) else [(product.lhs, product.rhs)]


def summed_products(reduction: loop.ReduceOp) -> list[Product]:
    """The products that a reduction adds up, all its loops together, one for each result.

    None at all where it folds anything else, or products of unlike kinds.
    """
    innermost = innermost_reduction(reduction)
    ops = scalar_regions.combiner_ops(innermost.combiner)
    if ops is None or not all(isinstance(op, arith.AddfOp | arith.AddiOp) for op in ops):
        return []
    owners = [value.owner for value in innermost.yielded]
    found = [owner for owner in owners if isinstance(owner, arith.MulfOp | arith.MuliOp | tile.ContractOp)]
    return found if len(found) == len(owners) and len({type(product) for product in found}) == 1 else []


def read_of(factor: SSAValue) -> loop.LoadOp | None:
    """The read that gives a factor, as it is, in a wider type or a part of it; None where it is computed otherwise."""
    while isinstance(factor.owner, (*WIDENING_CASTS, *PARTS)):
        factor = factor.owner.operands[0]
    return factor.owner if isinstance(factor.owner, loop.LoadOp) else None


def low_read_of(factor: SSAValue) -> loop.LoadOp | None:
    """The read of the low part of a factor; None where that is not stored."""
    low = factor.owner.low.owner if isinstance(factor.owner, math_ext.WithLowPartOp) else None
    return low if isinstance(low, loop.LoadOp) else None


def column_reads(found: Contraction, along: SSAValue) -> list[loop.LoadOp]:
    """The reads of a contraction's factors that walk one of its axes."""
    reads = [read for factor in found.operands if (read := read_of(factor)) is not None]
    return [read for read in reads if any(form.depends_on(along) for form in subscripts_of(read))]


def runs_through_windows(found: Contraction) -> bool:
    """Whether several loops run along k that walk dimensions of their own in memory, and are no chunks of one."""
    if found.innermost is found.reduction:
        return False
    outer, inner, *_ = accumulating_loops(found.reduction)
    reads = [read for factor in found.operands if (read := read_of(factor)) is not None]
    forms = [form for read in reads if tile.memory_of(read.source) is None for form in subscripts_of(read)]
    return any(form.coefficient(outer.iv) != form.coefficient(inner.iv) * (inner.trips or 0) for form in forms)


def innermost_reduction(reduction: loop.ReduceOp) -> loop.ReduceOp:
    """Follow reductions that yield one with the same combiner: together they are one, in several loops."""
    return accumulating_loops(reduction)[-1]


def accumulating_loops(reduction: loop.ReduceOp) -> list[loop.ReduceOp]:
    """The loops of one reduction, outermost first: each yields the results of the next, with the same accumulator."""
    loops = [reduction]
    while isinstance(inner := loops[-1].yielded[0].owner, loop.ReduceOp) and is_part_of(inner, loops[-1]):
        loops.append(inner)
    return loops


def row_chain(op: loop.LoopLike) -> list[loop.LoopLike]:
    """The loops that run through one row together, outermost first: perfectly nested, all of constant bounds."""
    chain = [op]
    while (inner := _next_in_row(chain[-1])) is not None and inner.trips is not None:
        chain.append(inner)
    return chain


def _next_in_row(op: loop.LoopLike) -> loop.LoopLike | None:
    if not isinstance(op, loop.ReduceOp):
        return only_loop(op.body.block.ops)
    inner = op.yielded[0].owner
    return inner if isinstance(inner, loop.ReduceOp) and is_part_of(inner, op) else None


def is_part_of(inner: loop.ReduceOp, outer: loop.ReduceOp) -> bool:
    """Whether `inner` is computed anew in each iteration of `outer`, which yields exactly its results, folded alike.

    Both then are one reduction in two loops.
    """
    return (
        inner.parent_op() is outer
        and tuple(outer.yielded) == tuple(inner.results)
        and inner.identities == outer.identities
        and inner.combiner.is_structurally_equivalent(outer.combiner)
    )


def shares_accumulator(inner: loop.ReduceOp, outer: loop.ReduceOp) -> bool:
    """Whether `inner` is a part of `outer` that goes on with its accumulators."""
    return is_part_of(inner, outer) and not outer.apart


def yields_inner_reduction(op: loop.YieldOp) -> bool:
    """Whether a reduction's yield gives what a reduction or contract inside has folded into its accumulators."""
    outer, inner = op.parent_op(), op.operands[0].owner
    if isinstance(inner, tile.ContractOp):
        return adds_in_place(inner)
    return isinstance(outer, loop.ReduceOp) and isinstance(inner, loop.ReduceOp) and shares_accumulator(inner, outer)


def adds_in_place(op: tile.ContractOp) -> bool:
    """Whether a contract adds to the accumulators of a sum, as do all others that the iterations around it yield."""
    return bool(in_place_with(op))


def in_place_with(op: tile.ContractOp) -> list[tile.ContractOp]:
    """A contract and all others that its iteration adds to the same sum, in order; none if it adds to no sum."""
    parent = op.parent_op()
    products = summed_products(parent) if isinstance(parent, loop.ReduceOp) and not parent.apart else []
    if op not in products or not all(product.result.has_one_use() for product in products):
        return []
    assert isinstance(parent, loop.ReduceOp)
    return [each for each in parent.body.block.ops if isinstance(each, tile.ContractOp) and each in products]


def window_axes(nest: Nest) -> list[SSAValue]:
    """The free axes, in order, along which the windows of neighbours overlap in a buffer that reductions read.

    That is where a subscript moves along an axis by no more than the loops of a reduction reach in it.
    """
    reads = [op for op in nest.body.walk() if isinstance(op, loop.LoadOp)]
    forms = [form for op in reads for form in subscripts_of(op)]
    return [axis for axis in nest.axes if any(0 < form.coefficient(axis) <= reach(form) for form in forms)]


def reach(form: Linear) -> int:
    """How far the loops of reductions move a subscript."""
    steps = [(root, step) for root, step in form.terms if isinstance(root, BlockArgument) and _is_folded(root)]
    return sum((extent_or_one(root) - 1) * step for root, step in steps)


def _is_folded(root: BlockArgument) -> bool:
    return isinstance(root.block.parent_op(), loop.ReduceOp)
