"""The edits of a launch that the scheduling rules share.

All go through the rewriter of a pattern, which tells its listeners. Splitting an axis or a loop keeps the old
coordinate alive as a `loop.index`, so users are not touched, and adds a `loop.where` when the factor does not divide
the extent.

All points of a tile share bounds of loops, and whether any of them is active.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, MemRefType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import (
    Linear,
    bounds_of,
    condition_of,
    equal,
    form_of_value,
    implied_condition,
    least,
    subscripts_of,
    to_map,
    to_sides,
)
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.footprint import Footprint
from deplodock.analysis.shape.nest import scans_along
from deplodock.analysis.shape.roles import innermost_reduction, is_part_of
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Digit
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


def append_loop_axis(rewriter: PatternRewriter, launch: tile.LaunchOp, op: loop.ForOp, binding: Binding) -> SSAValue:
    """Add an axis with the bound, operands and name of a loop. Returns the axis."""
    axis = _append_argument(rewriter, launch, op.iv.name_hint)
    old, added = len(launch.extent_operands), len(op.bound_operands)
    shifted = [AffineExpr.dimension(old + i) for i in range(added)]
    extents = [AffineMap(old + added, 0, extent.data.results) for extent in launch.extents]
    extents.append(op.bound.data.replace_dims_and_symbols(shifted, [], old + added, 0))
    launch.operands = [*launch.extent_operands, *op.bound_operands]
    launch.properties["extents"] = ArrayAttr([AffineMapAttr(extent) for extent in extents])
    launch.properties["bindings"] = ArrayAttr([*launch.bindings, tile.BindingAttr(binding)])
    rewriter.notify_op_modified(launch)
    return axis


def append_axis(rewriter: PatternRewriter, launch: tile.LaunchOp, axis: Axis) -> SSAValue:
    """Add an axis of constant extent, not a lane axis. Returns it."""
    value = _append_argument(rewriter, launch, axis.name)
    extent = AffineMap(len(launch.extent_operands), 0, (AffineExpr.constant(axis.extent),))
    launch.properties["extents"] = ArrayAttr([*launch.extents, AffineMapAttr(extent)])
    launch.properties["bindings"] = ArrayAttr([*launch.bindings, tile.BindingAttr(axis.binding)])
    rewriter.notify_op_modified(launch)
    return value


def _append_argument(rewriter: PatternRewriter, launch: tile.LaunchOp, name: str | None) -> BlockArgument:
    block = launch.body.block
    argument = rewriter.insert_block_argument(block, len(block.args), IndexType())
    argument.name_hint = name
    return argument


def append_digit(rewriter: PatternRewriter, launch: tile.LaunchOp, digit: Digit, name: str) -> SSAValue:
    """A new axis of a launch, which is a digit of a coordinate of that name."""
    binding = Binding.REGISTER if digit.weight is None else Binding.THREAD
    return append_axis(rewriter, launch, Axis(digit.extent, binding, f"{name}_{digit.letter}"))


def reorder(rewriter: PatternRewriter, launch: tile.LaunchOp, order: Sequence[SSAValue]) -> list[SSAValue]:
    """Put the axes in this order. Returns the axes of the launch, which are new values."""
    block, carriers = launch.body.block, launch.carried_axes()
    old = list(launch.axes)
    place: dict[SSAValue, int] = {axis: i for i, axis in enumerate(old)}
    positions = [place[axis] for axis in order]
    for position in positions:
        new = _append_argument(rewriter, launch, old[position].name_hint)
        rewriter.replace_all_uses_with(old[position], new)
    for axis in old:
        rewriter.erase_block_argument(axis)
    launch.properties["extents"] = ArrayAttr([launch.extents.data[position] for position in positions])
    launch.properties["bindings"] = ArrayAttr([launch.bindings.data[position] for position in positions])
    moved = dict(zip(positions, block.args, strict=True))
    launch.carry({moved[place[lane]]: moved[place[carrier]] for lane, carrier in carriers.items()})
    rewriter.notify_op_modified(launch)
    return list(block.args)


def append_lane(rewriter: PatternRewriter, launch: tile.LaunchOp, carrier: SSAValue, name: str | None) -> SSAValue:
    """Add a lane axis that a thread axis of constant extent carries. Returns it."""
    extent, carriers = launch.extent(carrier), dict(launch.carried_axes())
    assert extent is not None
    lane = append_axis(rewriter, launch, Axis(extent, Binding.LANE, name))
    launch.carry({**carriers, lane: carrier})
    return lane


def rebind(rewriter: PatternRewriter, launch: tile.LaunchOp, axis: SSAValue, binding: Binding) -> None:
    """Change the binding of an axis."""
    assert isinstance(axis, BlockArgument)
    bindings = list(launch.bindings)
    bindings[axis.index] = tile.BindingAttr(binding)
    launch.properties["bindings"] = ArrayAttr(bindings)
    rewriter.notify_op_modified(launch)


def split_axis(
    rewriter: PatternRewriter, launch: tile.LaunchOp, axis: SSAValue, factor: int, outer: Binding, inner: Binding
) -> tuple[SSAValue, SSAValue]:
    """Split an axis of constant extent E into axes of extents ceil(E / factor) and factor.

    The new axes are appended, outer first, and named after the old one, which becomes a `loop.index`. Where the factor
    does not divide E, points from E on are inactive.
    """
    extent = launch.extent(axis)
    assert extent is not None
    assert isinstance(axis, BlockArgument)
    hint = axis.name_hint or "a"
    outer_axis = append_axis(rewriter, launch, Axis(-(-extent // factor), outer, f"{hint}_{outer.value[0]}"))
    inner_axis = append_axis(rewriter, launch, Axis(factor, inner, f"{hint}_{inner.value[0]}"))
    limit = extent if extent % factor else None
    recompute(rewriter, axis, [(outer_axis, factor), (inner_axis, 1)], launch.body.block, limit)
    drop_axis(rewriter, launch, axis)
    return outer_axis, inner_axis


def split_loop(rewriter: PatternRewriter, op: loop.LoopLike, factor: int) -> tuple[loop.LoopLike, ...]:
    """Split a loop of constant extent E into loops of ceil(E / factor) and factor trips. Returns them, outer first.

    A reduction becomes two nested ones with the same combiner, so they share accumulators. Where the factor does not
    divide E, iterations from E on are inactive. The inner loop keeps the attributes and the unroll mark.
    """
    extent = op.trips
    assert extent is not None
    hint = op.iv.name_hint or "k"
    old = op.iv
    body = Region(op.body.detach_block(op.body.block))
    inner_iv = rewriter.insert_block_argument(body.block, 1, IndexType())
    outer_body = Block(arg_types=[IndexType()])
    outer_body.args[0].name_hint, inner_iv.name_hint = f"{hint}o", f"{hint}i"
    limit = extent if extent % factor else None
    recompute(rewriter, old, [(outer_body.args[0], factor), (inner_iv, 1)], body.block, limit)
    rewriter.erase_block_argument(old)
    inner = _with_body(op, factor, body)
    inner.attributes |= op.attributes
    if op.unroll:
        inner.properties["unroll"] = op.unroll
    outer_body.add_op(inner)
    if isinstance(op, loop.ReduceOp):
        outer_body.add_op(loop.YieldOp(*inner.results))
    outer = _with_body(op, -(-extent // factor), Region(outer_body))
    rewriter.replace(op, outer)
    return outer, inner


def unroll(rewriter: PatternRewriter, op: loop.LoopLike) -> None:
    """Mark a loop to be unrolled."""
    op.properties["unroll"] = UnitAttr()
    rewriter.notify_op_modified(op)


def bound_by(rewriter: PatternRewriter, op: loop.LoopLike, forms: Sequence[Linear]) -> None:
    """Let a loop end at the least of some forms."""
    map, op.operands = to_map(forms)
    op.properties["bound"] = AffineMapAttr(map)
    rewriter.notify_op_modified(op)


def share_loop(
    rewriter: PatternRewriter,
    op: loop.ReduceOp,
    axis: SSAValue,
    parts: int,
    part: int | None = None,
    turn: int | None = None,
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
    variable = rewriter.insert_block_argument(body.block, 1, IndexType())
    variable.name_hint = f"{old.name_hint or 'k'}_p"
    if turn is None:
        index = recompute(rewriter, old, [(axis, trips), (variable, 1)], body.block)
    else:
        form = Linear.of(variable) // turn * (turn * parts) + Linear.of(axis, turn) + Linear.of(variable) % turn
        index = loop.IndexOp(*to_map([form]))
        index.result.name_hint = old.name_hint
        rewriter.replace_all_uses_with(old, index.result)
        rewriter.insert(index, InsertPoint.at_start(body.block))
    if trips * parts > extent:
        inner = _innermost_chunk(narrowed).body.block
        place = InsertPoint.after(index) if inner is body.block else InsertPoint.at_start(inner)
        rewriter.insert(_below(index.result, extent), place)
    rewriter.erase_block_argument(old)
    narrowed.attributes |= op.attributes
    rewriter.replace(op, narrowed)
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


def erase_unneeded(rewriter: PatternRewriter, block: Block, wanted: Collection[Operation]) -> None:
    """Erase the operations of a launch body that none of the wanted ones needs."""
    for op in reversed(list(block.ops)):
        if op not in wanted and not any(result.uses for result in op.results):
            rewriter.erase(op)


def drop_axis(rewriter: PatternRewriter, launch: tile.LaunchOp, axis: BlockArgument) -> None:
    """Remove an axis that has no uses and carries no lane axis."""
    position, carriers = axis.index, launch.carried_axes()
    carriers.pop(axis, None)
    rewriter.erase_block_argument(axis)
    for name in ("extents", "bindings"):
        entries = list(cast(ArrayAttr[Attribute], launch.properties[name]))
        del entries[position]
        launch.properties[name] = ArrayAttr(entries)
    launch.carry(carriers)
    rewriter.notify_op_modified(launch)


def total_of(parts: Iterable[Part]) -> Linear:
    """A coordinate that is a sum of parts."""
    total = Linear()
    for axis, stride in parts:
        total = total + Linear.of(axis, stride)
    return total


def computed_of(
    rewriter: PatternRewriter,
    factor: SSAValue,
    kind: Callable[[SSAValue], PartOfF32],
    suffix: str = "",
    behind: Operation | None = None,
) -> SSAValue:
    """A part of a factor, computed right behind the factor, or another operation; the suffix is that of its name."""
    source = factor.owner
    assert isinstance(source, Operation), "factors are read or computed"
    part = kind(factor)
    part.location = source.location
    part.result.name_hint = f"{factor.name_hint}{suffix}" if factor.name_hint else None
    rewriter.insert(part, InsertPoint.after(behind or source))
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


def moved_read(
    load: loop.LoadOp, places: Mapping[SSAValue, Linear], forms: Sequence[Linear] | None = None
) -> loop.LoadOp:
    """The same read at other coordinates; `forms` are its subscripts, by default those that it has now.

    An index among the places stays one where a subscript takes the coordinate as it is, and counts by what it is
    computed from where one divides it.
    """
    moved = list(subscripts_of(load) if forms is None else forms)
    for root, place in places.items():
        whole = place
        for index in place.roots():
            whole = whole.substitute(index, form_of_value(index))
        for dim, form in enumerate(moved):
            is_plain = not (form - Linear.of(root, form.coefficient(root))).depends_on(root)
            moved[dim] = form.substitute(root, place if is_plain else whole)
    return read_at(load, moved)


def read_from(rewriter: PatternRewriter, load: loop.LoadOp, source: SSAValue, forms: Sequence[Linear]) -> None:
    """Replace a load by one of a buffer, at some subscripts."""
    rewriter.replace(load, read_at(load, forms, source))


def stage_read(
    rewriter: PatternRewriter, load: loop.LoadOp, slab: Footprint, type: MemRefType[Attribute], place: InsertPoint
) -> None:
    """Copy the slab of a load to on-chip memory, at a place, and let the load read it there.

    It has the name of the buffer, and that of its memory.
    """
    stage = tile.StageOp(load.source, *slab.map(), type)
    stage.location = load.location
    suffix = "smem" if tile.memory_of(stage.slab) is tile.Memory.SHARED else "reg"
    stage.slab.name_hint = f"{load.source.name_hint}_{suffix}" if load.source.name_hint else None
    rewriter.insert(stage, place)
    read_from(rewriter, load, stage.slab, slab.readers[0].subscripts)


def recompute(
    rewriter: PatternRewriter,
    old: SSAValue,
    parts: Sequence[Part],
    block: Block,
    limit: int | None = None,
    offset: int = 0,
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
        rewriter.notify_op_modified(scan)
    rewriter.replace_all_uses_with(old, index.result)
    added: list[Operation] = [index] if limit is None else [index, _below(index.result, limit)]
    rewriter.insert(added, InsertPoint.at_start(block))
    return index


def _below(coordinate: SSAValue, limit: int) -> loop.WhereOp:
    """The condition that a coordinate is below a limit."""
    return loop.WhereOp(AffineMap(1, 0, (AffineExpr.dimension(0), AffineExpr.constant(limit))), [coordinate])


def has_inactive_tiles(launch: tile.LaunchOp) -> bool:
    """Whether the conditions of a launch may leave out all points of a tile."""
    inside = [axis for axis in launch.axes if axis not in launch.ctas]
    implied = [implied_condition(condition_of(where), inside) for where in wheres(launch.body.block)]
    ranges = [None if form is None else form.range() for form in implied]
    return any(bounds is None or bounds[1] >= 0 for bounds in ranges)


@dataclass(frozen=True)
class Rounding:
    """A loop over chunks whose bounds differ in a tile, and the bounds of its whole tile."""

    op: loop.ReduceOp
    bounds: Sequence[Linear]
    rounded: Sequence[Linear]

    def apply(self, rewriter: PatternRewriter) -> None:
        """Let the loop run for the whole tile, with what each point counts as conditions of the elements."""
        ranges = [form.range() for form in self.bounds]
        known = [Linear(constant=found[1]) for found in ranges if found is not None]
        bound_by(rewriter, self.op, least([*self.rounded, *known]))
        block = innermost_reduction(self.op).body.block
        for bound, rounded in zip(self.bounds, self.rounded, strict=True):
            if not equal(bound, rounded):
                where = loop.WhereOp(*to_map(to_sides([Linear.of(self.op.iv) - bound])))
                rewriter.insert(where, InsertPoint.at_start(block))


def roundings(launch: tile.LaunchOp, sizes: Mapping[SSAValue, int]) -> list[Rounding]:
    """The loops over chunks whose bounds differ between points of a tile, which takes `sizes` of each axis."""
    found: list[Rounding] = []
    for op in launch.body.walk():
        if isinstance(op, loop.ReduceOp) and innermost_reduction(op) is not op:
            bounds = bounds_of(op)
            rounded = [greatest(form, sizes) for form in bounds]
            if not all(map(equal, bounds, rounded)):
                found.append(Rounding(op, bounds, rounded))
    return found


def greatest(form: Linear, sizes: Mapping[SSAValue, int]) -> Linear:
    """The greatest value of a form in a tile, which takes `sizes` of each axis, along those with which it grows."""
    for axis, size in sizes.items():
        if _grows(form, axis):
            form = form.substitute(axis, Linear.of(axis) // size * size + (size - 1))
    return form


def smallest(form: Linear, sizes: Mapping[SSAValue, int]) -> Linear:
    """The least value of a form in a tile, which takes `sizes` of each axis, along those with which it grows."""
    for axis, size in sizes.items():
        if _grows(form, axis):
            form = form.substitute(axis, Linear.of(axis) // size * size)
    return form


def _grows(form: Linear, axis: SSAValue) -> bool:
    """Whether a form never gets smaller along an axis."""
    return all(
        coefficient > 0
        and (atom is axis or (isinstance(atom, Division) and not atom.remainder and _grows(atom.form, axis)))
        for atom, coefficient in form.terms
        if Linear.of(atom).depends_on(axis)
    )
