"""form-kernels: decide which operations share a kernel, and write it down as `tensor_ext.kernel` regions.

    %sq = tensor_ext.elementwise {arith.mulf} %x, %x      %sum = tensor_ext.kernel @k_sum(%x_1 = %x : ..) -> .. {
    %sum = tensor_ext.reduce {arith.addf} %sq dims [1]      %sq = tensor_ext.elementwise {arith.mulf} %x_1, %x_1
                                                     ->     %sum_1 = tensor_ext.reduce {arith.addf} %sq dims [1]
                                                            tensor_ext.yield %sum_1 : ..
                                                          }

An operation joins the kernel that needs it, or is computed again in each of several, or is stored once, whichever costs
less on the module's target (`analysis/machine/cost.py`); a cast to a wider type is stored only where a limit asks for
it. A kernel keeps to these limits:

* its reductions all leave the same axes free, the rows, and each is computed once for a row, never in the loop of
  another reduction;
* its scans run along one axis, in one direction, none of its reductions leaves that axis free, and it has no
  contraction then;
* it holds one contraction, or several that share a factor and run through the same k;
* its outputs have all the axes of its space or the rows;
* a concat is stored, its parts computed in place, and what a gather or a pad reads is in memory;
* its parameters fit in 4096 bytes, and its text has at most 2048 instructions for an element, so that nvcc ends soon;
* the kernels of a function do not wait for each other in a circle.

With `stream=always`, or `cheaper` where that costs less or the scores are too large to store, a sum that is weighted by
a softmax is one kernel with the softmax and its scores (`passes/tensor/streaming.py`): its reductions stand in each
other's loops until stream-reductions makes one loop of them, and nothing of the row is stored.

`deplodock.fuse = "never" | "always"` on an operation overrides the cost, as `deplodock.fusion` on a function does for
many (`passes/tensor/decisions.py`). Kernels that are there already stay as they are. A function may return an argument;
it returns a constant through a kernel that writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import get_args

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import target_at, target_of
from deplodock.analysis.shape.fusion import TensorOp
from deplodock.analysis.shape.kernel_identity import kernel_key
from deplodock.dialects.tensor import ElementwiseOp, InMemory, KernelOp, ReduceOp, ScanOp, YieldOp, tensor_of
from deplodock.loading import loaded
from deplodock.passes import remarks
from deplodock.passes.clean_up import location_of
from deplodock.passes.copying import Symbols
from deplodock.passes.options import OptionsPass, option
from deplodock.passes.remarks import failure
from deplodock.passes.tensor.decisions import PROGRAMS, STREAM, Decisions, Streams, labels, take_given
from deplodock.passes.tensor.group import Group
from deplodock.passes.tensor.grouping import Grouping
from deplodock.passes.tensor.prepare import prepare


@dataclass(frozen=True)
class FormKernelsPass(OptionsPass):
    """Wrap the tensor operations of every function into kernels."""

    name = "form-kernels"
    stream: Streams = option(
        "cheaper", Streams, "where a sum that is weighted by a softmax is one kernel with the softmax and its scores"
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names, rates = Symbols(op), Rates.of(target_of(op))
        streams = self.with_defaults(self.given()).stream
        for function in functions_on_tensors(op):
            _prepare(function)
            take_given(function, op)
            _form_kernels(function, names, rates, streams)
        op.attributes.pop(PROGRAMS, None)


def functions_on_tensors(module: ModuleOp) -> list[func.FuncOp]:
    """The functions whose operations `form-kernels` wraps into kernels."""
    functions = [op for op in module.walk() if isinstance(op, func.FuncOp)]
    return [function for function in functions if any(map(_on_tensors, function.body.blocks))]


def alternatives(function: func.FuncOp, streams: Streams = "cheaper") -> tuple[str, dict[str, float]]:
    """The key of a function that has no kernels yet, and the decisions that may give it others than the heuristics'.

    Each is text, with the nanoseconds that the cost model expects it to add to the function (0 for `stream`, which has
    no price before it is tried), for all operations that are decided alike. The function is changed. Raises
    PassFailedException where form-kernels does.
    """
    _prepare(function)
    block, found = function.body.block, dict[str, float]()
    rates, known = Rates.of(target_at(function)), labels(block)
    grouping = Grouping(block, rates, weighs=True)
    for op, mode, added in grouping.alternatives:
        decision = f"{known[op]}={mode}"
        found[decision] = found.get(decision, 0.0) + added
    if loaded("deplodock.passes.tensor.streaming:weighs_by_softmax")(block):
        found |= {f"{STREAM}={other}": 0.0 for other in get_args(Streams) if other not in ("cheaper", streams)}
    return kernel_key(function), found


def _on_tensors(block: Block) -> bool:
    return any(isinstance(value.type, TensorType) for op in block.ops for value in (*op.operands, *op.results))


def _prepare(function: func.FuncOp) -> None:
    """Check a function, and rewrite it so that more operations can share a kernel."""
    if len(function.body.blocks) != 1:
        raise failure(function, "form-kernels takes functions of one block")
    block = function.body.block
    for op in block.ops:
        _check(op)
    for argument in block.args:
        type: Attribute = argument.type
        if not isinstance(type, TensorType) or not tensor_of(argument).has_static_shape():
            raise failure(function, f"its arguments must be tensors of static shapes, not {type}")
    prepare(block)


def _form_kernels(function: func.FuncOp, names: Symbols, rates: Rates, streams: Streams) -> None:
    block, decisions = function.body.block, Decisions.of(function)
    old = [op for op in block.ops if isinstance(op, TensorOp)]
    positions = {op: position for position, op in enumerate(block.ops)}
    stored: dict[SSAValue, SSAValue] = {}
    last = block.last_op
    assert last is not None
    if old:
        decisions.write(function)
    groups = Grouping(block, rates).groups
    if any(isinstance(op, ReduceOp) for op in block.ops):
        stream_groups = loaded("deplodock.passes.tensor.streaming:stream_groups")
        groups = stream_groups(groups, block, rates, decisions.stream or streams)
    for step in _ordered(groups, [op for op in block.ops if isinstance(op, InMemory)], positions):
        if isinstance(step, InMemory):
            step.detach()
            step.operands = [stored.get(value, value) for value in step.operands]
        else:
            step = _outline(step, positions, stored, names)
        block.insert_op_before(step, last)
    last.operands = [stored.get(value, value) for value in last.operands]
    for op in reversed(old):
        Rewriter.erase_op(op)


def _check(op: Operation) -> None:
    """Raise PassFailedException for an operation that no kernel can hold."""
    tensors = [value for value in (*op.operands, *op.results) if isinstance(value.type, TensorType)]
    if not all(tensor_of(value).has_static_shape() for value in tensors):
        raise failure(op, "dynamic shapes are not supported; give every dimension an extent")
    if isinstance(op, InMemory | func.ReturnOp):
        return
    if not isinstance(op, TensorOp) or len(tensors) < len(op.operands) + len(op.results):
        raise failure(op, "form-kernels takes tensor_ext operations and tensor constants; lower this operation first")
    for inner in op.walk():
        for value in inner.operands:
            if inner is not op and not op.is_ancestor(value.owner):
                raise failure(inner, "the body uses a value from outside; make it an operand or a constant inside")


def _ordered(
    groups: Sequence[Group], stored: Sequence[InMemory], positions: dict[Operation, int]
) -> list[Group | InMemory]:
    """Kernels and recurrences, each after those whose results it reads, else in the order of the source."""
    steps: list[Group | InMemory] = [*groups, *stored]
    reads = [list(step.reads) if isinstance(step, Group) else list(step.operands) for step in steps]
    writes = [list(step.outputs if isinstance(step, Group) else step.results) for step in steps]
    owner = {value: i for i, values in enumerate(writes) for value in values}
    waits = [{owner[value] for value in values if value in owner} for values in reads]
    readers: list[list[int]] = [[] for _ in steps]
    for reader, sources in enumerate(waits):
        for source in sorted(sources):
            readers[source].append(reader)
    last = [max(positions[op] for op in (step.indices if isinstance(step, Group) else [step])) for step in steps]
    ready: list[tuple[int, int]] = []
    for i, sources in enumerate(waits):
        if not sources:
            heappush(ready, (last[i], i))
    order: list[Group | InMemory] = []
    while ready:
        _, i = heappop(ready)
        order.append(steps[i])
        for reader in readers[i]:
            waits[reader].remove(i)
            if not waits[reader]:
                heappush(ready, (last[reader], reader))
    return order


def _outline(
    group: Group, positions: dict[Operation, int], stored: dict[SSAValue, SSAValue], names: Symbols
) -> KernelOp:
    """Build the kernel of a group and note where its outputs are."""
    ops = sorted(group.indices, key=lambda op: positions[op])
    outputs = sorted(group.outputs, key=lambda value: _position(value, positions))
    inputs = sorted(group.reads, key=lambda value: _position(value, positions))
    body = Block(arg_types=[value.type for value in inputs])
    mapping: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=True))
    for value, argument in mapping.items():
        argument.name_hint = value.name_hint
    for op in ops:
        body.add_op(op.clone(mapping))
    body.add_op(YieldOp(*(mapping[value] for value in outputs)))
    # C++ keeps names with two underscores in a row for itself.
    name = names.fresh(re.sub("__+", "_", f"k_{outputs[-1].name_hint or _kind(group)}"))
    operands = [stored.get(value, value) for value in inputs]
    kernel = KernelOp(name, operands, [value.type for value in outputs], Region(body))
    kernel.location = location_of(outputs[0])
    for value, result in zip(outputs, kernel.outputs, strict=True):
        result.name_hint = value.name_hint
        stored[value] = result
    for refusal in group.refusals:
        remarks.skip(FormKernelsPass.name, name, refusal)
    return kernel


def _position(value: SSAValue, positions: dict[Operation, int]) -> tuple[int, int]:
    """Sorts the arguments of a function in order before the results of its operations in order."""
    match value:
        case BlockArgument():
            return -1, value.index
        case OpResult():
            return positions[value.op], value.index
        case _:
            raise AssertionError(f"{value} is neither an argument nor a result")


def _kind(group: Group) -> str:
    """What a kernel mainly does, for the name of one whose output has none."""
    if group.contractions:
        return "matmul"
    if any(isinstance(op, ReduceOp) for op in group.indices):
        return "reduce"
    if any(isinstance(op, ScanOp) for op in group.indices):
        return "scan"
    if any(isinstance(op, ElementwiseOp) for op in group.indices):
        return "elementwise"
    if group.parts:
        return "concat"
    return "constant" if all(isinstance(op, arith.ConstantOp) for op in group.indices) else "copy"
