"""Lowers a launch whose CTAs share the steps of all tiles: one loop over the steps of a CTA, from tile to tile.

    tile.launch (%m_b = 4 : block,                    loop.for %i = 0 to 48 {
                 %n_b = 28 : block, ..) stream 262 {    loop.guard where (first step of a tile) {
      %acc = loop.reduce %ko = 0 to 112 {..}              ..                             // the sums start anew
      loop.store %acc, %out[..]                         }
    }                                                   ..                               // the step
                                                        loop.guard where (last step of %tile, or of the CTA) {
                                                          ..                             // the part is left
                                                ->        kernel.fence
                                                          %last = kernel.ticket %turns[%tile] of %parts
                                                          loop.guard where (0 < %last) {
                                                            kernel.fence
                                                            loop.for %m_r = 0 to 4 {
                                                              ..                         // the parts are folded
                                                              loop.store %acc, %out[..]
                                                            }
                                                          }
                                                        }
                                                      }

Step `i` of CTA `c` is the step `c * length + i` in the line of all steps. Copies that run ahead run ahead in that line,
so the ring goes on across the tiles. Steps behind the last tile read the first one again, and nothing follows them. The
parts that others read of a CTA are at most two: of the tile that it starts within, and of the one that it ends within.
A tile that it runs alone goes the same way, as a branch around that costs registers in the loop.

CTAs that take whole tiles have a loop over those, and in it one over the steps of a tile. Slabs that are stored in
boxes stay from tile to tile, so a CTA waits until that of the tile before has been read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import func, memref
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear, condition_of
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.order.rings import step_of
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.masking import adds_zero
from deplodock.analysis.shape.roles import contraction_of
from deplodock.analysis.shape.shares import Shares
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Binding
from deplodock.dialects.tile.ring import engine_of
from deplodock.passes.kernel.across import elect_last
from deplodock.passes.kernel.builder import Workspace, digits, positive_extent
from deplodock.passes.kernel.emit import Array, Emitter
from deplodock.passes.kernel.lower_access import read_array, write_array
from deplodock.passes.kernel.lower_launch import Fold, activity, branches, lower_ops
from deplodock.passes.remarks import failure

ENDS = 2
"""The tiles of which a CTA leaves a part at most: the first and the last one that it meets."""

SUMS_AT_ONCE = 32
"""The sums that a thread goes on with at a time: their parts are on the way from memory together."""


@dataclass(frozen=True)
class Stream:
    """What CTAs share: the contraction, and how its steps are shared."""

    reduction: loop.ReduceOp
    shares: Shares


def shared_steps(launch: tile.LaunchOp, function: func.FuncOp) -> Callable[[Emitter, Block], None]:
    """What emits the body of a launch whose CTAs share the steps of all tiles; allocates what they leave each other."""
    stream = stream_of(launch)
    return partial(lower_stream, stream, allocate_parts(launch, function, stream))


def stream_of(launch: tile.LaunchOp) -> Stream:
    """What the CTAs of a launch share. Raises PassFailedException if that is not the steps of one contraction."""
    roles = contraction_of(launch)
    assert launch.stream is not None
    if roles is None or roles.reduction.trips is None or launch.bound_to(Binding.CLUSTER):
        raise failure(launch, "its CTAs cannot share the steps of one contraction; see stream-matmul-k")
    tiles = math.prod(map(positive_extent, launch.ctas))
    shares = Shares(tiles, roles.reduction.trips, launch.stream.value.data, bool(launch.takes_tiles))
    return Stream(roles.reduction, shares)


def allocate_parts(launch: tile.LaunchOp, function: func.FuncOp, stream: Stream) -> Workspace | None:
    """Allocate before a launch the parts of its CTAs, and a counter for each tile.

    The parts are [CTAs, ends, registers.., threads, neighbours]: a thread stores 16 bytes of registers at once, side by
    side with those of the next. None where no tile has parts of several CTAs.
    """
    if stream.shares.is_whole:
        return None
    threads = math.prod(map(positive_extent, launch.bound_to(Binding.THREAD)))
    made: list[memref.AllocOp] = []
    for result in stream.reduction.results:
        depends = Dependence().of(result)
        kept = [positive_extent(axis) for axis in launch.bound_to(Binding.REGISTER) if axis in depends]
        *outer, last = kept or [1]
        together = _together(result.type, last)
        shape = [stream.shares.ctas, ENDS, *outer, last // together, threads, together]
        made.append(memref.AllocOp.get(result.type, shape=shape))
        made[-1].memref.name_hint = f"{result.name_hint or 'fold'}_part"
    counters = kernel.CountersOp(stream.shares.tiles)
    counters.result.name_hint = "turns"
    added: list[Operation] = [*made, counters]
    Rewriter.insert_op(added, InsertPoint.before(launch))
    return Workspace(tuple(alloc.memref for alloc in made), counters.result)


def _together(type: Attribute, extent: int) -> int:
    """How many elements along an axis of registers an access takes: 16 bytes at most, in pairs; else 1."""
    widths = [width for width in (ACCESS_BYTES // element_bytes(type), 2) if width % 2 == 0 and extent % width == 0]
    return max(widths, default=1)


def lower_stream(stream: Stream, workspace: Workspace | None, emitter: Emitter, block: Block) -> None:
    """Emit what one thread of a launch runs whose CTAs share the steps of all tiles.

    Raises PassFailedException where whole tiles may be inactive.
    """
    uniform, varying = activity(emitter, block)
    if branches(emitter, uniform, varying):
        raise failure(emitter.launch, "some tiles may be inactive, and its CTAs share the steps of all")
    position = list(block.ops).index(stream.reduction)
    kind = _Turns if stream.shares.takes_tiles else _Stretch
    stretch = kind(emitter, stream, workspace)
    _take_slots(stream.reduction, stretch.slot)
    emitter.copies = stretch.copy
    lower_ops(emitter, list(block.ops)[:position])
    for op in block.ops:
        if isinstance(op, tile.KeepOp):
            emitter.values[op.slab] = emitter.alloc(loop.memref_of(op.slab), op.slab.name_hint)
    emitter.location = stream.reduction.location
    behind = list(block.ops)[position + 1 :]
    stores = [op for op in behind if isinstance(op, tile.StoreOp)]
    with stretch.tiles() as number:
        if stores:
            emitter.run(kernel.TmaWaitOp(0))
        with stretch.complete(number, stores):
            emitter.conditions = varying
            lower_ops(emitter, [op for op in behind if op not in stores])
            emitter.conditions = []


def _take_slots(reduction: loop.ReduceOp, number: SSAValue) -> None:
    """Let what uses slots take them by a number of the step.

    Conditions that leave out nothing but zeros, as they read past the end of k, are erased while their steps are known.
    """
    for op in list(reduction.body.walk()):
        around = op.parent_op()
        if isinstance(op, loop.WhereOp) and isinstance(around, loop.ReduceOp) and adds_zero(around, condition_of(op)):
            Rewriter.erase_op(op)
    for op in reduction.body.walk():
        is_slot = isinstance(op, loop.LoadOp) and isinstance(op.source.owner, tile.AllocOp)
        if is_slot or isinstance(op, tile.WaitOp | tile.ReleaseOp):
            op.operands = [number if operand is reduction.iv else operand for operand in op.operands]


class _Stretch:
    """The stretch of steps of a CTA."""

    def __init__(self, emitter: Emitter, stream: Stream, workspace: Workspace | None) -> None:
        self.emitter = emitter
        self.reduction = stream.reduction
        self.shares = stream.shares
        self.workspace = workspace
        self.slot = self._number()
        """The number of a step in the CTA, by which the contraction takes its slots."""
        self.step = Linear()
        """What it is at this point of the kernel."""
        (self.cta,) = emitter.expanded.ctas
        self.sums: list[Array] = []
        """The accumulators of the tile that the CTA works on."""

    def _number(self) -> SSAValue:
        return stand_in(self.shares.length)

    def copy(self, op: tile.CopyOp) -> None:
        """Emit the copy of a step: that of the tile to which the step belongs."""
        emitter, known = self.emitter, dict(self.emitter.coordinates)
        ((variable, _),) = (step := step_of(op)).terms
        assert isinstance(variable, SSAValue)
        ahead = (self.step if variable is self.reduction.iv else Linear.of(self._value(variable))) + step.constant
        number, k = self._place_of(ahead)
        self._enter(emitter.index(number, "tile"))
        emitter.coordinates[variable] = emitter.index(k - step.constant, "k")
        source = (emitter.value(op.source), op.map.data, [self._value(index) for index in op.indices])
        emitter.coordinates = known
        where = None if op.where is None else emitter.condition_map([ahead - self.shares.length])
        ring, destination = emitter.value(op.ring), emitter.value(op.destination)
        emitter.run(tile.CopyOp(source, destination, ring, emitter.map([ahead]), where, engine_of(op)))

    @contextmanager
    def tiles(self) -> Generator[SSAValue]:
        """Emit the loop over the steps, and into it what comes behind the last step of a tile, or of the CTA within a
        tile. Gives the number of that tile.
        """
        emitter, outer = self.emitter, self.emitter.block
        self.sums = emitter.accumulators(self.reduction)
        step = emitter.enter_loop(self.shares.length, "step", unroll=False)
        number, place = self._place_of(Linear.of(step))
        self._enter(emitter.index(number, "tile"))
        k = emitter.index(place, "k")
        emitter.coordinates |= {self.reduction.iv: k, self.slot: step}
        self.step = Linear.of(step)
        with emitter.guarded([Linear.of(k) - 1]):
            emitter.reset(self.reduction, self.sums)
        lower_ops(emitter, list(self.reduction.body.block.ops), Fold(self.reduction, self.sums, ()))
        ends = (place + 1) // self.shares.steps + (Linear.of(step) + 1) // self.shares.length
        behind = self._item(Linear.of(step)) - self.shares.tiles * self.shares.steps
        with emitter.guarded([-ends, *([behind] if self._ends_behind() else [])]):
            yield emitter.index(number, "tile")
        emitter.block = outer

    @contextmanager
    def complete(self, number: SSAValue, stores: Sequence[Operation]) -> Generator[None]:
        """Emit for the CTA that completes a tile, with the sums of all its parts, and then the stores of its slabs."""
        emitter, outer = self.emitter, self.emitter.block
        if self.workspace is None:
            self._bind(self.sums)
            yield
        else:
            with self._parts_added(number, self.workspace):
                yield
        lower_ops(emitter, stores)
        emitter.block = outer

    def _bind(self, sums: Sequence[Array]) -> None:
        for result, array in zip(self.reduction.results, sums, strict=True):
            self.emitter.bind_array(result, array)

    @contextmanager
    def _parts_added(self, number: SSAValue, workspace: Workspace) -> Generator[None]:
        """Emit that CTAs leave their parts of a tile, and the last of them goes on with their sums, in their order.

        It goes on with a few of them at a time, in a loop: so what follows takes few registers, and ties none of those
        that the steps fold into.
        """
        emitter, shares = self.emitter, self.shares
        tile_number = Linear.of(number)
        first = emitter.index(shares.first(tile_number), "first")
        parts = emitter.index(shares.parts(tile_number), "parts")
        part = Linear.of(self.cta) - Linear.of(first)
        for array, buffer in zip(self.sums, workspace.parts, strict=True):
            write_array(emitter, array, buffer, self._place(array, self.cta, part))
        elect_last(emitter, workspace.counters, tile_number, Linear.of(parts))
        with emitter.rolled(self._rolled()):
            sums = emitter.accumulators(self.reduction)
            outer = emitter.block
            # Of a loop that may end at once nvcc makes code that has other sums before it, and too few registers.
            s = Linear.of(emitter.enter_loop(shares.most_parts, "s", unroll=False))
            with emitter.guarded([s - Linear.of(parts)]):
                self._fold(workspace, sums, emitter.index(Linear.of(first) + s, "cta"), s)
            emitter.block = outer
            self._bind(sums)
            yield

    def _rolled(self) -> list[SSAValue]:
        """The outermost register axes, but for which a thread has at most `SUMS_AT_ONCE` sums."""
        axes, rolled = list(self.sums[0].axes), list[SSAValue]()
        while math.prod(map(self.emitter.extent, axes)) > SUMS_AT_ONCE:
            rolled.append(axes.pop(0))
        return rolled

    def _fold(self, workspace: Workspace, sums: Sequence[Array], cta: SSAValue, part: Linear) -> None:
        """Emit that sums take in the parts of a CTA."""
        emitter = self.emitter
        taken = [
            read_array(emitter, buffer, self._place(whole, cta, part), array.axes)
            for whole, array, buffer in zip(self.sums, sums, workspace.parts, strict=True)
        ]
        with emitter.nest(sums[0].axes):
            emitter.fold_into(sums, self.reduction.combiner, [emitter.load(array) for array in taken])

    def _place(self, array: Array, cta: SSAValue, part: Linear) -> list[Linear]:
        """Where the part of a CTA lies: the first part of a tile is the end of its CTA, any other one the start.

        Each pair of neighbours is swapped, so that stores of both tie no sum to the bank of its column's factor.
        """
        most, thread = self.shares.most_parts, Linear.of(self.emitter.thread)
        ends = [Linear.of(cta), (Linear(constant=most) - part) // most]
        if not array.axes:
            return [*ends, Linear(), thread, Linear()]
        *outer, last = map(Linear.of, array.axes)
        together = _together(loop.memref_of(array.buffer).element_type, self.emitter.extent(array.axes[-1]))
        inside = last % together
        swapped = inside if together == 1 else inside // 2 * 2 - inside % 2 + 1
        return [*ends, *outer, last // together, thread, swapped]

    def _place_of(self, step: Linear) -> tuple[Linear, Linear]:
        """The tile of a step of the CTA, and which of its steps it is: the place in the line of all steps."""
        item = self._item(step)
        return item // self.shares.steps, item % self.shares.steps

    def _item(self, step: Linear) -> Linear:
        """The place of a step of the CTA in the line of all steps."""
        return Linear.of(self.cta, self.shares.length) + step

    def _ends_behind(self) -> bool:
        """Whether a CTA may have steps behind those of all tiles."""
        return self.shares.ctas * self.shares.length > self.shares.tiles * self.shares.steps

    def _enter(self, number: SSAValue) -> None:
        """Let the coordinates of CTAs be those of a tile; behind the last one, of the first tiles again."""
        for axis, form in digits(self.emitter.launch.ctas, number):
            self.emitter.coordinates[axis] = self.emitter.index(form % positive_extent(axis), axis.name_hint)

    def _value(self, index: SSAValue) -> SSAValue:
        value = self.emitter.here(index)
        assert isinstance(value, SSAValue)
        return value


class _Turns(_Stretch):
    """The tiles that a CTA takes in turn."""

    def _number(self) -> SSAValue:
        self.turn = stand_in(self.shares.turns)
        steps = AffineExpr.dimension(0) * self.shares.steps + AffineExpr.dimension(1)
        number = loop.IndexOp(AffineMap(2, 0, (steps,)), [self.turn, self.reduction.iv])
        number.result.name_hint = "step"
        Rewriter.insert_op(number, InsertPoint.at_start(self.reduction.body.block))
        return number.result

    @contextmanager
    def tiles(self) -> Generator[SSAValue]:
        """Emit the loop over the tiles, in it that over the steps of one, and into it what comes behind those."""
        emitter, outer, steps = self.emitter, self.emitter.block, self.shares.steps
        turn = emitter.enter_loop(self.shares.turns, "turn", unroll=False)
        first, inside = Linear.of(turn, steps), emitter.block
        number = emitter.index(self._place_of(first)[0], "tile")
        self._enter(number)
        self.sums = emitter.accumulators(self.reduction)
        k = emitter.enter_loop(steps, "k", unroll=False)
        emitter.coordinates |= {self.turn: turn, self.reduction.iv: k}
        self.step = first + Linear.of(k)
        lower_ops(emitter, list(self.reduction.body.block.ops), Fold(self.reduction, self.sums, ()))
        emitter.block = inside
        with emitter.guarded([Linear.of(number) - self.shares.tiles] if self._ends_behind() else []):
            yield number
        emitter.block = outer

    def _place_of(self, step: Linear) -> tuple[Linear, Linear]:
        """The tile of a step of the CTA, and which of its steps it is."""
        turn = step // self.shares.steps
        return Linear.of(self.cta) + turn * self.shares.ctas, step % self.shares.steps
