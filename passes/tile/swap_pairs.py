"""swap-pairs: swap each pair of neighbours in the slab of a contraction's columns.

    %ys = tile.stage %y[%n_b * 128 + d1, d0]         %ys = tile.stage %y[%n_b * 128 + d1 floordiv 2 * 2 - d1 mod 2 + 1,
                                                       d0]
    %b = loop.load %ys[%k, %n_c]              ->     %b = loop.load %ys[%k, %n_c floordiv 2 * 2 - %n_c mod 2 + 1]

An access of 16 bytes is one of four neighbouring registers. A thread that reads its columns so, and stores its outputs
so, has each output in the register bank of its column, where an FFMA of both loses an issue slot. With pairs swapped in
one of the two they lie in different banks. So outputs are stored 16 bytes at a time, which
`passes/kernel/lower_access.py` decides by this: 1.12 issue slots for each FFMA (read off the code for sm_90), where
stores of 4 bytes leave it at 1.16 and ask memory for four times the sectors.

It costs nothing where the columns walk k in memory, as their slab is copied element by element. Others keep their
order, and so do those whose outputs lie in swapped pairs in memory, as the parts of `split-matmul-k` do. What is
computed of a sum and of a value of its row or its column may be stored so. Functions, and values read for each output,
take registers from the sums where these are to lie side by side (a residual: 1.62 slots).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.alignment import is_in_order, lanes_along
from deplodock.analysis.access.slabs import slab_of
from deplodock.analysis.affine.linear import extent_or_one, subscripts_of
from deplodock.analysis.operations import is_arithmetic, label, reached
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.roles import Contraction, column_reads, contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip


@dataclass(frozen=True)
class SwapPairsPass(LaunchRule):
    """Swap each pair of neighbours in the slab of a contraction's columns, so that its outputs are stored in order."""

    name = "swap-pairs"
    after = ("stage-inputs", "register-tile", "permute-register-tile", "tma-copy", "async-copy", "pad-smem")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        roles = contraction_of(launch)
        if roles is None or any(isinstance(product, tile.ContractOp) for product in roles.products):
            raise Skip("no contraction of single products")
        along = _stored_along(launch, roles)
        if not all(_is_plain(launch, roles, op) for op in _stores(launch)):
            raise Skip("its outputs are more than sums and values of their rows and columns")
        for stage in dict.fromkeys(_slab_of(load, along) for load in column_reads(roles, along)):
            _swap(rewriter, stage)


def _stored_along(launch: tile.LaunchOp, roles: Contraction) -> SSAValue:
    """The register axis of columns along which a thread stores neighbours in order. Raises Skip where there is none."""
    for axis in reversed(roles.n):
        if launch.binding(axis) is not Binding.REGISTER:
            continue
        lanes = [
            lanes_along(loop.memref_of(op.destination), subscripts_of(op), axis, extent_or_one(axis))
            for op in _stores(launch)
        ]
        if all(len(each) > 1 and is_in_order(each) for each in lanes):
            return axis
    raise Skip("no thread stores neighbouring columns in order")


def _stores(launch: tile.LaunchOp) -> list[loop.StoreOp]:
    return [op for op in launch.body.walk() if isinstance(op, loop.StoreOp)]


def _is_plain(launch: tile.LaunchOp, roles: Contraction, store: loop.StoreOp) -> bool:
    """Whether an output is a sum, or simple arithmetic of it and values of its row or column, at every point."""
    if store.value in roles.reduction.results:
        return True
    dependence, registers = Dependence(), set(launch.bound_to(Binding.REGISTER))
    conditions = [value for where in wheres(launch.body.block) for value in where.indices]
    if registers & dependence.of(*conditions).keys():
        return False

    def sources(op: Operation) -> list[Operation]:
        is_end = op is roles.reduction or isinstance(op, loop.LoadOp | loop.IndexOp)
        return [] if is_end else [value.owner for value in op.operands if isinstance(value.owner, Operation)]

    def is_simple(op: Operation) -> bool:
        if isinstance(op, loop.LoadOp):
            axes = registers & dependence.of(op.result).keys()
            return not all(axes & set(side) for side in (roles.m, roles.n))
        is_known = op is roles.reduction or isinstance(op, loop.IndexOp)
        return is_known or (is_arithmetic(op) and not isinstance(op, arith.DivfOp))

    return isinstance(store.value.owner, Operation) and all(map(is_simple, reached([store.value.owner], sources)))


def _slab_of(load: loop.LoadOp, along: SSAValue) -> tile.StageOp:
    """The slab whose pairs a read of columns wants swapped. Raises Skip where it cannot be, or at a cost."""
    stage, name = load.source.owner, label(load.source)
    if not isinstance(stage, tile.StageOp) or stage.is_tma:
        raise Skip(f"{name} is no slab that threads copy; run stage-inputs before, and pipeline-k-outer behind")
    type, forms = loop.memref_of(load.source), subscripts_of(load)
    lanes = lanes_along(type, forms, along, extent_or_one(along))
    if not is_in_order(lanes):
        raise NothingToDo(f"{name}: its pairs are swapped already")
    last = len(type.get_shape()) - 1
    if len(lanes) == 1 or type.get_shape()[last] % 2 or slab_of(stage).copy_order()[-1] == last:
        raise Skip(f"{name}: its columns are read one by one, or copied several at a time")
    return stage


def _swap(rewriter: PatternRewriter, stage: tile.StageOp) -> None:
    """Swap the neighbours along the last dimension of a slab, in its map and for its readers."""
    map = stage.map.data
    *outer, last = (AffineExpr.dimension(d) for d in range(map.num_dims))
    symbols = [AffineExpr.symbol(i) for i in range(map.num_symbols)]
    swapped = map.replace_dims_and_symbols([*outer, _other(last)], symbols, map.num_dims, map.num_symbols)
    stage.properties["map"] = AffineMapAttr(swapped)
    rewriter.notify_op_modified(stage)
    for load in [use.operation for use in stage.slab.uses]:
        assert isinstance(load, loop.LoadOp)
        *rest, column = load.map.data.results
        subscripts = AffineMap(load.map.data.num_dims, load.map.data.num_symbols, (*rest, _other(column)))
        load.properties["map"] = AffineMapAttr(subscripts)
        rewriter.notify_op_modified(load)


def _other(column: AffineExpr) -> AffineExpr:
    """The other one of a pair of neighbours."""
    return column // 2 * 2 + column % 2 * -1 + 1
