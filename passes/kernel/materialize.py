"""materialize: turn every launch into a `kernel.func` of hardware primitives, and its function into host code.

    func.func @k(%x, %out) {                      kernel.func @k(%x, %out) blocks(%block = 32) threads(%thread = 256) {
      tile.launch (%row = 32 : block,               %row = loop.index [%block]
                   %t = 256 : thread) {        ->   %t = loop.index [%thread]
        ..                                          ..
      }                                           }
    }                                             func.func @main(..) { .. kernel.launch @k(%x, %out) .. }

The ids are taken apart into the block and thread axes, register axes become unrolled loops over register buffers,
combines become shuffles and shared memory, stages become copies. No barrier is placed; place-barriers does that. The
function that held the launches is inlined into the functions that call it, or stays as the host function `@run_<name>`
where nobody does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.operations import label
from deplodock.analysis.shape.lanes import lane_faults
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.failures import failure
from deplodock.passes.kernel.emit import Emitter
from deplodock.passes.kernel.lower_boxes import TensorMaps, tensor_maps
from deplodock.passes.kernel.lower_launch import lower_body
from deplodock.passes.kernel.workspace import Workspace, allocate, constant_extent
from deplodock.passes.names import Symbols
from deplodock.schedule.steps import ATTRIBUTE

_HOST_CODE = (memref.AllocOp, kernel.CountersOp, kernel.TensorMapOp, kernel.LaunchOp, func.CallOp, func.ReturnOp)
"""What a host function is made of."""


@dataclass(frozen=True)
class MaterializePass(ModulePass):
    """Turn every launch into a function of hardware primitives, and its function into host code."""

    name = "materialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            materialize(function, op)


def materialize(function: func.FuncOp, module: ModuleOp) -> None:
    """Outline the launches of a kernel function.

    Raises PassFailedException where one cannot be lowered.
    """
    found = launches(function)
    if not found:
        raise failure(function, f"@{function.sym_name.data} holds no launch; run tileify first")
    base = function.sym_name.data
    for number, launch in enumerate(found):
        name = base if len(found) == 1 else Symbols(module).fresh(f"{base}_{number}")
        workspaces, maps = allocate(launch, function), tensor_maps(launch)
        buffers = _buffers(function, launch, workspaces, maps)
        outlined = lower_launch(launch, name, buffers, workspaces, maps)
        Rewriter.insert_op(outlined, InsertPoint.before(function))
        call = kernel.LaunchOp(name, buffers)
        call.location = launch.location
        Rewriter.insert_op(call, InsertPoint.before(launch))
        Rewriter.erase_op(launch)
    _become_host(function, module)


def lower_launch(
    launch: tile.LaunchOp,
    name: str,
    buffers: Sequence[SSAValue],
    workspaces: Mapping[tile.CombineOp, Workspace],
    maps: TensorMaps,
) -> kernel.FuncOp:
    """The kernel function of one launch; its parameters are the buffers that it uses, in order."""
    for fault in lane_faults(launch):
        raise failure(fault.op, fault.reason)
    extents = {axis: constant_extent(axis) for axis in launch.axes}
    threads = math.prod(max(extents[axis], 1) for axis in launch.bound_to(Binding.THREAD))
    blocks = math.prod(extents[axis] for axis in launch.ctas) if all(extents.values()) else 0
    cluster = math.prod(extents[axis] for axis in launch.bound_to(Binding.CLUSTER))
    types: list[Attribute] = [value.type for value in buffers]
    occupancy = launch.occupancy.value.data if launch.occupancy is not None else None
    body = Block(arg_types=[*types, IndexType(), IndexType()])
    outlined = kernel.FuncOp(name, types, blocks, threads, Region(body), occupancy, cluster if cluster > 1 else None)
    outlined.location = launch.location
    outlined.block_id.name_hint, outlined.thread_id.name_hint = "block", "thread"
    emitter = Emitter(launch, outlined)
    for old, new in zip(buffers, outlined.parameters, strict=True):
        new.name_hint = old.name_hint
        emitter.values[old] = new
    emitter.workspaces = {op: workspace.renamed(emitter.values) for op, workspace in workspaces.items()}
    emitter.maps = maps
    _take_apart(emitter, launch.ctas, outlined.block_id)
    _take_apart(emitter, launch.bound_to(Binding.THREAD), outlined.thread_id)
    emitter.coordinates |= {lane: emitter.coordinates[axis] for lane, axis in launch.carried_axes().items()}
    lower_body(emitter, launch.body.block)
    return outlined


def _buffers(
    function: func.FuncOp,
    launch: tile.LaunchOp,
    workspaces: Mapping[tile.CombineOp, Workspace],
    maps: TensorMaps,
) -> list[SSAValue]:
    """The memrefs that a launch uses: arguments of its function, then local buffers, in order, then its workspaces.

    The tensor maps stand first; what only they read is not used otherwise. Raises PassFailedException for a dynamic
    shape.
    """
    values = (*function.body.block.args, *(result for op in function.body.block.ops for result in op.results))
    used = [
        value
        for value in values
        if isinstance(value.type, MemRefType) and any(_is_used(use, launch) for use in value.uses)
    ]
    for value in used:
        if not loop.memref_of(value).has_static_shape():
            raise failure(launch, f"{label(value)} has a dynamic shape, {value.type}; write its extents")
    return [*maps.values(), *used, *(buffer for workspace in workspaces.values() for buffer in workspace.buffers)]


def _is_used(use: Use, launch: tile.LaunchOp) -> bool:
    """Whether a launch uses a buffer otherwise than by copies of boxes."""
    op = use.operation
    is_box = isinstance(op, tile.StageOp | tile.CopyOp) and bool(op.is_tma)
    return launch.is_ancestor(op) and not is_box


def _take_apart(emitter: Emitter, axes: Sequence[SSAValue], id: SSAValue) -> None:
    """Compute the coordinates of axes from their linear id, the last axis fastest."""
    stride = 1
    forms: list[tuple[SSAValue, Linear]] = []
    for axis in reversed(axes):
        extent = emitter.extent(axis)
        digit = Linear.of(id) // stride
        forms.append((axis, digit if axis is axes[0] else digit % extent))
        stride *= extent
    for axis, form in reversed(forms):
        map, operands = emitter.map([form])
        emitter.coordinates[axis] = emitter.add(loop.IndexOp(map, operands), axis.name_hint)


def _become_host(function: func.FuncOp, module: ModuleOp) -> None:
    """Inline a function of launches into its callers, or keep it as a host function of its own."""
    name = function.sym_name.data
    function.attributes.pop(ATTRIBUTE, None)
    for op in reversed(list(function.body.block.ops)):
        if is_trivially_dead(op):
            Rewriter.erase_op(op)
        elif not isinstance(op, _HOST_CODE):
            raise failure(op, "it stands beside a launch, where only calls and allocations can")
    calls = [op for op in module.walk() if isinstance(op, func.CallOp) and op.callee.root_reference.data == name]
    if not calls:
        function.properties["sym_name"] = StringAttr(Symbols(module).fresh(f"run_{name}"))
        return
    for call in calls:
        mapping: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, call.operands, strict=True))
        for op in function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                Rewriter.replace_op(call, [], [mapping.get(value, value) for value in op.operands])
            else:
                Rewriter.insert_op(op.clone(mapping), InsertPoint.before(call))
    Rewriter.erase_op(function)
