"""The edits of a launch that the scheduling rules share.

Splitting an axis or a loop keeps the old coordinate alive as a `loop.index`, so users are not touched, and adds a
`loop.where` when the factor does not divide the extent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear, to_map
from deplodock.analysis.shape.roles import is_part_of
from deplodock.analysis.shape.scans import scans_along
from deplodock.dialects import loop, tile
from deplodock.dialects.math_ext import PartOfF32
from deplodock.dialects.tile import Binding

Part: TypeAlias = tuple[SSAValue, int]
"""An axis and what a step along it adds to a coordinate."""


@dataclass(frozen=True)
class Axis:
    """A launch axis to be made: its constant extent, binding and name."""

    extent: int
    binding: Binding
    name: str | None


def append_loop_axis(launch: tile.LaunchOp, op: loop.ForOp, binding: Binding) -> SSAValue:
    """Add an axis with the bound, operands and name of a loop. Returns the axis."""
    block = launch.body.block
    axis = block.insert_arg(IndexType(), len(block.args))
    axis.name_hint = op.iv.name_hint
    old, added = len(launch.extent_operands), len(op.bound_operands)
    shifted = [AffineExpr.dimension(old + i) for i in range(added)]
    extents = [AffineMap(old + added, 0, extent.data.results) for extent in launch.extents]
    extents.append(op.bound.data.replace_dims_and_symbols(shifted, [], old + added, 0))
    launch.operands = [*launch.extent_operands, *op.bound_operands]
    launch.properties["extents"] = ArrayAttr([AffineMapAttr(extent) for extent in extents])
    launch.properties["bindings"] = ArrayAttr([*launch.bindings, tile.BindingAttr(binding)])
    return axis


def append_axis(launch: tile.LaunchOp, axis: Axis) -> SSAValue:
    """Add an axis of constant extent, not a lane axis. Returns it."""
    block = launch.body.block
    value = block.insert_arg(IndexType(), len(block.args))
    value.name_hint = axis.name
    extent = AffineMap(len(launch.extent_operands), 0, (AffineExpr.constant(axis.extent),))
    launch.properties["extents"] = ArrayAttr([*launch.extents, AffineMapAttr(extent)])
    launch.properties["bindings"] = ArrayAttr([*launch.bindings, tile.BindingAttr(axis.binding)])
    return value


def reorder(launch: tile.LaunchOp, order: Sequence[SSAValue]) -> list[SSAValue]:
    """Put the axes in this order. Returns the axes of the launch, which are new values."""
    block, carriers = launch.body.block, launch.carried_axes()
    old = list(launch.axes)
    place: dict[SSAValue, int] = {axis: i for i, axis in enumerate(old)}
    positions = [place[axis] for axis in order]
    for position in positions:
        new = block.insert_arg(IndexType(), len(block.args))
        new.name_hint = old[position].name_hint
        old[position].replace_all_uses_with(new)
    for axis in old:
        block.erase_arg(axis)
    launch.properties["extents"] = ArrayAttr([launch.extents.data[position] for position in positions])
    launch.properties["bindings"] = ArrayAttr([launch.bindings.data[position] for position in positions])
    moved = dict(zip(positions, block.args, strict=True))
    launch.carry({moved[place[lane]]: moved[place[carrier]] for lane, carrier in carriers.items()})
    return list(block.args)


def append_lane(launch: tile.LaunchOp, carrier: SSAValue, name: str | None) -> SSAValue:
    """Add a lane axis that a thread axis of constant extent carries. Returns it."""
    extent, carriers = launch.extent(carrier), dict(launch.carried_axes())
    assert extent is not None
    lane = append_axis(launch, Axis(extent, Binding.LANE, name))
    launch.carry({**carriers, lane: carrier})
    return lane


def rebind(launch: tile.LaunchOp, axis: SSAValue, binding: Binding) -> None:
    """Change the binding of an axis."""
    assert isinstance(axis, BlockArgument)
    bindings = list(launch.bindings)
    bindings[axis.index] = tile.BindingAttr(binding)
    launch.properties["bindings"] = ArrayAttr(bindings)


def split_axis(
    launch: tile.LaunchOp, axis: SSAValue, factor: int, outer: Binding, inner: Binding
) -> tuple[SSAValue, SSAValue]:
    """Split an axis of constant extent E into axes of extents ceil(E / factor) and factor.

    The new axes are appended, outer first, and named after the old one, which becomes a `loop.index`. Where the factor
    does not divide E, points from E on are inactive.
    """
    extent = launch.extent(axis)
    assert extent is not None
    assert isinstance(axis, BlockArgument)
    hint = axis.name_hint or "a"
    outer_axis = append_axis(launch, Axis(-(-extent // factor), outer, f"{hint}_{outer.value[0]}"))
    inner_axis = append_axis(launch, Axis(factor, inner, f"{hint}_{inner.value[0]}"))
    recompute(axis, [(outer_axis, factor), (inner_axis, 1)], launch.body.block, extent if extent % factor else None)
    drop_axis(launch, axis)
    return outer_axis, inner_axis


def split_loop(op: loop.LoopLike, factor: int) -> tuple[loop.LoopLike, ...]:
    """Split a loop of constant extent E into loops of ceil(E / factor) and factor trips. Returns them, outer first.

    A reduction becomes two nested ones with the same combiner, so they share accumulators. Where the factor does not
    divide E, iterations from E on are inactive. The inner loop keeps the attributes and the unroll mark.
    """
    extent = op.trips
    assert extent is not None
    hint = op.iv.name_hint or "k"
    old = op.iv
    body = Region(op.body.detach_block(op.body.block))
    inner_iv = body.block.insert_arg(IndexType(), 1)
    outer_body = Block(arg_types=[IndexType()])
    outer_body.args[0].name_hint, inner_iv.name_hint = f"{hint}o", f"{hint}i"
    recompute(old, [(outer_body.args[0], factor), (inner_iv, 1)], body.block, extent if extent % factor else None)
    body.block.erase_arg(old)
    inner = _with_body(op, factor, body)
    inner.attributes |= op.attributes
    if op.unroll:
        inner.properties["unroll"] = op.unroll
    outer_body.add_op(inner)
    if isinstance(op, loop.ReduceOp):
        outer_body.add_op(loop.YieldOp(*inner.results))
    outer = _with_body(op, -(-extent // factor), Region(outer_body))
    for old_result, new in zip(op.results, outer.results, strict=True):
        new.name_hint = old_result.name_hint
    Rewriter.replace_op(op, outer)
    return outer, inner


def share_loop(
    op: loop.ReduceOp, axis: SSAValue, parts: int, part: int | None = None, turn: int | None = None
) -> loop.ReduceOp:
    """Leave of a loop of constant extent E what one of `parts` coordinates of an axis runs: `part` neighbours.

    Without `part` those are ceil(E / parts). With `turn`, of which `part` is a multiple, the coordinates take turns, of
    so many neighbours each.

    The results are partial. Where the parts are longer than the loop together, iterations from E on are inactive. In a
    reduction that runs in chunks it is the elements of the chunks from E on, so that all parts take the same steps.
    """
    extent = op.trips
    assert extent is not None
    trips = -(-extent // parts) if part is None else part
    body = Region(op.body.detach_block(op.body.block))
    narrowed = _with_body(op, trips, body)
    assert isinstance(narrowed, loop.ReduceOp)
    old = narrowed.iv
    variable = body.block.insert_arg(IndexType(), 1)
    variable.name_hint = f"{old.name_hint or 'k'}_p"
    if turn is None:
        index = recompute(old, [(axis, trips), (variable, 1)], body.block)
    else:
        form = Linear.of(variable) // turn * (turn * parts) + Linear.of(axis, turn) + Linear.of(variable) % turn
        index = loop.IndexOp(*to_map([form]))
        index.result.name_hint = old.name_hint
        old.replace_all_uses_with(index.result)
        Rewriter.insert_op(index, InsertPoint.at_start(body.block))
    if trips * parts > extent:
        inner = _innermost_chunk(narrowed).body.block
        place = InsertPoint.after(index) if inner is body.block else InsertPoint.at_start(inner)
        Rewriter.insert_op(_below(index.result, extent), place)
    body.block.erase_arg(old)
    narrowed.attributes |= op.attributes
    Rewriter.replace_op(op, narrowed)
    return narrowed


def _innermost_chunk(op: loop.ReduceOp) -> loop.ReduceOp:
    """Follow reductions whose body is nothing but one with the same accumulators."""
    while isinstance(inner := op.yielded[0].owner, loop.ReduceOp) and is_part_of(inner, op):
        if not all(other is inner or isinstance(other, loop.IndexOp | loop.YieldOp) for other in op.body.block.ops):
            return op
        op = inner
    return op


def _with_body(op: loop.LoopLike, trips: int, body: Region) -> loop.LoopLike:
    """A loop of the same kind with another bound and body."""
    made: loop.LoopLike
    if isinstance(op, loop.ReduceOp):
        made = loop.ReduceOp(trips, body, op.identities, op.combiner.clone())
        made.apart = op.apart
    else:
        made = loop.ForOp(trips, body)
    made.location = op.location
    return made


def erase_unneeded(block: Block, wanted: Collection[Operation]) -> None:
    """Erase the operations of a launch body that none of the wanted ones needs."""
    for op in reversed(list(block.ops)):
        if op not in wanted and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


def drop_axis(launch: tile.LaunchOp, axis: BlockArgument) -> None:
    """Remove an axis that has no uses and carries no lane axis."""
    position, carriers = axis.index, launch.carried_axes()
    carriers.pop(axis, None)
    launch.body.block.erase_arg(axis)
    for name in ("extents", "bindings"):
        entries = list(cast(ArrayAttr[Attribute], launch.properties[name]))
        del entries[position]
        launch.properties[name] = ArrayAttr(entries)
    launch.carry(carriers)


def total_of(parts: Iterable[Part]) -> Linear:
    """A coordinate that is a sum of parts."""
    total = Linear()
    for axis, stride in parts:
        total = total + Linear.of(axis, stride)
    return total


def computed_of(
    factor: SSAValue, kind: Callable[[SSAValue], PartOfF32], suffix: str = "", behind: Operation | None = None
) -> SSAValue:
    """A part of a factor, computed right behind the factor, or another operation; the suffix is that of its name."""
    source = factor.owner
    assert isinstance(source, Operation), "factors are read or computed"
    part = kind(factor)
    part.location = source.location
    part.result.name_hint = f"{factor.name_hint}{suffix}" if factor.name_hint else None
    Rewriter.insert_op(part, InsertPoint.after(behind or source))
    return part.result


def places_at(at: Mapping[SSAValue, Iterable[Part]]) -> tile.Places:
    """That axes, such as those of an engine, have the coordinates of parts: a factor's columns those of the result."""
    map, axes = to_map([total_of(parts) for parts in at.values()])
    return tile.Places(list(at), AffineMap(map.num_dims, 0, map.results), axes)


