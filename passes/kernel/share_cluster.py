"""Lets each CTA of a cluster take a share of what a combine over it gives: some coordinates of a register axis.

    tile.launch (%m = 8 : block, %s = 4 : cluster,     tile.launch (%m = 8 : block, %s = 4 : cluster,
                 %t = 64 : thread,                                  %t = 64 : thread, %j = 16 : register,
                 %j = 16 : register) {                              %i = 4 : register, %l = 4 : lane %s) {
      ..                                                 ..
      %acc = tile.combine {arith.addf} %p         ->     %acc = tile.combine {arith.addf} %p
        over (%s) : f32                                    over (%s) at (%j = %l * 4 + %i) : f32
      loop.store %acc, %out[%m, %t * 16 + %j]            loop.store %acc, %out[%m, %t * 16 + %l * 4 + %i]

So all threads of all CTAs fold as many values, and do what follows for those alone. Of several axes the outermost is
taken, as the inner ones are neighbours in memory. Where none can be, each CTA folds all values of some threads
(`lower_cluster.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear, extent_or_one, form_of_value, to_map
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.kernel.workspace import packed_axes
from deplodock.passes.tile.edits import Axis, append_axis, append_lane, reorder


def share_cluster(launch: tile.LaunchOp) -> None:
    """Let the CTAs of a cluster share the result of the combine over them, if there is one and axes to share."""
    ranks = launch.bound_to(Binding.CLUSTER)
    for op in launch.body.block.ops:
        if isinstance(op, tile.CombineOp) and list(op.axes) == ranks and len(ranks) == 1 and not op.moved:
            if axes := _shared_axes(launch, op):
                _share(launch, op, axes)
            return


def _shared_axes(launch: tile.LaunchOp, op: tile.CombineOp) -> list[SSAValue]:
    """The outermost register axes of a combine's results whose coordinates CTAs can share evenly; none if they cannot.

    Of all but the last one each CTA takes one coordinate.
    """
    dependence, behind = Dependence(), _behind(op)
    if any(other.regions for other in behind):
        return []
    held = [axis for axis in launch.bound_to(Binding.REGISTER) if axis in dependence.of(*op.results)]
    packed = packed_axes([extent_or_one(axis) for axis in held], [result.type for result in op.results])
    found, left = list[SSAValue](), extent_or_one(op.axes[0])
    for axis in held[: len(held) - packed]:
        extent = extent_or_one(axis)
        is_shared = all(axis in dependence.of(result) for result in op.results)
        is_even = left > 1 and (left % extent == 0 or extent % left == 0)
        if is_shared and is_even and all(_follows(other, op, axis, dependence) for other in behind):
            found.append(axis)
            left = max(1, left // extent)
    return found if left == 1 else []


def _behind(op: Operation) -> list[Operation]:
    """The operations behind another one, but for subscripts and conditions."""
    ops = list(op.parent.ops) if op.parent is not None else []
    return [other for other in ops[ops.index(op) + 1 :] if not isinstance(other, loop.IndexOp | loop.WhereOp)]


def _follows(op: Operation, combine: tile.CombineOp, axis: SSAValue, dependence: Dependence) -> bool:
    """Whether an operation behind a combine can be done for a share of an axis.

    It takes no value of that axis from before, and what it writes lies elsewhere at each coordinate.
    """
    if isinstance(op, loop.StoreOp) and axis not in dependence.of(*op.indices):
        return False
    before = [value for value in op.operands if not isinstance(value.type, IndexType) and value not in combine.results]
    return not any(
        axis in dependence.of(value) and isinstance(value.owner, Operation) and value.owner.is_before_in_block(combine)
        for value in before
    )


def _share(launch: tile.LaunchOp, op: tile.CombineOp, axes: Sequence[SSAValue]) -> None:
    """Take the result of a combine at the share of some axes, and let all behind it be done there."""
    (rank,), *_, last = op.axes, *axes
    rewriter = PatternRewriter(launch)
    lane, left = append_lane(rewriter, launch, rank, f"{rank.name_hint or 's'}l"), extent_or_one(rank)
    inner: SSAValue | None = None
    places: dict[SSAValue, Linear] = {}
    for axis in axes:
        extent, digit = extent_or_one(axis), Linear.of(lane) % left
        if extent > left:
            inner = append_axis(rewriter, launch, Axis(extent // left, Binding.REGISTER, f"{axis.name_hint or 'a'}i"))
            places[axis] = digit * (extent // left) + Linear.of(inner)
        else:
            left //= extent
            places[axis] = digit // left
    conditions = wheres(launch.body.block)
    for user in (*conditions, *_behind(op)):
        for position, value in enumerate(user.operands):
            if isinstance(value.type, IndexType):
                user.operands[position] = _moved(value, places, user)
    map, lanes = to_map(list(places.values()))
    at = tile.Places(list(places), map, lanes)
    shared = tile.CombineOp(op.inputs, op.axes, op.identities, op.combiner.clone(), at)
    shared.location = op.location
    for new, old in zip(shared.results, op.results, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(op, shared)
    if inner is not None:
        order: list[SSAValue] = [axis for axis in launch.axes if axis is not inner]
        order.insert(order.index(last) + 1, inner)
        reorder(rewriter, launch, order)


def _moved(value: SSAValue, places: Mapping[SSAValue, Linear], user: Operation) -> SSAValue:
    """A coordinate with some axes at other places, computed before its user."""
    owner = value.owner
    if value not in places and not isinstance(owner, loop.IndexOp):
        return value
    old = Linear.of(value) if value in places else form_of_value(value)
    form = old
    for axis, place in places.items():
        form = form.substitute(axis, place)
    if form == old:
        return value
    index = loop.IndexOp(*to_map([form]))
    index.result.name_hint = value.name_hint
    Rewriter.insert_op(index, InsertPoint.before(user))
    return index.result
