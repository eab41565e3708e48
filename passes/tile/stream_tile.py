"""stream-tile: let a CTA run a streaming reduction of products, such as attention, in steps of a few keys.

    tile.launch (%m = 2048 : thread,                 tile.launch (%m_b = 32 : block, %m_t = 16 : thread,
                 %d = 64 : thread) {                              %d_t = 16 : thread, %m_r = 4 : register, ..,
                                                                  %i_t = 16 : lane %d_t) {
      %max, %sum, %o = loop.reduce                     %qs = tile.stage %q[%m_b * 64 + d0, d1]
        %i = 0 to 2048 : .. {                          %max, %sum, %o = loop.reduce %i_o = 0 to 32 : .. {
        %s = loop.reduce {arith.addf} %e = 0 to 64       %ks = tile.stage %k[%i_o * 64 + d0, d1]
          : f32 {                                        %vs = tile.stage %v[%i_o * 64 + d0, d1]
          .. %q[%m, %e] * %k[%i, %e]            ->       %s = .. %qs[..] * %ks[..]
        }                                                %top = tile.combine {arith.maximumf} %s over (%i_r, %i_t)
        %c = loop.load %v[%i, %d]                        %largest = loop.scan {arith.maximumf} %top along (%i_o)
        loop.yield %s, %one, %c                          %p = exp(%s - %largest)
      } combine (..) identity [..] {..}                  %total = tile.combine {arith.addf} %p over (%i_r, %i_t)
                                                         %ps = tile.keep %p[%m, %i]
                                                         %c = .. %ps[..] * %vs[..]
                                                         loop.yield %largest, %total, %c

A thread computes several scores and several outputs. Scores lie on the threads that hold the columns of the outputs: a
lane axis. So the largest score of a row is a fold of registers and lanes, and only the weights go through shared
memory, where all threads of their row read them. A step is an element of the streaming reduction: the largest score so
far, and the sum of its weights and its weighted sums relative to that, to which those of the steps before are scaled.

Where scores and values vary along the same axes, as for a single query, the rows are heads that share their keys. Then
few rows read many keys, so `slices` of a CTA, teams of `lanes` threads or of warps, share those of a step, and fold
what they leave behind the loop: `tile.combine` of maxima, then of the sums scaled to the largest one. The threads that
share the sum of products of a score (`features`) sum those of the same elements, and each keeps the scores of a share.

What conditions on keys leave out has the score -inf, as have the keys of the last step beyond the row; where the
conditions are upper bounds that grow with the rows, steps of which the tile needs nothing do not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.linear import Linear, form_of_value, subscripts_of, to_map
from deplodock.analysis.machine.atoms import NoAtomError, streamed_engine
from deplodock.analysis.machine.targets import target_at
from deplodock.analysis.operations import label
from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.roles import factors_of, read_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct, streamed_product
from deplodock.dialects import loop, scalar_regions, tile
from deplodock.dialects.engines import MMA, WGMMA, engine_names, reads_slabs, row_of
from deplodock.dialects.kernel.wgmma import ROWS
from deplodock.dialects.precision import product_like
from deplodock.dialects.tile import Binding, Memory
from deplodock.dialects.tile.slab import NOWHERE, Places
from deplodock.passes.clean_up import location_of
from deplodock.passes.copying import copied
from deplodock.passes.options import Integers, OneOf, option
from deplodock.passes.tile.edits import (
    Axis,
    Part,
    append_axis,
    append_lane,
    read_from,
    recompute,
    split_axis,
    split_loop,
    total_of,
    unroll,
)
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, require_engine, staged
from deplodock.passes.tile.stream_engine import EngineTiling, check_boxes
from deplodock.passes.tile.stream_steps import StreamTiling
from deplodock.schedule.choose.long_rows import neighbours_of, stream_bytes, weights_pitch
from deplodock.schedule.choose.sizes import STREAM_KEYS, STREAM_LANES, STREAM_ROWS, STREAM_WARP, THREADS, VECTOR


@dataclass(frozen=True)
class StreamTilePass(LaunchRule):
    """Let a CTA run a streaming reduction of products in steps of a few keys."""

    name = "stream-tile"
    m: int = option(STREAM_ROWS, Integers((16, 32, 64, 128)), "rows of the output that a CTA computes")
    n: int = option(STREAM_KEYS, Integers((16, 32, 64, 128), 8, 8), "elements of the row in a step")
    slices: int = option(1, Integers((1, 2, 4, 8)), "teams of a CTA that share a row, each with n elements of a step")
    lanes: int = option(STREAM_LANES, OneOf((8, 16, 32)), "threads that share a row, of the engine of threads")
    side: int = option(STREAM_LANES, OneOf((1, 2, 4, 8, 16)), "rows side by side, each of its own threads")
    features: int = option(
        1,
        OneOf((1, 2, 4, 8, 16)),
        "threads of those that share the sum of products of a score, of the engine of threads",
    )
    warp: int = option(STREAM_WARP, Integers((16, 32), 16, 16), "rows that a warp computes, of the engine of warps")
    engine: str = option(
        THREADS,
        OneOf((THREADS, MMA, WGMMA)),
        "what multiplies: threads, or the tensor cores of warps (mma) or warpgroups (wgmma)",
    )

    occupancy: int | None = option(None, Integers((1, 2)), "CTAs that the registers of an SM are to hold")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        self._tile(rewriter, launch)
        if self.occupancy is not None:
            launch.occupancy = IntegerAttr(self.occupancy, i64)
            rewriter.notify_op_modified(launch)

    def _tile(self, rewriter: PatternRewriter, launch: tile.LaunchOp) -> None:
        """Rewrite a launch; raise Skip where the rule cannot."""
        found = _found(launch)
        sizes = self.m, self.n, self.slices
        need = stream_bytes(found, self.m, self.n * self.slices, self.engine, lanes=self.lanes)
        most = target_at(launch).fact("shared_per_block")
        if need > most:
            raise Skip(f"its tile takes {need} bytes of shared memory, above the {most} of a CTA; give m or n")
        if self.engine not in engine_names():
            if self.m % self.side:
                raise Skip(f"the {self.m} rows of a CTA are no multiple of the {self.side} side by side")
            lanes = self.lanes // self.features
            if self.lanes % self.features or self.n % lanes:
                raise Skip(f"the {self.n} elements of a step are no multiple of the {lanes} threads of a row")
            if self.features > 1 and (found.scores.trips or 0) % (self.features * VECTOR):
                raise Skip(f"{self.features} threads have no whole accesses of {found.scores.trips} features")
            threads = self.side, self.lanes, self.features
            _ThreadTiling(rewriter, launch, found, _outer(rewriter, launch, found), *sizes, *threads).run()
            return
        rows, team = (ROWS, "warpgroup") if reads_slabs(self.engine) else (self.warp, "warp")
        if self.m % rows:
            raise Skip(f"the {self.m} rows of a CTA are no multiple of the {rows} of a {team}")
        if reads_slabs(self.engine) and self.slices > 1:
            raise Skip("warpgroups share no step; slices are of threads and of mma")
        require_engine(launch, self.engine)
        try:
            row = row_of(self.engine, streamed_engine(found, MMA))
        except NoAtomError as error:
            raise Skip(str(error)) from error
        if row.reads_slabs:
            check_boxes(found)
        EngineTiling(rewriter, launch, found, _outer(rewriter, launch, found), *sizes, row, rows).run()


def _found(launch: tile.LaunchOp) -> StreamedProduct:
    """The streaming reduction of a launch. Raises Skip where there is none that the rule can tile."""
    if launch.carried_axes():
        raise NothingToDo("the launch has lane axes already")
    if (found := streamed_product(launch_nest(launch))) is None:
        raise Skip("the launch has no streaming reduction of products")
    if staged(launch) or any(launch.binding(axis) is not Binding.THREAD for axis in launch.axes):
        raise Skip("its points are divided already; stream-tile runs behind tileify")
    if (free := next((axis for axis in launch.axes if launch.extent(axis) is None), None)) is not None:
        raise Skip(f"the extent of {label(free)} is not constant")
    return found


def _outer(rewriter: PatternRewriter, launch: tile.LaunchOp, found: StreamedProduct) -> tuple[SSAValue, SSAValue]:
    """The axes of rows and of columns.

    Where there are no rows, they are made of neighbours that share their keys, or of one row.
    """
    if found.rows is not None:
        return found.rows, found.columns
    if found.shared is None:
        return _one_row(rewriter, launch, found), found.columns
    axis, count = found.shared
    _, rows = split_axis(rewriter, launch, axis, count, Binding.THREAD, Binding.THREAD)
    for load in [op for op in found.reduction.body.walk() if isinstance(op, loop.LoadOp)]:
        read_from(rewriter, load, load.source, subscripts_of(load))
    return rows, found.columns


def _one_row(rewriter: PatternRewriter, launch: tile.LaunchOp, found: StreamedProduct) -> SSAValue:
    """An axis of one row, along which the factor of the scores that has no keys is read: its tile has more of them."""
    row = append_axis(rewriter, launch, Axis(1, Binding.THREAD, "row"))
    (product,) = summed_products(found.scores)
    for load in [read for factor in factors_of(product)[0] if (read := read_of(factor)) is not None]:
        forms = subscripts_of(load)
        others = [d for d, form in enumerate(forms) if not form.depends_on(found.scores.iv)]
        if others and not any(form.depends_on(found.reduction.iv) for form in forms):
            forms = [form + Linear.of(row) if d == others[-1] else form for d, form in enumerate(forms)]
            read_from(rewriter, load, load.source, forms)
    return row


@dataclass
class _ThreadTiling(StreamTiling):
    """The tile of threads, each of which computes several scores and several outputs."""

    side: int
    """Rows side by side, each of its own threads."""
    lanes: int
    """The threads that share a row."""
    features: int
    """Those of them that share the sum of products of a score."""
    parts: Sequence[Part] = field(init=False, default=())
    """The lane axes of the threads that share such a sum, each with its distance in threads."""

    def append_axes(self) -> None:
        """Add the axes of the tile: the rows and the keys of a thread lie apart, so that those of lanes are near."""
        row, column, key = self.hints
        launch, lanes, side = self.launch, self.lanes, self.side
        extents = [launch.extent(axis) or 1 for axis in self.outer]
        vector = neighbours_of(extents[1], lanes)

        block = self.axis(-(-extents[0] // self.m), Binding.BLOCK, f"{row}_b")
        slices = self.append_slices()
        row_thread = self.axis(side, Binding.THREAD, f"{row}_t")
        near, far = self.features, lanes // self.features
        share = gcd(near, self.n // far)
        threads = [(self.axis(far, Binding.THREAD, f"{column}_t"), near)]
        for extent, distance in ((share, near // share), (near // share, 1)):
            if extent > 1:
                threads.append((self.axis(extent, Binding.THREAD, f"{column}_u"), distance))
        self.row_registers = self.axis(self.m // side, Binding.REGISTER, f"{row}_r")
        strips = self.axis(-(-extents[1] // (lanes * vector)), Binding.REGISTER, f"{column}_r")
        neighbours = self.axis(vector, Binding.REGISTER, f"{column}_v")
        keys = [self.axis(self.n // far // share, Binding.REGISTER, f"{key}_r")]
        lane = append_lane(self.rewriter, launch, threads[0][0], f"{key}_t")
        feature = f"{self.found.scores.iv.name_hint or 'e'}_t"
        self.parts = [(append_lane(self.rewriter, launch, axis, feature), distance) for axis, distance in threads[1:]]
        carried = [lane, *(axis for axis, _ in self.parts)]
        if self.parts:
            self.held_axes = [self.row_registers]
        if share > 1:
            keys.append(self.axis(share, Binding.REGISTER, f"{key}_s"))
            self.key_share = keys[1], append_lane(self.rewriter, launch, threads[1][0], f"{key}_l")
            carried.append(self.key_share[1])
        shared = next((axis for axis in (strips, neighbours) if launch.extent(axis) == self.slices), None)
        if slices and shared is not None:
            self.share = shared, append_lane(self.rewriter, launch, slices[0], f"{column}_l")
            carried.append(self.share[1])
        registers = [self.row_registers, strips, neighbours, *keys]
        self.own = [block, *slices, row_thread, *(axis for axis, _ in threads), *registers, *carried]
        self.rows = [(block, self.m), (self.row_registers, side), (row_thread, 1)]
        apart = [(axis, distance * vector) for axis, distance in threads]
        self.columns = [(strips, lanes * vector), *apart, (neighbours, 1)]
        self.keys = [(keys[0], far * share), *((axis, far) for axis in keys[1:]), (lane, 1)]

    def tile_scores(self, key: loop.IndexOp) -> loop.IndexOp:
        """Let the sum run in groups of neighbours; threads that share it have groups in turn, and add theirs.

        Of the elements of a thread each of them then has a share, so that it weighs no other ones.
        """
        if not self.parts:
            _split(self.rewriter, self.found.scores)
            return key
        scores = self.found.scores
        outer, inner = split_loop(self.rewriter, scores, self.features * VECTOR)
        assert isinstance(outer, loop.ReduceOp)
        iv = inner.iv
        part = self.rewriter.insert_block_argument(inner.body.block, 1, IndexType())
        part.name_hint = iv.name_hint
        apart = [(axis, distance * VECTOR) for axis, distance in self.parts]
        recompute(self.rewriter, iv, [*apart, (part, 1)], inner.body.block)
        self.rewriter.erase_block_argument(iv)
        inner.properties["bound"] = AffineMapAttr(AffineMap(0, 0, (AffineExpr.constant(VECTOR),)))
        for op in (outer, inner):
            unroll(self.rewriter, op)
        short = scalar_regions.short_form(arith.AddfOp, outer.results[0].type, loop.YieldOp)
        at = NOWHERE if self.key_share is None else Places([self.key_share[0]], *to_map([Linear.of(self.key_share[1])]))
        total = tile.CombineOp(outer.results, [axis for axis, _ in self.parts], *short, at)
        total.location, total.results[0].name_hint = outer.location, outer.results[0].name_hint
        self.rewriter.insert(total, InsertPoint.after(outer))
        self.rewriter.replace_uses_with_if(outer.results[0], total.results[0], lambda use: use.operation is not total)
        return key if self.key_share is None else self._shared_key(key, outer)

    def _shared_key(self, key: loop.IndexOp, sums: loop.ReduceOp) -> loop.IndexOp:
        """The coordinate of the element of which a thread has the score, in place of that of those which it sums."""
        assert self.key_share is not None
        axis, lane = self.key_share
        for load in [op for op in sums.walk() if isinstance(op, loop.LoadOp)]:
            read_from(self.rewriter, load, load.source, subscripts_of(load))
        index = loop.IndexOp(*to_map([form_of_value(key.result).substitute(axis, Linear.of(lane))]))
        index.result.name_hint = key.result.name_hint
        self.rewriter.insert(index, InsertPoint.after(key))
        self.rewriter.replace_uses_with_if(key.result, index.result, lambda use: not sums.is_ancestor(use.operation))
        return index

    def unscaled(self, score: SSAValue) -> tuple[SSAValue, SSAValue | None]:
        """A score as it is."""
        return score, None

    def held(self, weight: SSAValue, place: InsertPoint) -> SSAValue:
        """The weights in shared memory, rows padded so that those that a warp stores lie in other banks."""
        extents = [self.m, weights_pitch(self.step)]
        shape = MemRefType[Attribute](weight.type, extents, memory_space=tile.MemoryAttr(Memory.SHARED))
        kept = tile.KeepOp(weight, *to_map([total_of(self.rows[1:]), total_of([*self.slice, *self.score_keys])]), shape)
        kept.slab.name_hint = "weights"
        kept.location = location_of(weight)
        self.rewriter.insert(kept, place)
        return kept.slab

    def product(
        self, weights: SSAValue, value: SSAValue, by: arith.MulfOp, key: loop.IndexOp, place: InsertPoint
    ) -> SSAValue:
        """The sum of products of weights and the values of a step."""
        body = Block(arg_types=[IndexType()])
        (inner,) = body.args
        inner.name_hint = self.hints[2]
        first = form_of_value(key.result)
        for axis, _ in self.score_keys:
            first = first.substitute(axis, Linear())
        index = loop.IndexOp(*to_map([first + Linear.of(inner)]))
        index.result.name_hint = key.result.name_hint
        own = total_of(self.slice) + Linear.of(inner)
        weight = loop.LoadOp(weights, *to_map([total_of(self.rows[1:]), own]))
        body.add_ops([index, weight])
        assert key.parent is not None
        other = copied(value, key.parent, {key.result: index.result}, InsertPoint.at_end(body))
        product = product_like(by, weight.result, other)
        body.add_ops([product, loop.YieldOp(product.result)])
        made = loop.ReduceOp(self.n, Region(body), *scalar_regions.short_form(arith.AddfOp, value.type, loop.YieldOp))
        made.location = by.location
        self.rewriter.insert(made, place)
        return _split(self.rewriter, made).results[0]

    def is_factor(self, load: loop.LoadOp, reduction: loop.ReduceOp) -> bool:
        """Whether a read stands in the loop of such a sum."""
        return load.parent_op() is not reduction

    def slab(self, element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
        """Rows side by side; pad-smem pads them where accesses collide."""
        return MemRefType[Attribute](element, shape, memory_space=tile.MemoryAttr(Memory.SHARED))


def _split(rewriter: PatternRewriter, op: loop.ReduceOp) -> loop.LoopLike:
    """Let a loop run in groups of neighbours that a thread reads at once, where it has whole ones. Returns it."""
    if op.trips is None or op.trips % VECTOR or op.trips == VECTOR:
        return op
    outer, inner = split_loop(rewriter, op, VECTOR)
    unroll(rewriter, inner)
    return outer
