"""outline: move each expanded launch into a `kernel.func`, and turn its function into host code.

    func.func @k(%x, %out) {                      kernel.func @k(%x, %out) blocks(%block = 32) threads(%thread = 256) {
      tile.launch (%row = 32 : block,               %row = loop.index [%block]
                   %thread = 256 : thread)   ->     ..
                   attributes {expanded} {        }
        ..                                        func.func @main(..) { .. kernel.launch @k(%x, %out) .. }
      }
    }

The axes of CTAs are taken apart from the block id. The function that held the launches is inlined into the functions
that call it, or stays as the host function `@run_<name>` where nobody does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.interfaces import DescribesBuffer, HostCode, MakesZeros
from deplodock.dialects.tile import Binding
from deplodock.passes.copying import Symbols
from deplodock.passes.kernel.builder import constant_extent, digits, require_expanded
from deplodock.passes.remarks import failure
from deplodock.schedule.steps import ATTRIBUTE

Calls: TypeAlias = dict[str, list[func.CallOp]]
"""The calls of host functions by the name of what they call."""

_HOST_CODE = (memref.AllocOp, func.CallOp, func.ReturnOp)
"""What a host function is made of, beside operations that say so."""


@dataclass(frozen=True)
class OutlinePass(ModulePass):
    """Move each expanded launch into a function of the GPU, and turn its function into host code."""

    name = "outline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names, calls = Symbols(op), defaultdict[str, list[func.CallOp]](list)
        for call in _host_calls(op.body):
            calls[call.callee.root_reference.data].append(call)
        for function in kernels(op):
            outline(function, names, calls)


def outline(function: func.FuncOp, names: Symbols, calls: Calls) -> None:
    """Outline the launches of a kernel function, and keep what its module has up to date.

    Raises PassFailedException for one that is not expanded, or holds copies that are not lowered.
    """
    found, base = launches(function), function.sym_name.data
    for number, launch in enumerate(found):
        require_expanded(launch)
        if (left := next((op for op in launch.body.walk() if op.dialect_name() == tile.Tile.name), None)) is not None:
            raise failure(left, "it cannot stand in a kernel; run lower-copies first")
        name = base if len(found) == 1 else names.fresh(f"{base}_{number}")
        buffers = _buffers(function, launch)
        Rewriter.insert_op(_outlined(launch, name, buffers), InsertPoint.before(function))
        call = kernel.LaunchOp(name, buffers)
        call.location = launch.location
        Rewriter.replace_op(launch, call)
    _become_host(function, len(found) == 1, names, calls)


def _buffers(function: func.FuncOp, launch: tile.LaunchOp) -> list[SSAValue]:
    """What a launch uses of its function: tensor maps, then memrefs, each in the function's order."""
    values = (*function.body.block.args, *(result for op in function.body.block.ops for result in op.results))
    used = [value for value in values if any(launch.is_ancestor(use.operation) for use in value.uses)]
    return [value for type in (DescribesBuffer, MemRefType) for value in used if isinstance(value.type, type)]


def _outlined(launch: tile.LaunchOp, name: str, buffers: Sequence[SSAValue]) -> kernel.FuncOp:
    """The kernel function of a launch, whose body it takes; its parameters are the buffers, in order."""
    (thread,), ctas = launch.bound_to(Binding.THREAD), launch.ctas
    blocks = math.prod(map(constant_extent, ctas))
    cluster = math.prod(map(constant_extent, launch.bound_to(Binding.CLUSTER)))
    types = [value.type for value in buffers]
    occupancy = launch.occupancy.value.data if launch.occupancy is not None else None
    body = Block(arg_types=[*types, IndexType(), IndexType()])
    outlined = kernel.FuncOp(
        name, types, blocks, constant_extent(thread), Region(body), occupancy, cluster if cluster > 1 else None
    )
    outlined.location = launch.location
    outlined.block_id.name_hint, outlined.thread_id.name_hint = "block", "thread"
    for op in list(launch.body.block.ops):
        op.detach()
        body.add_op(op)
    for old, new in zip(buffers, outlined.parameters, strict=True):
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: outlined.is_ancestor(use.operation))
    thread.replace_all_uses_with(outlined.thread_id)
    first = next((op for op in body.ops if not op.has_trait(ConstantLike)), None)
    for axis, form in digits(ctas, outlined.block_id):
        index = loop.IndexOp(AffineMap(1, 0, (form.affine(lambda _: AffineExpr.dimension(0)),)), [outlined.block_id])
        index.location = launch.location
        index.result.name_hint = axis.name_hint
        Rewriter.insert_op(index, InsertPoint.before(first) if first is not None else InsertPoint.at_end(body))
        axis.replace_all_uses_with(index.result)
    return outlined


def _become_host(function: func.FuncOp, is_kernel: bool, names: Symbols, calls: Calls) -> None:
    """Inline a function of launches into its callers, or keep it as a host function of its own.

    `is_kernel` says that its name is that of its kernel now.
    """
    name = function.sym_name.data
    function.attributes.pop(ATTRIBUTE, None)
    for op in reversed(list(function.body.block.ops)):
        if is_trivially_dead(op):
            Rewriter.erase_op(op)
        elif not (isinstance(op, _HOST_CODE) or op.has_trait(HostCode)):
            raise failure(op, "it stands beside a launch, where only calls and allocations can")
    if not is_kernel:
        names.remove(name)
    if not (callers := calls.pop(name, [])):
        function.properties["sym_name"] = StringAttr(names.fresh(f"run_{name}"))
        return
    for call in callers:
        mapping: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, call.operands, strict=True))
        for op in function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                Rewriter.replace_op(call, [], [mapping.get(value, value) for value in op.operands])
                continue
            copy = op.clone(mapping)
            Rewriter.insert_op(copy, InsertPoint.before(_outside(call) if _makes_memory(op) else call))
            if isinstance(copy, func.CallOp):
                calls[copy.callee.root_reference.data].append(copy)
    for call in _host_calls(function.body):
        calls[call.callee.root_reference.data].remove(call)
    Rewriter.erase_op(function)


def _makes_memory(op: Operation) -> bool:
    return isinstance(op, memref.AllocOp) or op.has_trait(MakesZeros)


def _outside(op: Operation) -> Operation:
    """The operation, or the outermost one that repeats it: what it works in is made once."""
    above = op.parent_op()
    return _outside(above) if isinstance(above, loop.RepeatOp) else op


def _host_calls(region: Region) -> Iterator[func.CallOp]:
    """The calls in a region outside of launches and kernels, in which there are none: they are not walked."""
    for op in (op for block in region.blocks for op in block.ops):
        if isinstance(op, func.CallOp):
            yield op
        elif not isinstance(op, tile.LaunchOp | kernel.FuncOp):
            for inner in op.regions:
                yield from _host_calls(inner)
