"""Kernels that apply scalar operations of the printer's table to elements of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.context import Context
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS, IndexCastOp, SelectOp
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation

from deplodock.codegen.scalars import Signature
from deplodock.dialects.elements import ELEMENTS
from deplodock.dialects.kernel import FuncOp
from deplodock.dialects.loop import LoadOp, StoreOp

TYPES: dict[str, Attribute] = {str(type): type for type in (*ELEMENTS, IndexType())}


def op_class(context: Context, key: Signature) -> type[IRDLOperation]:
    """The class of the operation of a row of the table."""
    return cast(type[IRDLOperation], context.get_op(key.op))


def operand_types(context: Context, key: Signature) -> list[Attribute]:
    """The types of the operands of a row."""
    cls = op_class(context, key)
    types = [TYPES[key.operand]] * len(cls.get_irdl_definition().operands)
    return [i1, *types[1:]] if cls is SelectOp else types


def scalar_kernel(context: Context, keys: Sequence[Signature], name: str, blocks: int = 1, threads: int = 32) -> FuncOp:
    """A kernel whose threads each apply every operation to elements of its arguments, and store the results.

    The parameters are the operands of each row, in order, and its result: buffers of blocks * threads elements.
    """
    memory = [
        MemRefType(_stored(type), [blocks * threads])
        for key in keys
        for type in (*operand_types(context, key), TYPES[key.result])
    ]
    block = Block(arg_types=[*memory, IndexType(), IndexType()])
    parameters = iter(block.args[:-2])
    at = AffineMap(2, 0, (AffineExpr.dimension(0) * threads + AffineExpr.dimension(1),))
    ids = list(block.args[-2:])
    for key in keys:
        operands = [_read(block, next(parameters), type, at, ids) for type in operand_types(context, key)]
        cls = op_class(context, key)
        op = cls.create(operands=operands, result_types=[TYPES[key.result]], properties=_properties(cls, key))
        block.add_op(op)
        _write(block, op.results[0], next(parameters), at, ids)
    return FuncOp(name, memory, blocks, threads, Region(block))


def _properties(cls: type[IRDLOperation], key: Signature) -> dict[str, Attribute]:
    definitions = cls.get_irdl_definition().properties.items()
    values = {name: d.default_value for name, d in definitions if d.default_value is not None}
    if key.predicate:
        predicates = CMPF_COMPARISON_OPERATIONS if key.op == "arith.cmpf" else CMPI_COMPARISON_OPERATIONS
        values["predicate"] = IntegerAttr(list(predicates).index(key.predicate), 64)
    return values


def _stored(type: Attribute) -> Attribute:
    return i64 if isinstance(type, IndexType) else type


def _read(block: Block, parameter: SSAValue, type: Attribute, at: AffineMap, ids: Sequence[SSAValue]) -> SSAValue:
    load: Operation = LoadOp(parameter, at, ids)
    block.add_op(load)
    if isinstance(type, IndexType):
        load = IndexCastOp(load.results[0], type)
        block.add_op(load)
    return load.results[0]


def _write(block: Block, value: SSAValue, out: SSAValue, at: AffineMap, ids: Sequence[SSAValue]) -> None:
    if isinstance(value.type, IndexType):
        cast_op = IndexCastOp(value, i64)
        block.add_op(cast_op)
        value = cast_op.result
    block.add_op(StoreOp(value, out, at, ids))
