"""pipeline-k-outer: copy the slabs of a reduction some steps ahead of the step that reads them.

    %acc = loop.reduce {arith.addf}        %ring = tile.ring 3
      %ko = 0 to 112 : f32 {               %xs = tile.alloc : memref<3x32xf32, ..>
      %s = tile.stage %x[%ko * 32 + d0]    loop.for %p = 0 to 2 unroll {
        buffers 3 async : ..                 tile.copy %x[%p * 32 + d0] to %xs at %ring[%p] async : ..
      ..                               ->  }
      loop.load %s[%t] : ..                %acc = loop.reduce {arith.addf} %ko = 0 to 112 : f32 {
                                             tile.wait %ring[%ko]
                                             tile.copy %x[%ko * 32 + 64 + d0] to %xs at %ring[%ko + 2] async
                                               where (%ko + 2 < 112) : ..
                                             ..
                                             loop.load %xs[%ko mod 3, %t] : ..
                                             tile.release %ring[%ko]

The slabs that one loop fills share a ring, so that each step has one wait. `distance` is how many steps the copies run
ahead; a slot that the loop has released one step ago is the first that can be filled, so it is below the depth. Where
the slots hold all steps of a loop, it may be as many: all copies then come before the loop.

With `barrier=mbarrier` the ring is kept by phases: the copies of a step come before the wait, since they wait for
nothing but the release of their slot, and warps drift apart by as many steps as the depth exceeds the distance.

With `distance=producer` a warpgroup of its own copies, `tile.ring 3 mbarrier producer`. The loop then copies the step
that it is at, `at %ring[%ko]` before `tile.wait %ring[%ko]`, and nothing comes before it: the producer runs ahead of
the readers by as many steps as the ring has slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import IndexType, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import bounds_of, known_points
from deplodock.analysis.machine.atoms import column_axis
from deplodock.analysis.machine.resources import buffer_elements, start_registers
from deplodock.analysis.machine.targets import ACCESS_BYTES, PRODUCT_REGISTERS, target_at
from deplodock.analysis.operations import label
from deplodock.analysis.order.rings import staged_loops
from deplodock.analysis.shape.dependence import readers_of, wheres
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import reads_slabs
from deplodock.dialects.kernel.roles import WARPGROUP
from deplodock.dialects.tile import Binding
from deplodock.dialects.tile.ring import engine_of
from deplodock.passes.options import Either, Integers, OneOf, Value, option
from deplodock.passes.tile.edits import has_inactive_tiles
from deplodock.passes.tile.rule import LaunchRule, Skip
from deplodock.schedule.choose.sizes import PRODUCER

Barriers: TypeAlias = Literal["cta", "mbarrier"]


@dataclass(frozen=True)
class PipelineKOuterPass(LaunchRule):
    """Copy the slabs of a reduction some steps ahead of the step that reads them."""

    name = "pipeline-k-outer"
    after = ("stage-inputs", "double-buffer", "async-copy", "tma-copy", "split-inner-for-swizzle", "swap-pairs")
    distance: Value | None = option(
        None,
        Either(Integers((1, 2, 3)), OneOf((PRODUCER,))),
        "steps that copies run ahead, below the depth of the slabs, by default one less than that; or a producer, a "
        "warpgroup of its own that copies as far ahead as there are slots",
    )
    barrier: Barriers | None = option(
        None,
        Barriers,
        "what keeps the steps in order: barriers of all threads (cta) or phases (mbarrier); by default phases where "
        "slabs are copied in boxes, which arrive at no others",
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        found = staged_loops(launch)
        if any(isinstance(op, tile.RingOp) for op in launch.body.walk()):
            raise Skip("the slabs are on a ring already")
        if not found:
            raise Skip("no reduction fills a shared slab in each step; run stage-inputs first")
        plans: list[Plan] = []
        refusals: list[str] = []
        for reduction, stages in found:
            try:
                plans.append(_plan(launch, reduction, stages, self))
            except Skip as skip:
                refusals.append(str(skip))
        if not plans:
            raise Skip(refusals[0])
        for plan in plans:
            plan.apply(rewriter)


@dataclass(frozen=True)
class Plan:
    """A reduction to pipeline: the slabs that share its ring, and how many steps their copies run ahead."""

    reduction: loop.ReduceOp
    stages: tuple[tile.StageOp, ...]
    depth: int
    distance: int
    is_mbarrier: bool
    has_producer: bool

    def apply(self, rewriter: PatternRewriter) -> None:
        """Rewrite the reduction."""
        ring = tile.RingOp(self.depth, is_mbarrier=self.is_mbarrier, has_producer=self.has_producer)
        ring.ring.name_hint = "ring"
        buffers = [tile.AllocOp(_ring_type(loop.memref_of(op.slab), self.depth)) for op in self.stages]
        for op, buffer in zip(self.stages, buffers, strict=True):
            buffer.result.name_hint = op.slab.name_hint
        iv, pairs = self.reduction.iv, list(zip(self.stages, buffers, strict=True))
        prologue = [self._prologue(pairs, ring.ring)] if self.distance else []
        wait = tile.WaitOp(ring.ring, _step(iv, 0))
        ahead = [self._copy(op, buffer.result, ring.ring, iv, self.distance) for op, buffer in pairs]
        # A copy into the slot of the step itself comes when that is released.
        behind = ahead if self.distance == self.depth else []
        first_ops = [wait] if behind else [*ahead, wait] if self.is_mbarrier else [wait, *ahead]
        rewriter.insert(first_ops, InsertPoint.before(self.stages[0]))
        last: Operation = first_ops[-1]
        for op, buffer in pairs:
            for reader in _readers(op):
                self._read_slot(rewriter, reader, buffer.result)
            last = max((last, *self._around(buffer.result)), key=_position)
            rewriter.erase(op)
        rewriter.insert([tile.ReleaseOp(ring.ring, _step(iv, 0)), *behind], InsertPoint.after(last))
        rewriter.insert([ring, *buffers, *prologue], InsertPoint.before(self.reduction))

    def _prologue(self, pairs: Sequence[tuple[tile.StageOp, tile.AllocOp]], ring: SSAValue) -> loop.ForOp:
        """The copies of the steps that no step before copies."""
        first = Block(arg_types=[IndexType()])
        first.args[0].name_hint = "p"
        first.add_ops([self._copy(op, buffer.result, ring, first.args[0], 0) for op, buffer in pairs])
        return loop.ForOp(self.distance, Region(first), unroll=True)

    def _copy(self, op: tile.StageOp, buffer: SSAValue, ring: SSAValue, variable: SSAValue, ahead: int) -> tile.CopyOp:
        """The copy of a slab at the step `variable + ahead`, where the loop reaches it."""
        operands: list[SSAValue] = []
        symbols = [_hoisted(index, self.reduction, operands) for index in op.indices]
        map = op.map.data.replace_dims_and_symbols(
            [AffineExpr.dimension(d) for d in range(op.map.data.num_dims)], symbols, op.map.data.num_dims, len(operands)
        )
        iv = self.reduction.iv
        shifted = [AffineExpr.symbol(i) + (ahead if value is iv else 0) for i, value in enumerate(operands)]
        dims = [AffineExpr.dimension(d) for d in range(map.num_dims)]
        map = map.replace_dims_and_symbols(dims, shifted, map.num_dims, len(operands))
        operands = [variable if value is iv else value for value in operands]
        where = self._reached(variable, ahead) if ahead else None
        return tile.CopyOp((op.source, map, operands), buffer, ring, _step(variable, ahead), where, engine_of(op))

    def _reached(self, variable: SSAValue, ahead: int) -> tuple[AffineMap, list[SSAValue]]:
        """That the loop reaches the step `variable + ahead`: it is below each result of the bound."""
        bound, operands = self.reduction.bound.data, list(self.reduction.bound_operands)
        results = [expr.replace_dims_and_symbols(_dims(1, len(operands)), []) for expr in bound.results]
        sides = [side for result in results for side in (AffineExpr.dimension(0) + ahead, result)]
        return AffineMap(1 + len(operands), 0, tuple(sides)), [variable, *operands]

    def _read_slot(self, rewriter: PatternRewriter, reader: loop.LoadOp, buffer: SSAValue) -> None:
        """Let a reader of a slab read the slot of the loop's step."""
        dims, map = len(reader.indices), reader.map.data
        slot = AffineExpr.dimension(dims) % self.depth
        read = loop.LoadOp(buffer, AffineMap(dims + 1, 0, (slot, *map.results)), [*reader.indices, self.reduction.iv])
        rewriter.replace(reader, read)

    def _around(self, buffer: SSAValue) -> list[Operation]:
        """The operations directly in the loop that hold a reader of a buffer."""
        block = self.reduction.body.block
        loads = [use.operation for use in buffer.uses if isinstance(use.operation, loop.LoadOp)]
        found = [block.find_ancestor_op_in_block(reader) for load in loads for reader in readers_of(load)]
        return [op for op in found if op is not None]


