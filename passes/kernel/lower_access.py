"""Lowers reads and writes of memory: vectors along a register axis, guards, and the one writer of an element."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.alignment import is_in_order, lanes_along, steps_along
from deplodock.analysis.affine.linear import (
    Linear,
    constant_place,
    extent_of,
    form_of_value,
    never_fails,
    subscripts_of,
)
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import is_coordinate, siblings
from deplodock.analysis.shape.roles import column_reads
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.buffers import last_dimension
from deplodock.dialects.tile import Binding, Memory
from deplodock.loading import loaded
from deplodock.passes.kernel.builder import Condition, in_shape
from deplodock.passes.kernel.emit import Array, Emitter, Place
from deplodock.passes.remarks import failure

if TYPE_CHECKING:
    from deplodock.passes.kernel.lower_exchange import Exchange

Lanes = tuple[int, ...]
"""The place in memory of each of a few consecutive coordinates, as `lanes_along` gives it."""


def lower_load(emitter: Emitter, op: loop.LoadOp) -> None:
    """Emit a read: in place where one element is always in the buffer, else through registers that are zero outside."""
    source, type = emitter.value(op.source), loop.memref_of(op.source)
    forms = subscripts_of(op)
    axes = emitter.axes_of([op.result])
    conditions = _readable(emitter, op, axes)
    if not conditions and (matrices := _matrices(emitter, op)) is not None:
        emitter.bind(op.result, matrices)
        return
    if not axes and not conditions:
        emitter.values[op.result] = emitter.add(loop.LoadOp(source, *emitter.map(forms)), op.result.name_hint)
        return
    ordered, lanes = vectorize(emitter, type, forms, axes, conditions)
    emitter.bind_array(op.result, _read(emitter, op, ordered, lanes))


def _matrices(emitter: Emitter, op: loop.LoadOp) -> Array | None:
    """Emit a read of matrices of shared memory for contracts; None where it is another read."""
    is_factor = all(isinstance(use.operation, tile.ContractOp) for use in op.result.uses)
    if not is_factor or tile.memory_of(op.source) is not Memory.SHARED:
        return None
    return loaded("deplodock.passes.kernel.lower_matrices:lower_matrices")(emitter, op)


def read_vectors(emitter: Emitter, op: loop.ReduceOp) -> None:
    """Emit the reads of an unrolled reduction that take its whole extent in one access, before the loop."""
    if not op.unroll or op.trips is None:
        return
    for load in op.body.block.ops:
        if not isinstance(load, loop.LoadOp) or tile.memory_of(load.source) is Memory.REGISTER:
            continue
        type, forms = loop.memref_of(load.source), subscripts_of(load)
        if any(root is not op.iv and op.is_ancestor(root.owner) for form in forms for root in form.roots()):
            continue
        axes = [*emitter.axes_of([load.result]), op.iv]
        ordered, lanes = vectorize(emitter, type, forms, axes, _readable(emitter, load, axes))
        if ordered[-1] is op.iv and len(lanes) == op.trips > 1:
            emitter.arrays[load.result] = _read(emitter, load, ordered, lanes)


def _read(emitter: Emitter, op: loop.LoadOp, axes: Sequence[SSAValue], lanes: Lanes) -> Array:
    """Move what a load reads at all coordinates of some axes to registers, `lanes` along the last at once."""
    type, forms = loop.memref_of(op.source), subscripts_of(op)
    conditions = _readable(emitter, op, axes)
    array, width = emitter.register(type.element_type, axes, op.result.name_hint), len(lanes)
    exchange = _exchange("found_exchange")(emitter, op.source, forms, conditions, array) if lanes == (0, 1) else None
    if exchange is not None:
        with _exchange("exchanged")(emitter, array, exchange, reads=True) as (block, at):
            guard = emitter.condition_map([at(form) for form in conditions]) if conditions else None
            read = (emitter.value(op.source), *emitter.map(map(at, forms)))
            emitter.run(kernel.MoveOp(exchange.width, read, (block, *constant_place(0)), guard))
    for rest in _rest(emitter, axes, exchange):
        with vector_nest(emitter, rest, width) as at:
            guard = emitter.condition_map([at(form) for form in conditions]) if conditions else None
            read = (emitter.value(op.source), *emitter.map(_first(type, [at(form) for form in forms], lanes)))
            _read_lanes(emitter, array, read, lanes, at, guard)
    return array


def read_array(emitter: Emitter, source: SSAValue, forms: Sequence[Linear], axes: Sequence[SSAValue]) -> Array:
    """Move the elements of a buffer at all coordinates of some register axes to registers, several at once where those
    are neighbours.
    """
    type = loop.memref_of(source)
    ordered, lanes = vectorize(emitter, type, forms, axes, ())
    array = emitter.register(type.element_type, ordered, source.name_hint)
    with vector_nest(emitter, ordered, len(lanes)) as at:
        read = (source, *emitter.map(_first(type, [at(form) for form in forms], lanes)))
        _read_lanes(emitter, array, read, lanes, at, None)
    return array


def _read_lanes(
    emitter: Emitter,
    array: Array,
    read: Place,
    lanes: Lanes,
    at: Callable[[Linear], Linear],
    guard: tuple[AffineMap, list[SSAValue]] | None,
) -> None:
    """Move memory to registers, `lanes` along the last axis of the array at once."""
    places, width = [at(form_of_value(axis)) for axis in array.axes], len(lanes)
    if is_in_order(lanes):
        emitter.run(kernel.MoveOp(width, read, (array.buffer, *emitter.map(places)), guard))
        return
    vector = emitter.allocate(loop.memref_of(array.buffer).element_type, [width], Memory.REGISTER, "vector")
    emitter.run(kernel.MoveOp(width, read, (vector, *constant_place(0)), guard))
    for offset, lane in enumerate(lanes):
        value = emitter.add(loop.LoadOp(vector, *constant_place(lane)), array.buffer.name_hint)
        emitter.run(loop.StoreOp(value, array.buffer, *emitter.map(_moved(places, len(places) - 1, offset))))


def _exchange(name: str) -> Callable[..., Any]:
    """A function of what lanes of halves exchange."""
    return loaded(f"deplodock.passes.kernel.lower_exchange:{name}")


def _rest(emitter: Emitter, axes: Sequence[SSAValue], exchange: Exchange | None) -> Iterator[list[SSAValue]]:
    """The register axes of accesses of single lanes: all, or those of each block that an exchange leaves."""
    if exchange is None:
        yield list(axes)
        return
    known = dict(emitter.coordinates)
    for place in exchange.left:
        emitter.coordinates[exchange.blocks] = place
        yield [axis for axis in axes if axis is not exchange.blocks]
    emitter.coordinates = known


def _write(
    emitter: Emitter,
    array: Array,
    written: Place,
    lanes: Lanes,
    at: Callable[[Linear], Linear],
    along: SSAValue,
) -> None:
    """Move registers to memory, `lanes` along an axis of the array at once."""
    places, width, place = [at(form_of_value(axis)) for axis in array.axes], len(lanes), array.axes.index(along)
    if is_in_order(lanes) and array.axes[-1] is along:
        emitter.run(kernel.MoveOp(width, (array.buffer, *emitter.map(places)), written))
        return
    vector = emitter.allocate(loop.memref_of(array.buffer).element_type, [width], Memory.REGISTER, "vector")
    for offset, lane in enumerate(lanes):
        value = emitter.add(loop.LoadOp(array.buffer, *emitter.map(_moved(places, place, offset))))
        emitter.run(loop.StoreOp(value, vector, *constant_place(lane)))
    emitter.run(kernel.MoveOp(width, (vector, *constant_place(0)), written))


def write_array(emitter: Emitter, array: Array, destination: SSAValue, forms: Sequence[Linear]) -> None:
    """Move a register buffer to the elements of another one, several at once where those are neighbours."""
    axes, lanes = vectorize(emitter, loop.memref_of(destination), forms, array.axes, ())
    with vector_nest(emitter, axes, len(lanes)) as at:
        type = loop.memref_of(destination)
        place = (destination, *emitter.map(_first(type, [at(form) for form in forms], lanes)))
        if len(lanes) > 1:
            _write(emitter, array, place, lanes, at, axes[-1])
        else:
            emitter.run(loop.StoreOp(emitter.load(array), *place))


def _moved(places: Sequence[Linear], along: int, offset: int) -> list[Linear]:
    return [*places[:along], places[along] + offset, *places[along + 1 :]]


def _first(type: MemRefType[Attribute], forms: Sequence[Linear], lanes: Lanes) -> list[Linear]:
    """The subscripts where an access starts, for those of its first coordinate."""
    return [form - lanes[0] if dim == last_dimension(type) else form for dim, form in enumerate(forms)]


def _readable(emitter: Emitter, op: loop.LoadOp, axes: Sequence[SSAValue]) -> list[Condition]:
    """The conditions under which an element can be read, for a value that varies along these register axes.

    Subscripts of unknown range, such as those read from memory, are taken to lie in the buffer at active points only.
    """
    forms = subscripts_of(op)
    conditions = in_shape(loop.memref_of(op.source), forms)
    if any(form.range() is None for form in forms):
        _check_gathered(emitter, op)
        conditions += [condition for condition in emitter.conditions if _is_known(emitter, condition, axes)]
    return conditions


def _check_gathered(emitter: Emitter, op: loop.LoadOp) -> None:
    """Raises PassFailedException for a gather whose threads know the activity of another point than its own.

    They know that of a point if what runs its coordinates along a lane axis runs none of the conditions along another.
    """
    varied, carriers = emitter.dependence.of(op.result), emitter.launch.carried_axes()
    for condition in emitter.conditions if carriers else ():
        if (pair := siblings(varied | emitter.dependence.of(*condition.roots()), carriers)) is not None:
            own, other = pair if pair[0] in varied else pair[::-1]
            raise failure(
                op,
                f"its subscripts are of unknown range, and it varies along {label(own)}, "
                f"while a condition on its points varies along {label(other)}, which shares the threads",
            )


def _is_known(emitter: Emitter, condition: Condition, axes: Sequence[SSAValue]) -> bool:
    """Whether a condition is over coordinates that a value that varies along these register axes knows."""
    roots = list(condition.roots())
    return all(is_coordinate(root) for root in roots) and all(axis in axes for axis in emitter.axes_of(roots))


def move(
    emitter: Emitter,
    width: int,
    source: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
    destination: tuple[SSAValue, AffineMap, Sequence[SSAValue]],
) -> None:
    """Emit the copy of so many neighbouring elements in one access."""
    emitter.run(kernel.MoveOp(width, source, destination))


def lower_store(emitter: Emitter, op: loop.StoreOp, compute: Callable[[], None] | None = None) -> None:
    """Emit a write at the active points; along axes that the address does not mention, coordinate 0 alone writes.

    With `compute` the value is computed there, just before it is written.
    """
    destination, forms = emitter.value(op.destination), subscripts_of(op)
    mentioned = emitter.dependence.of(*op.indices)
    unmentioned = [axis for axis in emitter.launch.axes if axis not in mentioned]
    others = _at_first(emitter, mentioned)
    for axis in emitter.launch.axes:
        if axis in emitter.elected and axis in mentioned and emitter.extent(axis) > 1:
            name = axis.name_hint or "?"
            raise failure(op, f"it writes along %{name}, whose CTAs a combine has folded; write before the combine")
    conditions = [*(_at_origin(condition, unmentioned) for condition in emitter.conditions), *emitter.own]
    conditions += [_only_first(axis) for axis in others if emitter.launch.binding(axis) is not Binding.REGISTER]
    conditions = [condition for condition in conditions if not never_fails(condition)]
    _store(emitter, op, (destination, forms), others, conditions, compute)


def lower_keep(emitter: Emitter, op: tile.KeepOp) -> None:
    """Emit the allocation of a slab, unless it is there, and the writes of all points; along axes of a CTA that the
    address does not mention, coordinate 0 alone writes.
    """
    if op.slab not in emitter.values:
        emitter.values[op.slab] = emitter.alloc(loop.memref_of(op.slab), op.slab.name_hint)
    slab = emitter.values[op.slab]
    first = _at_first(emitter, emitter.dependence.of(*op.indices))
    others = [axis for axis in first if axis not in emitter.launch.ctas]
    conditions = [_only_first(axis) for axis in others if emitter.launch.binding(axis) is not Binding.REGISTER]
    conditions = [condition for condition in conditions if not never_fails(condition)]
    _store(emitter, op, (slab, subscripts_of(op)), others, conditions)


def _store(
    emitter: Emitter,
    op: loop.StoreOp | tile.KeepOp,
    written: tuple[SSAValue, Sequence[Linear]],
    others: Sequence[SSAValue],
    conditions: Sequence[Condition],
    compute: Callable[[], None] | None = None,
) -> None:
    """Emit the write of a value to an element of a buffer under conditions, at coordinate 0 of other register axes."""
    destination, forms = written
    axes = emitter.axes_of(op.indices)
    ordered, lanes = vectorize(emitter, loop.memref_of(destination), forms, axes, conditions)
    array = emitter.arrays.get(op.value)
    if array is None or not set(ordered[-1:]) <= set(array.axes):
        lanes = (0,)

    known = dict(emitter.coordinates)
    emitter.coordinates |= {axis: 0 for axis in others if emitter.launch.binding(axis) is Binding.REGISTER}
    exchange = None
    if array is not None and lanes == (0, 1) and array.axes[-1:] == (*ordered[-1:],) and {*array.axes} == {*ordered}:
        exchange = _exchange("found_exchange")(emitter, destination, forms, conditions, array)
    if array is not None and exchange is not None:
        with (
            _exchange("exchanged")(emitter, array, exchange) as (block, at),
            emitter.guarded([at(each) for each in conditions]),
        ):
            place = destination, *emitter.map(map(at, forms))
            emitter.run(kernel.MoveOp(exchange.width, (block, *constant_place(0)), place))
    for rest in _rest(emitter, ordered, exchange):
        guarding, inner = _guarding(rest, conditions, len(lanes))
        with (
            emitter.nest(guarding),
            emitter.guarded(conditions if guarding else []),
            vector_nest(emitter, inner, len(lanes)) as at,
            emitter.guarded([] if guarding else [at(each) for each in conditions]),
        ):
            if compute is not None:
                compute()
            type = loop.memref_of(destination)
            place = (destination, *emitter.map(_first(type, [at(form) for form in forms], lanes)))
            if len(lanes) > 1:
                assert array is not None
                _write(emitter, array, place, lanes, at, ordered[-1])
            else:
                emitter.run(loop.StoreOp(emitter.value(op.value), *place))
    emitter.coordinates = known


def is_branched(emitter: Emitter, op: loop.StoreOp) -> bool:
    """Whether branches are around the writes of a contraction's register tile, of one output each.

    What is held for them until then takes registers and their banks from the sums: before gelu an FFMA takes 1.61 issue
    slots, 1.18 where each branch computes what it writes; before two mishes 1.75 and 1.21 (read off the code for
    sm_90). Where no branch is in the way ptxas orders them itself.
    """
    axes, type = emitter.axes_of(op.indices), loop.memref_of(op.destination)
    is_whole = bool(axes and emitter.conditions) and set(axes) == emitter.cells
    return is_whole and vectorize(emitter, type, subscripts_of(op), axes, emitter.conditions)[1] == (0,)


def _guarding(
    axes: Sequence[SSAValue], conditions: Sequence[Condition], width: int
) -> tuple[list[SSAValue], list[SSAValue]]:
    """The register axes that alone decide conditions, where that are not all of those that an access walks, and the
    others: one branch is for all accesses along these, and so is what nvcc computes of a coordinate within it.

    None do where the last axis decides, of which an access is `width` coordinates wide.
    """
    guarding = [axis for axis in axes if any(condition.depends_on(axis) for condition in conditions)]
    others = [axis for axis in axes if axis not in guarding]
    if not guarding or not others or (width > 1 and axes[-1] in guarding):
        return [], list(axes)
    return guarding, others


def _at_first(emitter: Emitter, mentioned: Container[SSAValue]) -> list[SSAValue]:
    """The axes of which coordinate 0 alone writes; along a lane axis and its carrier it is the carrier's threads."""
    carriers = emitter.launch.carried_axes()
    writing = {carrier for lane, carrier in carriers.items() if lane in mentioned}
    unmentioned = [axis for axis in emitter.launch.axes if axis not in mentioned and axis not in emitter.elected]
    unheld = emitter.launch.bound_to(Binding.ENGINE)
    return [axis for axis in unmentioned if axis not in carriers and axis not in writing and axis not in unheld]


