"""stage-windows: hold the elements that the windows of a thread's outputs share in its registers.

    tile.launch (%y_t = 16 : thread, %x_t = 32 : thread,     tile.launch (..) {
                 %y_r = 2 : register,                          %xs = tile.stage %x[%y_t * 2 + d0, %x_t * 4 + d1]
                 %x_r = 4 : register) {                          : memref<34x130xf32>
      ..                                                         to memref<4x6xf32, #tile.memory<register>>
      %acc = loop.reduce {arith.addf} %h = 0 to 3 {            %acc = loop.reduce {arith.addf} %h = 0 to 3 unroll {
        %0 = loop.reduce {arith.addf} %w = 0 to 3 {    ->        %0 = loop.reduce {arith.addf} %w = 0 to 3 unroll {
          %v = loop.load %x[%y + %h, %x + %w]                      %v = loop.load %xs[%y_r + %h, %x_r + %w]

A slab spans the loops of a reduction, or the inner ones where all of them have too many elements, and these are
unrolled. Along contiguous memory it begins and ends with whole accesses, as far as the outputs of all threads do: to
read a few elements more in fewer accesses is less work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import address, element_bytes
from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.footprint import Footprint, shared_footprint
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import stage_read, unroll
from deplodock.passes.tile.rule import LaunchRule, Skip, apply_to_any
from deplodock.schedule.choose.sizes import WINDOW_VALUES


@dataclass(frozen=True)
class StageWindowsPass(LaunchRule):
    """Hold the elements that the windows of a thread's outputs share in its registers."""

    name = "stage-windows"
    after = ("register-tile",)
    values: int = option(
        WINDOW_VALUES, Integers((32, 64, 128)), "the most values of 4 bytes that the windows of a thread have"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if contraction_of(launch) is not None:
            raise Skip("it is a contraction, whose slabs all threads of a CTA share")
        loads = [op for op in launch.body.walk() if isinstance(op, loop.LoadOp) and tile.memory_of(op.source) is None]
        none = "no input is read from global memory"
        apply_to_any(loads, lambda load: _stage(rewriter, launch, load, self.values), none)


def _stage(rewriter: PatternRewriter, launch: tile.LaunchOp, load: loop.LoadOp, most: int) -> str | None:
    """Stage what a load reads, where outputs share it. Returns the reason where it does not pay."""
    reason = "no reduction reads it"
    for loops in _chains(load):
        inside = [*(around.iv for around in loops), *launch.bound_to(Binding.REGISTER)]
        slab = shared_footprint(load, inside)
        if slab is None:
            return f"{label(load.source)}: its subscripts are not affine in the axes"
        found = Dependence().of(load.result)
        if known_points(root for root in inside if root in found) <= slab.elements:
            return f"{label(load.source)}: a thread reads each element once"
        if slab.elements * element_bytes(loop.memref_of(load.source).element_type) // 4 <= most:
            _rewrite(rewriter, load, _in_whole_accesses(slab), loops)
            return None
        reason = f"its slab of {slab.elements} elements exceeds {most} registers"
    return f"{label(load.source)}: {reason}"


def _chains(load: loop.LoadOp) -> Iterator[Sequence[loop.ReduceOp]]:
    """The reductions of constant extent around a load, outermost first; then without the outermost, and so on."""
    loops: list[loop.ReduceOp] = []
    for around in ancestors(load):
        if not isinstance(around, loop.ReduceOp) or around.trips is None:
            break
        loops.insert(0, around)
    for start in range(len(loops)):
        yield loops[start:]


def _in_whole_accesses(slab: Footprint) -> Footprint:
    """The slab with what it lacks of whole accesses at both ends of its rows, where all threads' are aligned alike."""
    type = loop.memref_of(slab.readers[0].load.source)
    if not slab.shape or slab.steps[-1][-1] != 1:
        return slab
    *outer, last = slab.origin
    start = address(type, [*outer, last - last.constant])
    width = ACCESS_BYTES // element_bytes(type.element_type)
    while width > 1 and (start.divisor() % width or type.get_shape()[-1] % width):
        width //= 2
    before = last.constant % width
    row = -(-(slab.shape[-1] + before) // width) * width
    readers = [replace(each, subscripts=(*each.subscripts[:-1], each.subscripts[-1] + before)) for each in slab.readers]
    return replace(slab, shape=(*slab.shape[:-1], row), origin=(*outer, last - before), readers=tuple(readers))


def _rewrite(
    rewriter: PatternRewriter, load: loop.LoadOp, footprint: Footprint, loops: Sequence[loop.ReduceOp]
) -> None:
    """Fill the slab before the loops, which are unrolled, and read it instead of the buffer."""
    element = loop.memref_of(load.source).element_type
    slab: MemRefType[Attribute] = MemRefType(element, footprint.shape, memory_space=tile.MemoryAttr(Memory.REGISTER))
    for around in loops:
        unroll(rewriter, around)
    stage_read(rewriter, load, footprint, slab, InsertPoint.before(loops[0]))
