"""expand-launch: turn what a launch runs at all its points into what one thread runs, of hardware primitives.

    tile.launch (%row = 32 : block,               tile.launch (%row = 32 : block,
                 %t = 256 : thread,                            %thread = 256 : thread) attributes {expanded} {
                 %v = 2 : register) {        ->     %t = loop.index [%thread]
      ..                                            loop.for unroll %v = 0 to 2 { .. }
    }                                             }

The thread axes become one, the linear id, from which each is taken apart. Register axes become unrolled loops over
register buffers, combines become shuffles and shared memory; memory that combines over CTAs need is made before the
launch. The block and cluster axes stay, and so do copies of shared slabs, which lower-copies lowers. No barrier is
placed; place-barriers does that. Accesses of halves in pairs become accesses of 16 bytes where the lanes of a quad
can exchange them by shuffles. A launch that is marked `expanded` is left as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, UnitAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import lane_faults
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Binding
from deplodock.loading import loaded
from deplodock.passes.kernel.builder import allocate, constant_extent, digits
from deplodock.passes.kernel.emit import Emitter
from deplodock.passes.kernel.lower_launch import lower_body
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class ExpandLaunchPass(ModulePass):
    """Turn what a launch runs at all its points into what one thread runs, made of hardware primitives."""

    name = "expand-launch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            if not launches(function):
                raise failure(function, f"@{function.sym_name.data} holds no launch; run tileify first")
            for launch in launches(function):
                if tile.EXPANDED not in launch.attributes:
                    expand(launch, function)


def expand(launch: tile.LaunchOp, function: func.FuncOp) -> None:
    """Replace a launch of a function by its expanded form. Raises PassFailedException where it cannot be lowered."""
    for fault in lane_faults(launch):
        raise failure(fault.op, fault.reason)
    if launch.bound_to(Binding.CLUSTER):
        loaded("deplodock.passes.kernel.across:share_cluster")(launch)
    workspaces = allocate(launch, function)
    lower = lower_body
    if launch.stream is not None:
        lower = loaded("deplodock.passes.kernel.lower_stream:shared_steps")(launch, function)
    buffers = _buffers(function, launch)
    expanded = _frame(launch)
    emitter = Emitter(launch, expanded)
    emitter.values = {buffer: buffer for buffer in buffers}
    emitter.workspaces = workspaces
    if launch.early is not None:
        emitter.run(kernel.AwaitLaunchesOp())
    if launch.stream is None:
        emitter.coordinates |= zip(launch.ctas, expanded.ctas, strict=False)
    for axis, form in digits(launch.bound_to(Binding.THREAD), emitter.thread):
        emitter.coordinates[axis] = emitter.index(form, axis.name_hint)
    emitter.coordinates |= {lane: emitter.coordinates[axis] for lane, axis in launch.carried_axes().items()}
    lower(emitter, launch.body.block)
    Rewriter.replace_op(launch, expanded)


def _frame(launch: tile.LaunchOp) -> tile.LaunchOp:
    """An expanded launch without a body yet: the axes of CTAs as they were, and one axis of threads.

    A launch without threads, or whose threads own nothing, is one without CTAs.
    """
    ctas = [(constant_extent(axis), launch.binding(axis), axis.name_hint) for axis in launch.ctas]
    if launch.stream is not None:
        ctas = [(launch.stream.value.data, Binding.BLOCK, "cta")]
    threads = math.prod(max(constant_extent(axis), 1) for axis in launch.bound_to(Binding.THREAD))
    if any(constant_extent(axis) == 0 for axis in launch.axes if axis not in launch.ctas):
        ctas.append((0, Binding.BLOCK, "none"))
    extents, bindings, names = zip(*ctas, (threads, Binding.THREAD, "thread"), strict=True)
    body = Block(arg_types=[IndexType()] * len(extents))
    for axis, name in zip(body.args, names, strict=True):
        axis.name_hint = name
    occupancy = launch.occupancy.value.data if launch.occupancy is not None else None
    expanded = tile.LaunchOp(extents, bindings, Region(body), occupancy=occupancy)
    expanded.location = launch.location
    expanded.attributes = {**launch.attributes, tile.EXPANDED: UnitAttr()}
    return expanded


def _buffers(function: func.FuncOp, launch: tile.LaunchOp) -> list[SSAValue]:
    """The memrefs outside a launch that it may use. Raises PassFailedException for a used one of a dynamic shape."""
    values = (*function.body.block.args, *(result for op in function.body.block.ops for result in op.results))
    found: list[SSAValue] = [value for value in values if isinstance(value.type, MemRefType)]
    for value in found:
        is_used = any(launch.is_ancestor(use.operation) for use in value.uses)
        if is_used and not loop.memref_of(value).has_static_shape():
            raise failure(launch, f"{label(value)} has a dynamic shape, {value.type}; write its extents")
    return found
