"""The meaning of the `tensor_ext` dialect: a tensor is a numpy array of its shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Operation

from deplodock.dialects import tensor
from deplodock.dialects.tensor import element_of, shape_of, tensor_of
from deplodock.errors import UnsupportedError
from deplodock.interpreters.evaluate.machine import Handler, Machine, PointBuffer, Points
from deplodock.interpreters.evaluate.scan import tensor_scan
from deplodock.interpreters.values import Array


def _constant(machine: Machine, op: ConstantOp, space: Points) -> None:
    if not isinstance(op.result.type, TensorType):
        machine.scalar(op)
        return
    if not isinstance(op.value, DenseIntOrFPElementsAttr):
        raise UnsupportedError(f"a tensor constant is written `dense<..>`, not {op.value}")
    type = tensor_of(op.result)
    values = cast(DenseIntOrFPElementsAttr[Any], op.value).get_values()
    data = np.asarray(values).astype(machine.dtype(type.element_type))
    shape = type.get_shape()
    machine.values[op.result] = np.broadcast_to(data[0], shape) if len(values) == 1 else data.reshape(shape)


def _elementwise(machine: Machine, op: tensor.ElementwiseOp, space: Points) -> None:
    results = machine.region(op.body, machine.arrays(op.inputs))
    for value, result in zip(op.outputs, results, strict=True):
        machine.values[value] = np.broadcast_to(result, shape_of(value))


def _reduce(machine: Machine, op: tensor.ReduceOp, space: Points) -> None:
    identities = machine.identities(op.identities, map(element_of, op.outputs))
    shape = shape_of(op.outputs[0])
    values = [np.moveaxis(value, op.reduced, range(len(op.reduced))) for value in machine.arrays(op.inputs)]
    count = math.prod(values[0].shape[: len(op.reduced)])
    folded = machine.fold(op.combiner, identities, [value.reshape(count, *shape) for value in values])
    for value, result in zip(op.outputs, folded, strict=True):
        machine.values[value] = np.broadcast_to(result, shape)


def _read(machine: Machine, op: tensor.IndexMapOp | tensor.GatherOp | tensor.PadOp, indices: Sequence[Array]) -> None:
    """Read the source through the map, whose symbols are `indices`; a pad gives 0 outside."""
    source, shape = machine.array(op.source), shape_of(op.result)
    buffer = PointBuffer(np.array(source, order="C", copy=None), source.ndim)
    if 0 in shape:
        machine.values[op.result] = np.empty(shape, source.dtype)
        return
    dims = [_coordinate(shape, dim) for dim in range(len(shape))]
    subscripts = machine.affine(op.map.data, dims, indices)
    machine.values[op.result] = np.broadcast_to(
        machine.load(op, buffer, subscripts, Points(), padded=isinstance(op, tensor.PadOp)), shape
    )


def _coordinate(shape: Sequence[int], dim: int) -> Array:
    return np.arange(shape[dim]).reshape(-1, *(1,) * (len(shape) - 1 - dim))


def _index_map(machine: Machine, op: tensor.IndexMapOp, space: Points) -> None:
    _read(machine, op, [])


def _gather(machine: Machine, op: tensor.GatherOp, space: Points) -> None:
    _read(machine, op, [index.astype(np.int64) for index in machine.arrays(op.indices)])


def _pad(machine: Machine, op: tensor.PadOp, space: Points) -> None:
    _read(machine, op, [])


def _iota(machine: Machine, op: tensor.IotaOp, space: Points) -> None:
    type = tensor_of(op.result)
    coordinate = _coordinate(type.get_shape(), op.dim.value.data).astype(machine.dtype(type.element_type))
    machine.values[op.result] = np.broadcast_to(coordinate, type.get_shape())


def _concat(machine: Machine, op: tensor.ConcatOp, space: Points) -> None:
    machine.values[op.result] = np.concatenate(machine.arrays(op.inputs), axis=op.dim.value.data)


def _kernel(machine: Machine, op: tensor.KernelOp, space: Points) -> None:
    block = op.body.block
    machine.values.update(zip(block.args, machine.arrays(op.inputs), strict=True))
    machine.run(block, space)
    assert block.last_op is not None
    machine.values.update(zip(op.outputs, machine.arrays(block.last_op.operands), strict=True))


HANDLERS: dict[type[Operation], Handler] = {
    ConstantOp: _constant,
    tensor.ElementwiseOp: _elementwise,
    tensor.ReduceOp: _reduce,
    tensor.ScanOp: tensor_scan,
    tensor.IndexMapOp: _index_map,
    tensor.IotaOp: _iota,
    tensor.GatherOp: _gather,
    tensor.PadOp: _pad,
    tensor.ConcatOp: _concat,
    tensor.KernelOp: _kernel,
}