def _plan(
    launch: tile.LaunchOp, reduction: loop.ReduceOp, stages: Sequence[tile.StageOp], rule: PipelineKOuterPass
) -> Plan:
    """How to pipeline a reduction. Raises Skip with the reason where it cannot be."""
    is_single = reduction.trips == rule.distance == 1
    buffered = tuple(op for op in stages if op.depth > 1 or is_single)
    name = label(reduction.iv)
    if not buffered:
        raise Skip("the slabs have one buffer; run double-buffer first")
    depths = sorted({op.depth for op in buffered})
    if len(depths) > 1:
        raise Skip(f"the slabs of one loop have {' and '.join(map(str, depths))} buffers; a ring has one depth")
    if wheres(reduction.body.block):
        raise Skip(f"the loop over {name} has a loop.where of its own, so not every step runs")
    has_producer = rule.distance == PRODUCER
    if has_producer:
        _check_producer(launch, reduction, buffered)
    distance = rule.distance if isinstance(rule.distance, int) else 0 if has_producer else depths[0] - 1
    steps = _fewest_steps(reduction)
    is_whole = reduction.trips == distance == depths[0]
    if distance > steps or (distance == steps and reduction.trips is not None and not is_whole):
        raise Skip(f"the loop over {name} has {steps} steps, copies cannot run {distance} ahead")
    if distance >= depths[0] and not is_whole:
        raise Skip(f"copies {distance} steps ahead need more than {depths[0]} buffers: one is being read")
    for op in buffered:
        _check_readers(op)
        for index in op.indices:
            _hoisted(index, reduction, [])
    is_mbarrier = _is_mbarrier(launch, reduction, buffered, rule.barrier)
    return Plan(reduction, buffered, depths[0], distance, is_mbarrier, has_producer)


