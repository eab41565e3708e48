"""What combines over block and cluster axes share: CTAs leave their parts in memory, and fold those of others.

Where the last register axes make 16 bytes, a thread leaves so many values side by side, and reads them at once:

    kernel.move 4 %packed[0] to %part[%j, %thread, 0]
    ..
    kernel.move 4 %part[%j, %thread, 0] to %packed[0]

Lowers `tile.combine` over cluster axes: CTAs of a cluster fold each other's parts, and each finishes its share.

    %acc = tile.combine {arith.addf} %p          %part = kernel.alloc : memref<16x128x4xf32, #tile.memory<shared>>
      over (%s) at (%j = %l * 4 + %i) : f32      kernel.move 4 %packed[0] to %part[%j, %thread, 0]
    loop.store %acc, %out[%m, %l * 16 + ..]  ->  kernel.cluster_barrier
                                                 ..  kernel.cluster_move 4 %part[%s * 4 + %i, %thread, 0] of %part ..
                                                 kernel.cluster_barrier
                                                 loop.store %acc, %out[%m, %s * 16 + ..]

The parts are folded in the order of their ranks. The second barrier keeps all CTAs until nobody reads their memory.

Without `at` a CTA folds the parts of some warps. What follows runs in all CTAs, so that it may hold what all threads
must reach, but only the folded values are stored:

    loop.guard where (%thread < %s * 32 + 32, %s * 32 < %thread + 1) {
      loop.store %acc, %out[%m, %n]
    }

Lowers `tile.combine` over block axes: CTAs leave their parts in memory, the last of them goes on with their fold.

    %acc = tile.combine {arith.addf} %p          loop.store %p, %acc_part[%tile, %s, %r, %thread]
      over (%s) : f32                            kernel.fence
    loop.store %acc, %out[%m, %n]          ->    %last = kernel.ticket %turns[%tile] of 4
                                                 loop.guard where (0 < %last) {
                                                   kernel.fence
                                                   ..                     // folds the 4 parts in order
                                                   loop.store %acc, %out[%m, %n]
                                                 }

The parts of neighbouring threads are neighbours in memory. They are folded in the order of the axis, whoever comes
last, so results do not depend on timing.

Lets each CTA of a cluster take a share of what a combine over it gives: some coordinates of a register axis.

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

import itertools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear, constant_place, extent_or_one, form_of_value, forms_of, to_map
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.interfaces import Place
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.kernel.builder import Condition, packed_axes, part_shape
from deplodock.passes.kernel.emit import Array, Emitter, Held
from deplodock.passes.kernel.lower_access import move
from deplodock.passes.tile.edits import Axis, append_axis, append_lane, reorder

PARTS_AT_ONCE = 256
"""The most parts of other CTAs that a thread reads in unrolled code; of more, it reads those of one CTA at once."""

Element: TypeAlias = tuple[SSAValue, AffineMap, list[SSAValue]]
"""An element of a buffer: a map over operands that gives the subscripts."""


def place_of(emitter: Emitter, axes: Sequence[SSAValue]) -> Linear:
    """The linear coordinate of some axes, the last one fastest."""
    place, stride = Linear(), 1
    for axis in reversed(axes):
        place, stride = Linear.of(axis, stride) + place, stride * emitter.extent(axis)
    return place


class Parts:
    """The buffers, one for each value, in which the threads of CTAs leave theirs: in the shape of `part_shape`, behind
    the place of the CTA.

    Of values side by side each pair of neighbours is swapped, so that a wide access ties no sum to the register bank of
    its column's factor.
    """

    def __init__(self, emitter: Emitter, buffers: Sequence[SSAValue], axes: Sequence[SSAValue]) -> None:
        """`axes` are the register axes along which the values vary."""
        self._emitter = emitter
        self._buffers = buffers
        types = [loop.memref_of(buffer).element_type for buffer in buffers]
        count = len(axes) - packed_axes([emitter.extent(axis) for axis in axes], types)
        self._loose, self._packed = axes[:count], axes[count:]
        self.width = math.prod(emitter.extent(axis) for axis in self._packed)
        """The values that an access moves."""

    def at(self, first: Sequence[Linear], taken: Mapping[SSAValue, Linear] | None = None) -> Place:
        """The subscripts of this thread's values behind some first ones, where axes are `taken` as they are said."""
        own = [(taken or {}).get(axis, axis) for axis in self._loose]
        return self._emitter.map([*first, *own, self._emitter.thread, *([Linear()] if self._packed else [])])

    def leave(self, held: Sequence[Held], first: Sequence[Linear]) -> None:
        """Emit the stores of values, behind the subscripts of this CTA."""
        emitter = self._emitter
        with emitter.nest(self._loose):
            for value, buffer in zip(held, self._buffers, strict=True):
                if not self._packed:
                    emitter.run(loop.StoreOp(emitter.read(value), buffer, *self.at(first)))
                    continue
                vector = self._vector(buffer)
                for lane in self._lanes():
                    emitter.run(loop.StoreOp(emitter.read(value), vector, *constant_place(lane)))
                move(emitter, self.width, (vector, *constant_place(0)), (buffer, *self.at(first)))

    def fold(
        self,
        op: tile.CombineOp,
        arrays: Sequence[Array],
        count: int,
        read: Callable[[SSAValue, Linear, Element], None],
    ) -> None:
        """Emit that accumulators take in the parts of `count` CTAs in order.

        `read` emits the read of a thread's values in a buffer, those of the CTA of a number, to registers.
        """
        emitter, outer = self._emitter, self._emitter.block
        axes = arrays[0].axes
        is_short = count * math.prod(map(emitter.extent, axes)) <= PARTS_AT_ONCE
        part = Linear.of(emitter.enter_loop(count, "cta", unroll=is_short))
        with emitter.nest([axis for axis in axes if axis not in self._packed]):
            vectors = [self._vector(buffer) for buffer in self._buffers]
            for buffer, vector in zip(self._buffers, vectors, strict=True):
                read(buffer, part, (vector, *constant_place(0)))
            for lane in self._lanes():
                values = [emitter.add(loop.LoadOp(vector, *constant_place(lane))) for vector in vectors]
                emitter.fold_into(arrays, op.combiner, values)
        emitter.block = outer

    def _vector(self, buffer: SSAValue) -> SSAValue:
        """Registers for what one access moves."""
        element = loop.memref_of(buffer).element_type
        return self._emitter.allocate(element, [self.width], Memory.REGISTER, "packed")

    def _lanes(self) -> Generator[int]:
        """The places of values in an access, each with the packed axes at the value's coordinates."""
        emitter, known = self._emitter, dict(self._emitter.coordinates)
        extents = [range(emitter.extent(axis)) for axis in self._packed]
        for number, coordinates in enumerate(itertools.product(*extents)):
            emitter.coordinates |= zip(self._packed, coordinates, strict=True)
            yield number if self.width == 1 else number // 2 * 2 - number % 2 + 1
        emitter.coordinates = known


