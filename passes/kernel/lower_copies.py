"""lower-copies: turn copies of shared slabs, and the rings that they fill, into moves of threads and what orders them.

    %ring = tile.ring 2                                %xs = kernel.alloc : memref<2x32xf32, #tile.memory<shared>>
    %xs = tile.alloc : memref<2x32xf32, ..>            loop.for %k = 0 to 8 {
    loop.for %k = 0 to 8 {                               kernel.wait_group 0
      tile.wait %ring[%k]                         ->     kernel.move async 4 %x[%k * 32 + %thread * 4]
      tile.copy %x[%k * 32 + d0] to %xs                    to %xs[%k mod 2, %thread * 4] ..
        at %ring[%k] async ..                            kernel.commit_group
    }                                                  }

Elements of the source outside the buffer become zero. Consecutive elements move together where both sides are
contiguous and aligned. The asynchronous copies of one step of a ring are one group of each thread, which the wait for
that step counts, or arrive at its phase; other asynchronous slabs are waited for at once, or are of the group of a
ring's first step, where only the loop that waits for it reads them. The tensor maps of copies in boxes are made before
the launch. No barrier is placed; place-barriers does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.slabs import Slab, slab_of, stand_in
from deplodock.analysis.affine.linear import Linear, never_fails
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.order.rings import (
    closes_group,
    conditions_of,
    groups_behind,
    is_mbarrier,
    phase_of,
    refills,
    step_boxes,
    step_of,
)
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.kernel.move import ASYNC_BYTES
from deplodock.dialects.kernel.roles import WARPGROUP
from deplodock.passes.kernel.builder import Condition, ThreadBuilder, require_expanded
from deplodock.passes.kernel.lower_boxes import copy_boxes, expected_bytes, first_thread, store_boxes, tensor_maps
from deplodock.passes.kernel.lower_stage import move_slab
from deplodock.passes.kernel.split_roles import PRODUCER, split_roles
from deplodock.passes.remarks import failure

UNROLLED_COPIES = 8
"""The most copies of a thread that are unrolled, so that their loads are in flight together; more are made in rounds.
On an H200 128 products of 77 x 80 and 80 x 77 halves, whose rows are copied one element at a time, take 40.9 us where a
thread waits for each of its 64 loads, 8.9 in tiles of 16 columns with 16 of them."""

UNROLLED_ASYNC_COPIES = 56
"""The most asynchronous copies of a thread that are unrolled: they take no registers, only instructions."""

COPIES = (tile.StageOp, tile.AllocOp, tile.RingOp, tile.CopyOp, tile.WaitOp, tile.ReleaseOp, tile.StoreOp)
"""What is lowered: shared slabs, rings, what fills and orders them, and stores of slabs."""


@dataclass(frozen=True)
class LowerCopiesPass(ModulePass):
    """Turn copies of shared slabs and the rings that they fill into moves of threads and what orders them."""

    name = "lower-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            for launch in launches(function):
                lower_copies(launch)


def lower_copies(launch: tile.LaunchOp) -> None:
    """Lower the shared slabs and rings of an expanded launch.

    Raises PassFailedException if it is not expanded, or holds a copy that threads and boxes cannot make.
    """
    require_expanded(launch)
    if not any(isinstance(op, COPIES) for op in launch.body.walk()):
        return
    builder = CopyBuilder(split_roles(launch))
    found = [op for op in builder.launch.body.walk() if isinstance(op, COPIES)]
    if stores := [op for op in found if isinstance(op, tile.StoreOp)]:
        _end_stores(builder.launch, stores[-1])
    for op in found:
        builder.take_place_of(op)
        _lower(builder, op)
        Rewriter.inline_block(builder.block, InsertPoint.before(op))
    subscripts = dict.fromkeys(value.owner for op in found for value in op.operands)
    for op in (*reversed(found), *subscripts):
        if isinstance(op, COPIES) or (isinstance(op, loop.IndexOp) and not op.result.uses):
            Rewriter.erase_op(op)


class CopyBuilder(ThreadBuilder):
    """Appends what one thread does for the copies of a launch."""

    def __init__(self, launch: tile.LaunchOp) -> None:
        super().__init__(launch)
        self.launch = launch
        self.elected: Sequence[Condition] = ()
        """The conditions that leave the thread which issues copies of boxes."""
        self.rings: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        """The barriers of each mbarrier ring: of full slots and of empty ones."""
        self.maps = tensor_maps(launch)
        """The tensor maps of the launch, by the buffer that they describe and their type."""

    def take_place_of(self, op: Operation) -> None:
        """Append to what will stand in the place of an operation from now on, as the threads that run that."""
        self.block, self.location = Block(), op.location
        role = next((around for around in ancestors(op, below=self.launch) if isinstance(around, kernel.Team)), None)
        if role is not None:
            self.thread, self.threads = role.thread_id, role.num_threads
        is_copier = role is not None and role.role_name == PRODUCER
        self.elected = [] if is_copier else [first_thread(self)]

    def place(self, slab: SSAValue) -> SSAValue:
        """Append the allocation of a slab, which stands for it from now on."""
        buffer = self.alloc(loop.memref_of(slab), slab.name_hint)
        slab.replace_all_uses_with(buffer)
        return buffer


def _lower(builder: CopyBuilder, op: Operation) -> None:
    match op:
        case tile.StageOp():
            _lower_stage(builder, op)
        case tile.AllocOp():
            builder.place(op.result)
        case tile.RingOp():
            _lower_ring(builder, op)
        case tile.CopyOp():
            _lower_copy(builder, op)
        case tile.WaitOp():
            _lower_wait(builder, op)
        case tile.ReleaseOp():
            _lower_release(builder, op)
        case tile.StoreOp():
            with builder.guarded(builder.elected):
                store_boxes(builder, builder.maps, op)
            builder.run(kernel.TmaCommitOp())
        case _:
            raise AssertionError(op)


def _lower_stage(builder: CopyBuilder, op: tile.StageOp) -> None:
    """Append the allocation of a slab and the copies that fill it."""
    is_awaited_later, reader = _is_awaited_later(op), _first_reader(op)
    slab = replace(slab_of(op), destination=builder.place(op.slab))
    if op.is_tma:
        _fill_at_once(builder, op, slab, reader)
        return
    _fill(builder, op, slab)
    if op.is_async and not is_awaited_later:
        builder.run(kernel.CommitGroupOp())
        builder.run(kernel.WaitGroupOp(0))


def _first_reader(op: tile.StageOp) -> Operation:
    """The first operation of a slab's block that reads it, or holds what does; without one, what follows the slab."""
    assert op.parent is not None
    found = [op.parent.find_ancestor_op_in_block(use.operation) for use in op.slab.uses]
    following = op.next_op
    assert following is not None
    return min((each for each in found if each is not None), key=op.parent.get_operation_index, default=following)


