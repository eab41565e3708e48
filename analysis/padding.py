"""Which iterations of a sum add zero anyway, because what they read lies outside its buffers."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from deplodock.analysis.linear import Linear, fold, fold_map
from deplodock.analysis.roles import innermost_reduction
from deplodock.dialects import loop, scalar_regions, tile


def adds_zero(reduction: loop.ReduceOp, condition: Linear) -> bool:
    """Whether a sum of products adds 0 * 0 in the iterations where `condition` is not below 0.

    Both factors must be reads whose subscripts leave the buffer there; such reads give zero once they are lowered, and
    the identity of the sum is zero. One factor does not suffice: the other may be infinite.
    """
    innermost = innermost_reduction(reduction)
    ops = scalar_regions.combiner_ops(innermost.combiner)
    product = innermost.yielded[0].owner
    if ops is None or len(ops) != 1 or not isinstance(ops[0], arith.AddfOp | arith.AddiOp):
        return False
    if not isinstance(product, arith.MulfOp | arith.MuliOp):
        return False
    return all(_is_outside(factor, condition) for factor in product.operands)


def _is_outside(value: SSAValue, condition: Linear) -> bool:
    """Whether a value is read from outside a global buffer, directly or through a slab, where a condition fails."""
    if not isinstance(load := value.owner, loop.LoadOp):
        return False
    source, subscripts = load.source, fold_map(load.map.data, load.indices)
    if isinstance(stage := source.owner, tile.StageOp):
        subscripts = [fold(expr, stage.indices, subscripts) for expr in stage.map.data.results]
        source = stage.source
    if tile.memory_of(source) is not None:
        return False
    for form, extent in zip(subscripts, loop.memref_of(source).get_shape(), strict=True):
        beyond = (form - Linear(constant=extent) - condition).range()
        if beyond is not None and beyond[0] >= 0:
            return True
    return False