def _check_producer(launch: tile.LaunchOp, reduction: loop.ReduceOp, stages: Sequence[tile.StageOp]) -> None:
    """Raises Skip where no warpgroup of its own can copy the slabs of a loop."""
    for op in stages:
        if not op.is_tma:
            raise Skip(f"{label(op.slab)} does not come in boxes, and a producer copies nothing else")
    if reduction.trips is None:
        raise Skip(f"the bound of the loop over {label(reduction.iv)} varies; a producer's loop has a constant one")
    if has_inactive_tiles(launch):
        raise Skip("a mask leaves out tiles, which a producer and its readers would have to agree on")
    target, threads = target_at(launch), known_points(launch.bound_to(Binding.THREAD))
    if threads % WARPGROUP:
        raise Skip(f"a producer is a warpgroup beside others, and the {threads} threads are no whole warpgroups")
    if (most := threads + WARPGROUP) > target.fact("threads_per_block"):
        raise Skip(f"with a producer a CTA has {most} threads, {target.arch.data} allows fewer")
    start = start_registers(target, most, launch.ctas_per_sm)
    for op in launch.body.walk():
        needed = _product_registers(op)
        if needed > start:
            raise Skip(
                f"{launch.ctas_per_sm} CTAs of {most} threads, with a producer, start with {start} registers each, and "
                f"a product takes {needed}; lower the occupancy"
            )