def _fill_at_once(builder: CopyBuilder, op: tile.StageOp, slab: Slab, reader: Operation) -> None:
    """Copy a slab in boxes, at a barrier of their own; `reader` waits for them."""
    full = builder.add(kernel.MbarrierOp(1, 1), "full")
    with builder.guarded(builder.elected):
        builder.run(kernel.ArriveOp(full, builder.map([Linear()]), expect=expected_bytes(op)))
        copy_boxes(builder, builder.maps, op, slab, (full, Linear()))
    wait = kernel.WaitPhaseOp(full, builder.map([Linear()]), builder.map([Linear()]))
    wait.location = op.location
    Rewriter.insert_op(wait, InsertPoint.before(reader))


def _lower_ring(builder: CopyBuilder, op: tile.RingOp) -> None:
    """Append the barriers of an mbarrier ring: a slot is full once its copies landed, empty once all warps read it."""
    if not op.is_mbarrier:
        return
    readers = builder.threads - WARPGROUP * bool(op.has_producer)
    depth, warps = op.depth.value.data, -(-readers // WARP)
    full = builder.add(kernel.MbarrierOp(depth, _filling_arrivals(builder, op)), "full")
    builder.rings[op.ring] = full, builder.add(kernel.MbarrierOp(depth, warps), "empty")


def _filling_arrivals(builder: CopyBuilder, op: tile.RingOp) -> int:
    """How often a phase of a full barrier is arrived at: by the copies of every thread, and once for all boxes."""
    copies = [use.operation for use in op.ring.uses if isinstance(use.operation, tile.CopyOp)]
    has_async = any(copy.is_async for copy in copies)
    return has_async * builder.threads + any(copy.is_tma for copy in copies)


def _lower_copy(builder: CopyBuilder, op: tile.CopyOp) -> None:
    """Append the copies of one step to its slot; the last of the step closes the group, whether or not it copies.

    On an mbarrier ring the first waits until the slot is empty, and the last arrives at the phase of the full one. The
    first copy in boxes stands for all of the step.
    """
    depth = tile.depth_of(op.ring)
    slot, phase = phase_of(step_of(op), depth)
    conditions = [condition for condition in conditions_of(op) if not never_fails(condition)]
    barriers, boxes = builder.rings.get(op.ring), step_boxes(op)
    if op.is_tma and op is not boxes[0] and not closes_group(op):
        return
    with builder.guarded(conditions):
        if barriers is not None and refills(op):
            before = (phase + 1) % 2
            builder.run(kernel.WaitPhaseOp(barriers[1], builder.map([slot]), builder.map([before])))
        if not op.is_tma:
            slab = replace(slab_of(op), at=(slot,), facts=tuple(conditions))
            _fill(builder, op, slab)
        elif op is boxes[0]:
            _fill_slot(builder, boxes, slot)
        if barriers is not None and closes_group(op):
            builder.run(kernel.ArriveCopiesOp(barriers[0], builder.map([slot])))
    if barriers is None and closes_group(op):
        builder.run(kernel.CommitGroupOp())


def _fill_slot(builder: CopyBuilder, copies: Sequence[tile.CopyOp], slot: Linear) -> None:
    """Copy slabs in boxes to a slot of an mbarrier ring."""
    if (barriers := builder.rings.get(copies[0].ring)) is None:
        raise failure(copies[0], "tma copies arrive at phases; the ring must be an mbarrier ring")
    with builder.guarded(builder.elected):
        bytes = sum(expected_bytes(op) for op in copies)
        builder.run(kernel.ArriveOp(barriers[0], builder.map([slot]), expect=bytes))
        for op in copies:
            slab = replace(slab_of(op), at=(slot,))
            copy_boxes(builder, builder.maps, op, slab, (barriers[0], slot))


def _lower_wait(builder: CopyBuilder, op: tile.WaitOp) -> None:
    """Append the wait for the groups up to the step's, or for its phase."""
    if (barriers := builder.rings.get(op.ring)) is not None:
        slot, phase = phase_of(step_of(op), tile.depth_of(op.ring))
        builder.run(kernel.WaitPhaseOp(barriers[0], builder.map([slot]), builder.map([phase % 2])))
    elif (groups := groups_behind(op)) is not None:
        builder.run(kernel.WaitGroupOp(groups))


def _lower_release(builder: CopyBuilder, op: tile.ReleaseOp) -> None:
    """Append the arrivals of the warps, which have read the step."""
    if (barriers := builder.rings.get(op.ring)) is not None:
        slot = step_of(op) % tile.depth_of(op.ring)
        builder.run(kernel.ArriveOp(barriers[1], builder.map([slot]), is_warp=True))


def _end_stores(launch: tile.LaunchOp, last: tile.StoreOp) -> None:
    """Let those who store slabs wait at their end until all have been read."""
    role = next((around for around in ancestors(last, below=launch) if isinstance(around, kernel.Team)), launch)
    wait = kernel.TmaWaitOp(0)
    wait.location = last.location
    role.regions[0].block.add_op(wait)


def _is_awaited_later(op: tile.StageOp) -> bool:
    """Whether the wait for other copies is one for those of an asynchronous slab too, which they follow at once.

    Those are copies of another slab, or of the first steps of a ring, in whose loop all readers of the slab stand.
    """
    following: Operation | None = op.next_op
    while isinstance(following, loop.IndexOp | tile.RingOp | tile.AllocOp):
        following = following.next_op
    if isinstance(following, tile.StageOp):
        return bool(following.is_async)
    first = following.body.block.first_op if isinstance(following, loop.ForOp) else following
    if not isinstance(first, tile.CopyOp) or not first.is_async or is_mbarrier(first.ring):
        return False
    waits = [use.operation for use in first.ring.uses if isinstance(use.operation, tile.WaitOp)]
    loops = [wait.parent_op() for wait in waits if wait.parent is not None and wait.parent.first_op is wait]
    return bool(loops) and all(around is not None and _reads_inside(op, around) for around in loops)


def _reads_inside(op: tile.StageOp, around: Operation) -> bool:
    """Whether all readers of a slab stand in an operation."""
    return all(around.is_ancestor(use.operation) for use in op.slab.uses)


def _fill(builder: CopyBuilder, op: tile.StageOp | tile.CopyOp, slab: Slab) -> None:
    is_async = bool(op.is_async)
    if is_async and (bytes := slab.copy_bytes()) not in ASYNC_BYTES:
        raise failure(
            op,
            f"{label(slab.source)} cannot be copied asynchronously: a thread copies {bytes} bytes at once, "
            "and an asynchronous copy moves 4, 8 or 16",
        )
    outer = builder.block
    _fill_shared(builder, slab, is_async)
    builder.block = outer


def _fill_shared(builder: CopyBuilder, slab: Slab, is_async: bool) -> None:
    """The threads that copy take turns over the slab, in the order of `Slab.coordinates`."""
    threads = slab.copiers(builder.threads)
    total = slab.copies(threads)
    if not total:
        return
    trips = -(-total // threads)
    copier = stand_in(threads)
    flat = Linear.of(copier)
    with builder.guarded([Linear.of(builder.thread) - threads] if threads < builder.threads else []):
        at_once = trips if is_async else _at_once(trips, is_whole=total % threads == 0)
        if at_once < trips:
            name = "r" if at_once > 1 else "c"
            flat = Linear.of(builder.enter_loop(trips // at_once, name, unroll=False), at_once * threads) + flat
        if at_once > 1:
            unroll = not is_async or trips <= UNROLLED_ASYNC_COPIES
            flat = Linear.of(builder.enter_loop(at_once, "c", unroll=unroll), threads) + flat
        chunk = stand_in(total)

        def place(form: Linear) -> Linear:
            return form.substitute(chunk, flat).substitute(copier, Linear.of(builder.thread))

        coordinates = slab.coordinates(Linear.of(chunk), threads)
        beyond: list[Condition] = [place(Linear.of(chunk)) - total] if total % threads else []
        beyond += map(place, slab.ends(coordinates))
        with builder.guarded(beyond):
            move_slab(builder, slab, coordinates, slab.copy_width, is_async, place)


def _at_once(trips: int, *, is_whole: bool) -> int:
    """How many of a thread's copies are unrolled: equal rounds, or one at a time where the last is not all threads'."""
    if trips <= UNROLLED_COPIES:
        return trips
    return max(size for size in range(1, UNROLLED_COPIES + 1) if trips % size == 0) if is_whole else 1