def read_at(load: loop.LoadOp, forms: Sequence[Linear], source: SSAValue | None = None) -> loop.LoadOp:
    """The same read at other subscripts, or of what another buffer, if one is given, has at them."""
    source = load.source if source is None else source
    read = loop.LoadOp(source, *to_map(forms), padded=load.padded is not None and source is load.source)
    read.location = load.location
    read.result.name_hint = load.result.name_hint
    return read


def read_from(load: loop.LoadOp, source: SSAValue, forms: Sequence[Linear]) -> None:
    """Replace a load by one of a buffer, at some subscripts."""
    Rewriter.replace_op(load, read_at(load, forms, source))


def recompute(
    old: SSAValue, parts: Sequence[Part], block: Block, limit: int | None = None, offset: int = 0
) -> loop.IndexOp:
    """Replace a coordinate by an offset and a sum of parts times strides, at the start of `block`.

    From `limit` on it is inactive.

    Scans along the coordinate then run along the parts, of which the first has the longest stride. Returns what
    replaces it.
    """
    total = AffineExpr.dimension(0) * parts[0][1]
    for i, (_, stride) in enumerate(parts[1:], start=1):
        total = total + AffineExpr.dimension(i) * stride
    total = total + offset if offset else total
    index = loop.IndexOp(AffineMap(len(parts), 0, (total,)), [value for value, _ in parts])
    index.result.name_hint = old.name_hint
    for scan in scans_along(old):
        scan.run_along([axis for at in scan.axes for axis in ([value for value, _ in parts] if at is old else [at])])
    old.replace_all_uses_with(index.result)
    added: list[Operation] = [index] if limit is None else [index, _below(index.result, limit)]
    Rewriter.insert_op(added, InsertPoint.at_start(block))
    return index


def _below(coordinate: SSAValue, limit: int) -> loop.WhereOp:
    """The condition that a coordinate is below a limit."""
    return loop.WhereOp(AffineMap(1, 0, (AffineExpr.dimension(0), AffineExpr.constant(limit))), [coordinate])
