"""Runs a module of tensor, loop or tile level on numpy arrays: what the program means, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, Operation

from deplodock.analysis.host.arguments import Function, Role, argument_roles, callee, cell_of, entry_function
from deplodock.dialects.kernel import FuncOp as KernelFuncOp
from deplodock.dialects.kernel import LaunchOp as KernelLaunchOp
from deplodock.dialects.loop import PartOp, RepeatOp, memref_of
from deplodock.dialects.tensor import RecurrenceOp
from deplodock.dialects.torch import ATEN_OPS
from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.interpreters.evaluate import loop, tensor, tile
from deplodock.interpreters.evaluate.machine import (
    Handler,
    Machine,
    PointBuffer,
    Points,
    Value,
    element,
    uninitialised,
)
from deplodock.interpreters.limits import check_limits
from deplodock.interpreters.values import Array, Precision, dtype_of


@dataclass(frozen=True)
class Run:
    """The outputs of a run, and whether every reduction in it gives the same bits in any order."""

    outputs: list[Array]
    exact: bool


def evaluate(
    module: ModuleOp,
    inputs: Sequence[Array],
    *,
    entry: str | None = None,
    precision: Precision = "native",
    contracts: bool = False,
    most_steps: int | None = None,
) -> list[Array]:
    """Run the entry function (the one nobody calls, or `entry`) of a tensor, loop or tile module.

    A function with results takes all its arguments and gives its results. A kernel function, which has none, takes the
    arguments it reads (`in` and `inout`) and gives those it writes (`out` and `inout`), each in order. The inputs are
    not changed. `float64` computes every f32 in float64 and returns float64. `contracts` allows sums of products by
    matrix products, in another order; `most_steps` are the iterations, of all loops and points, that may run.

    Raises InvalidInputError if the inputs do not fit the signature; UnsupportedError for what the evaluators do not
    mean (torch and kernel level); TooLong for more steps than may run; Error if the program is wrong: an access outside
    its buffer, an element with two values or never written.
    """
    result = run(module, inputs, entry=entry, precision=precision, contracts=contracts, most_steps=most_steps)
    return result.outputs


def run(
    module: ModuleOp,
    inputs: Sequence[Array],
    *,
    entry: str | None = None,
    precision: Precision = "native",
    contracts: bool = False,
    most_steps: int | None = None,
) -> Run:
    """As `evaluate`, and says whether the order of reductions mattered."""
    function = entry_function(module, entry)
    if isinstance(function, KernelFuncOp):
        raise UnsupportedError(f"@{function.sym_name.data} is a kernel.func: run it in the simulator")
    handlers = {**tensor.HANDLERS, **loop.HANDLERS, **tile.HANDLERS, **_HANDLERS}
    machine = Machine(handlers, precision, contracts=contracts, most_steps=most_steps)
    arguments = _arguments(function, inputs, precision)
    with np.errstate(all="ignore"):
        results = _call(machine, function, arguments)
    roles = argument_roles(function)
    for position, (value, role) in enumerate(zip(arguments, roles, strict=True)):
        if role is Role.OUT:
            _check_written(value, f"@{function.sym_name.data}: argument {position}")
    if not function.function_type.outputs.data:
        results = [value for value, role in zip(arguments, roles, strict=True) if role is not Role.IN]
    return Run([value.data if isinstance(value, PointBuffer) else value for value in results], machine.exact)


@dataclass(frozen=True)
class BufferState:
    """What a buffer holds: its elements, and which of them hold a value, None for all."""

    data: Array
    initialised: Array | None = None


def call(
    function: FuncOp,
    arguments: Sequence[BufferState | None],
    precision: Precision = "native",
    most_steps: int | None = None,
) -> list[BufferState]:
    """Run one function of loop or tile level on the memory of its arguments; gives theirs after it.

    None stands for memory that nobody has written; what the function leaves unwritten comes out as such. Sums of
    products are taken by matrix products where that is faster, in another order. Raises as `run`.
    """
    handlers = {**tensor.HANDLERS, **loop.HANDLERS, **tile.HANDLERS, **_HANDLERS}
    machine = Machine(handlers, precision, contracts=True, most_steps=most_steps)
    values: list[Value] = []
    for position, (type, given) in enumerate(zip(function.function_type.inputs, arguments, strict=True)):
        if given is None:
            values.append(_output(function, cast(MemRefType[Attribute], type), precision))
            continue
        value = _input(function, position, given.data, type, precision)
        if isinstance(value, PointBuffer) and given.initialised is not None:
            value.initialised = given.initialised.copy()
        values.append(value)
    with np.errstate(all="ignore"):
        _call(machine, function, values)
    return [BufferState(v.data, v.initialised) if isinstance(v, PointBuffer) else BufferState(v) for v in values]


def input_types(function: Function) -> list[Attribute]:
    """The types of the inputs that running a function takes: all arguments, without the `out` ones of a kernel.

    Raises UnsupportedError for a function whose values no array holds.
    """
    check_limits(function)
    types = list(function.function_type.inputs)
    if function.function_type.outputs.data:
        return types
    return [type for type, role in zip(types, argument_roles(function), strict=True) if role is not Role.OUT]


def _arguments(function: FuncOp, inputs: Sequence[Array], precision: Precision) -> list[Value]:
    wanted = input_types(function)
    if len(inputs) != len(wanted):
        names = ", ".join(str(type) for type in wanted)
        raise InvalidInputError(
            f"@{function.sym_name.data} takes {len(wanted)} inputs ({names}), got {len(inputs)} arrays"
        )
    kernel = not function.function_type.outputs.data
    given = iter(enumerate(inputs))
    arguments: list[Value] = []
    for type, role in zip(function.function_type.inputs, argument_roles(function), strict=True):
        if kernel and role is Role.OUT:
            arguments.append(_output(function, cast(MemRefType[Attribute], type), precision))
        else:
            arguments.append(_input(function, *next(given), type, precision))
    return arguments


def _output(function: FuncOp, type: MemRefType[Attribute], precision: Precision) -> PointBuffer:
    if not type.has_static_shape():
        raise UnsupportedError(f"@{function.sym_name.data}: the output {type} needs a static shape")
    return uninitialised(type.get_shape(), dtype_of(type.element_type, precision))


def _input(function: FuncOp, position: int, given: Array, type: Attribute, precision: Precision) -> Value:
    shape, element_type = (), type
    if isinstance(type, MemRefType | TensorType):
        shape, element_type = type.get_shape(), cast(MemRefType[Attribute] | TensorType[Attribute], type).element_type
    array, native = np.asarray(given), dtype_of(element_type)
    fits = array.ndim == len(shape) and all(want < 0 or want == n for want, n in zip(shape, array.shape, strict=True))
    if not fits or array.dtype not in (native, dtype_of(element_type, precision)):
        raise InvalidInputError(
            f"input {position} of @{function.sym_name.data} must be {type}, got {array.dtype}{list(array.shape)}"
        )
    array = np.array(array, dtype_of(element_type, precision), order="C")
    return PointBuffer(array, array.ndim) if isinstance(type, MemRefType) else array


def _call(machine: Machine, function: FuncOp, arguments: Sequence[Value]) -> list[Value]:
    """Run a function. What it leaves of an `out` argument unwritten counts as such."""
    if len(function.body.blocks) != 1:
        raise UnsupportedError(f"@{function.sym_name.data} has several blocks; the evaluators run functions of one")
    roles = argument_roles(function)
    outputs = [value for value, role in zip(arguments, roles, strict=True) if role is not Role.IN]
    for buffer, role in zip(arguments, roles, strict=True):
        if isinstance(buffer, PointBuffer) and role is Role.OUT:
            buffer.initialised = np.zeros(buffer.data.shape, np.bool_)
    if any(sum(value is other for other in arguments) > 1 for value in outputs):
        raise Error(f"@{function.sym_name.data}: an argument that it writes is passed twice; buffers must not overlap")
    machine.values.update(zip(function.args, arguments, strict=True))
    machine.run(function.body.block, Points())
    machine.end_writes()
    terminator = function.body.block.last_op
    assert terminator is not None
    results = [machine.values[value] for value in terminator.operands]
    for position, value in enumerate(results):
        _check_written(value, f"@{function.sym_name.data}: result {position}")
    return results


def _check_written(value: Value, what: str) -> None:
    if isinstance(value, PointBuffer) and value.initialised is not None and not value.initialised.all():
        where = element(value, int(value.initialised.reshape(-1).argmin()))
        raise Error(f"{what}: nobody writes element {where}; every element of an output needs one writer")


def _call_op(machine: Machine, op: CallOp, space: Points) -> None:
    function = callee(op)
    assert isinstance(function, FuncOp)
    arguments = [machine.values[value] for value in op.arguments]
    earlier = [(value, value.initialised) for value in arguments if isinstance(value, PointBuffer)]
    results = _call(machine, function, arguments)
    for buffer, initialised in earlier:
        held = buffer.initialised
        if initialised is not None and held is not None:
            # In place: the buffer of which this is a part knows by it, too.
            initialised |= held
        buffer.initialised = initialised if held is not None else None
    machine.values.update(zip(op.res, results, strict=True))


def _alloc(machine: Machine, op: AllocOp, space: Points) -> None:
    type = op.memref.type
    sizes = iter(machine.arrays(op.dynamic_sizes))
    shape = [int(next(sizes)) if n < 0 else n for n in type.get_shape()]
    machine.values[op.memref] = uninitialised(shape, machine.dtype(type.element_type))


def _recurrence(machine: Machine, op: RecurrenceOp, space: Points) -> None:
    cell = cell_of(op)
    carried, each, fixed = (machine.arrays(values) for values in (op.carried, op.each, op.fixed))
    sequences: list[list[Array]] = [[] for _ in carried]
    for step in range(op.steps):
        given = _call(machine, cell, [*carried, *(rows[step] for rows in each), *fixed])
        carried = [np.asarray(value) for value in given]
        for sequence, value in zip(sequences, carried, strict=True):
            sequence.append(value)
    machine.values.update(zip(op.outputs, map(np.stack, sequences), strict=True))


def _repeat(machine: Machine, op: RepeatOp, space: Points) -> None:
    for step in range(op.trips):
        machine.values[op.iv] = np.asarray(step)
        machine.run(op.body.block, space)


def _part(machine: Machine, op: PartOp, space: Points) -> None:
    buffer, shape = machine.buffer(op.source), memref_of(op.result).get_shape()
    start = op.start([int(index) for index in machine.arrays(op.indices)])
    data, initialised = (
        None if values is None else values.reshape(-1)[start : start + op.size].reshape(shape)
        for values in (buffer.data, buffer.initialised)
    )
    assert data is not None
    machine.values[op.result] = PointBuffer(data, len(shape), initialised)


def _kernel_launch(machine: Machine, op: KernelLaunchOp, space: Points) -> None:
    raise UnsupportedError(f"{op.name} {op.callee}: kernel level runs in the simulator, not in the evaluators")


def _torch(machine: Machine, op: Operation, space: Points) -> None:
    raise UnsupportedError(f"{op.name} is not evaluated: lower the torch level with the pass `decompose` first")


_HANDLERS: dict[type[Operation], Handler] = {
    CallOp: _call_op,
    AllocOp: _alloc,
    KernelLaunchOp: _kernel_launch,
    RecurrenceOp: _recurrence,
    RepeatOp: _repeat,
    PartOp: _part,
    **dict.fromkeys(ATEN_OPS.values(), _torch),
}