def fold_cluster(emitter: Emitter, op: tile.CombineOp, ranks: Sequence[SSAValue], held: Sequence[Held]) -> list[Held]:
    """Fold the values held in all CTAs of a cluster.

    From now on each CTA goes on with its share of them, or each thread's stores happen in one CTA. Returns the results
    as they are held; in other CTAs they are unspecified.
    """
    left = held[0].axes if isinstance(held[0], Array) else ()
    kept = emitter.axes_of(op.results)
    count = math.prod(emitter.extent(axis) for axis in ranks)
    types = [result.type for result in op.results]
    shape = part_shape([emitter.extent(axis) for axis in left], types, emitter.threads)
    buffers = [emitter.allocate(type, shape, Memory.SHARED, "part") for type in types]
    parts = Parts(emitter, buffers, left)
    taken = dict(zip(op.at.moved, forms_of(op.at.map, op.at.axes), strict=True))

    def read(buffer: SSAValue, rank: Linear, to: Element) -> None:
        emitter.run(kernel.ClusterMoveOp(parts.width, (buffer, *parts.at([], taken)), emitter.map([rank]), to))

    parts.leave(held, [])
    emitter.run(kernel.ClusterBarrierOp())
    arrays = emitter.accumulators(op, kept)
    # Whole warps: what follows may exchange values between the lanes of a warp.
    share = -(-emitter.threads // (count * WARP)) * WARP
    own = [] if taken else _own_threads(place_of(emitter, ranks), emitter.thread, share)
    with emitter.guarded(own):
        parts.fold(op, arrays, count, read)
    emitter.run(kernel.ClusterBarrierOp())
    emitter.own = own
    emitter.elected |= set(ranks)
    return list(arrays) if kept else [emitter.load(array) for array in arrays]


def _own_threads(rank: Linear, thread: SSAValue, share: int) -> list[Condition]:
    """That a thread is among those that the CTA of a rank finishes, `share` of them."""
    first, own = rank * share, Linear.of(thread)
    return [own - first - share, first - own - 1]


def fold_blocks(emitter: Emitter, op: tile.CombineOp, blocks: Sequence[SSAValue], held: Sequence[Held]) -> list[Held]:
    """Leave the values held in memory and fold those of all CTAs along some block axes.

    What is emitted from now on runs in the last of those CTAs alone. Returns the results as they are held.
    """
    workspace, kept = emitter.workspaces[op], emitter.axes_of(op.results)
    others = [axis for axis in emitter.launch.ctas if axis not in blocks]
    tile_place, count = place_of(emitter, others), math.prod(emitter.extent(axis) for axis in blocks)

    parts = Parts(emitter, workspace.parts, kept)

    def read(buffer: SSAValue, part: Linear, to: Element) -> None:
        move(emitter, parts.width, (buffer, *parts.at([tile_place, part])), to)

    parts.leave(held, [tile_place, place_of(emitter, blocks)])
    elect_last(emitter, workspace.counters, tile_place, Linear(constant=count))
    emitter.elected |= set(blocks)
    arrays = emitter.accumulators(op, kept)
    parts.fold(op, arrays, count, read)
    return list(arrays) if kept else [emitter.load(array) for array in arrays]


def elect_last(emitter: Emitter, counters: SSAValue, counter: Linear, ctas: Linear) -> None:
    """Emit for the last of some CTAs only from now on, which sees what all of them did."""
    emitter.run(kernel.FenceOp())
    last = emitter.add(kernel.TicketOp(counters, emitter.map([counter]), emitter.map([ctas])), "last")
    comes_last = AffineMap(1, 0, (AffineExpr.constant(0), AffineExpr.dimension(0)))
    body = Block()
    emitter.run(loop.GuardOp(comes_last, [last], Region(body)))
    emitter.block = body
    emitter.run(kernel.FenceOp())


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