def _at_origin(condition: Condition, axes: Sequence[SSAValue]) -> Condition:
    for axis in axes:
        condition = condition.substitute(axis, Linear())
    return condition


def _only_first(axis: SSAValue) -> Condition:
    return Linear.of(axis) - 1


def vectorize(
    emitter: Emitter,
    type: MemRefType[Attribute],
    subscripts: Sequence[Linear],
    axes: Sequence[SSAValue],
    conditions: Sequence[Condition],
) -> tuple[list[SSAValue], Lanes]:
    """The register axes with the one that an access can be widened along last, and the lanes; (0,) where there is none.

    What meets the accumulators of a register tile one by one is widened only if pairs of its elements are swapped, or
    those of the factor's columns: a wide access ties its registers to aligned quads, and the accumulators with them. In
    one order, those have the register banks of the columns and collide with them (0.3 to 0.9 instead of 0.10 lost issue
    slots for each FFMA, read off the code for sm_90); with pairs of either swapped they have the other banks (0.06).
    """
    is_tile = bool(axes) and set(axes) == emitter.cells
    data = [root for form in (*subscripts, *conditions) for root in form.roots() if not is_coordinate(root)]
    gathered = emitter.axes_of(data)
    for along in reversed(axes):
        if along in gathered:
            continue
        lanes = lanes_along(type, subscripts, along, emitter.extent(along))
        while len(lanes) > 1 and not all(_is_uniform(condition, along, len(lanes)) for condition in conditions):
            half = lanes[: len(lanes) // 2]
            lanes = half if sorted(half) == list(range(len(half))) else (0,)
        if len(lanes) > 1 and not (is_tile and _shares_banks(emitter, along, lanes)):
            return [axis for axis in axes if axis is not along] + [along], lanes
    return list(axes), (0,)


def _shares_banks(emitter: Emitter, along: SSAValue, lanes: Lanes) -> bool:
    """Whether an access of accumulators along an axis would tie one to the register bank of its factor."""
    assert emitter.contraction is not None
    places = range(len(lanes))
    reads = [
        lanes_along(loop.memref_of(read.source), subscripts_of(read), along, emitter.extent(along))
        for read in column_reads(emitter.contraction, along)
    ]
    factors = [[read[place % len(read)] for place in places] for read in reads if len(read) > 1] or [list(places)]
    return any(lanes[place] % 2 == factor[place] % 2 for factor in factors for place in places)


def _is_uniform(condition: Condition, along: SSAValue, width: int) -> bool:
    """Whether a condition holds for all of `width` aligned coordinates, which an access permutes, or for none."""
    extent = extent_of(along)
    if width == 1 or not condition.depends_on(along):
        return True
    if extent is None or (found := steps_along(condition, along, extent)) is None:
        return False
    rest, steps = found
    return rest.divisor() % width == 0 and all(step // width == value // width for value, step in enumerate(steps))


@contextmanager
def vector_nest(emitter: Emitter, axes: Sequence[SSAValue], width: int) -> Generator[Callable[[Linear], Linear]]:
    """Emit into loops over register axes, `width` coordinates of the last at once.

    Gives the function that takes a form to its value at the first of those coordinates.
    """
    if width == 1:
        with emitter.nest(axes):
            yield lambda form: form
        return
    *outer, along = axes
    with emitter.nest(outer):
        trips = emitter.extent(along) // width
        first = Linear()
        if trips > 1:
            first = Linear.of(emitter.enter_loop(trips, along.name_hint), width)
        yield lambda form: form.substitute(along, first)