def _product_registers(op: Operation) -> int:
    """The registers with which a thread must start, for what an operation multiplies in a warpgroup, and at least."""
    if not isinstance(op, tile.ContractOp) or not reads_slabs(op.engine.data):
        return 1
    return known_points([column_axis(op)]) // 2 + PRODUCT_REGISTERS


def _fewest_steps(reduction: loop.ReduceOp) -> int:
    """How often a loop runs at least. Raises Skip where that is not known."""
    ranges = [form.range() for form in bounds_of(reduction)]
    known = [bounds[0] for bounds in ranges if bounds is not None]
    if len(known) < len(ranges):
        raise Skip(f"the loop over {label(reduction.iv)} has a bound of unknown range")
    return max(0, min(known))


def _is_mbarrier(
    launch: tile.LaunchOp, reduction: loop.ReduceOp, stages: Sequence[tile.StageOp], barrier: Barriers | None
) -> bool:
    """Whether phases keep the steps in order. Raises Skip if copies need them otherwise, or cannot arrive at one."""
    boxes = [op for op in stages if op.is_tma]
    barrier = barrier or ("mbarrier" if boxes else "cta")
    if barrier == "cta" and boxes:
        name = label(boxes[0].slab)
        raise Skip(f"{name} comes in boxes, which arrive at phases; take barrier=mbarrier")
    if barrier == "cta":
        return False
    bounds = bounds_of(reduction)
    if len(bounds) > 1 or not all(root in launch.ctas for root in bounds[0].roots()):
        name = label(reduction.iv)
        raise Skip(
            f"the bound of the loop over {name} is not one of block axes alone; threads could end in unlike phases"
        )
    for op in stages:
        if not engine_of(op):
            raise Skip(f"{label(op.slab)} is not copied asynchronously, so its copies arrive at no phase")
    return True


def _check_readers(op: tile.StageOp) -> None:
    if not all(isinstance(use.operation, loop.LoadOp) for use in op.slab.uses):
        raise Skip(f"{label(op.slab)} is used by something else than loop.load")


def _readers(op: tile.StageOp) -> list[loop.LoadOp]:
    return [use.operation for use in op.slab.uses if isinstance(use.operation, loop.LoadOp)]


def _dims(first: int, count: int) -> list[AffineExpr]:
    return [AffineExpr.dimension(first + i) for i in range(count)]


def _step(variable: SSAValue, ahead: int) -> tuple[AffineMap, list[SSAValue]]:
    return AffineMap(1, 0, (AffineExpr.dimension(0) + ahead,)), [variable]


def _hoisted(index: SSAValue, reduction: loop.ReduceOp, operands: list[SSAValue]) -> AffineExpr:
    """An index as an expression of symbols for the loop's variable and values from outside the loop.

    Those are added to `operands`. Raises Skip if it is computed in the loop from anything else.
    """
    if index is reduction.iv or not reduction.is_ancestor(index.owner):
        if not any(known is index for known in operands):
            operands.append(index)
        return AffineExpr.symbol(next(i for i, known in enumerate(operands) if known is index))
    if not isinstance(index.owner, loop.IndexOp):
        raise Skip(f"the slab's origin depends on {label(index)}, which the loop computes")
    inner = [_hoisted(value, reduction, operands) for value in index.owner.indices]
    return index.owner.map.data.results[0].replace_dims_and_symbols(inner, [])


def _ring_type(slab: MemRefType[Attribute], depth: int) -> MemRefType[Attribute]:
    """The type of `depth` slabs of one layout; each starts at a multiple of the widest access."""
    shape = (depth, *slab.get_shape())
    if isinstance(slab.layout, NoneAttr | tile.SwizzleAttr):
        return MemRefType(slab.element_type, shape, slab.layout, slab.memory_space)
    strides = slab.get_strides()
    assert strides is not None
    together = ACCESS_BYTES // element_bytes(slab.element_type)
    size = -(-buffer_elements(slab) // together) * together
    layout = StridedLayoutAttr([size, *strides])
    return MemRefType(slab.element_type, shape, layout, slab.memory_space)


def _position(op: Operation) -> int:
    """The place of an operation in its block."""
    assert op.parent is not None
    return op.parent.get_operation_index(op)
