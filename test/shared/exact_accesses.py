"""The accesses of global memory of a thread, from the kernel IR by exact integers: what the printed text must do.

A kernel becomes a Python generator. It computes what subscripts, bounds and conditions depend on and nothing else, by
Python's integers; what it loads is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from deplodock.analysis.access.alignment import element_bytes
from deplodock.dialects import kernel, loop
from deplodock.dialects.kernel.shuffle import Shuffle
from deplodock.dialects.tile import memory_of
from deplodock.interpreters.scalars import evaluate_scalar

Access = tuple[int, int, int, bool]
"""The position of a buffer among the kernel's parameters, the first byte, how many, and whether they are stored."""

_OPERATORS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.FloorDiv: "//",
    AffineBinaryOpKind.Mod: "%",
}


def exact_accesses(function: kernel.FuncOp, block: int, thread: int) -> list[Access]:
    """The accesses of a thread that runs alone, in order; a box counts with no bytes at its corner."""
    return list(_compiled(function)(block, thread))


_known: dict[kernel.FuncOp, Callable[[int, int], Iterator[Access]]] = {}


def _compiled(function: kernel.FuncOp) -> Callable[[int, int], Iterator[Access]]:
    if function not in _known:
        writer = _Writer(function)
        scope: dict[str, object] = {"evaluate": _evaluate, "ops": writer.ops}
        exec("\n".join(writer.lines), scope)
        _known[function] = cast(Callable[[int, int], Iterator[Access]], scope["run"])
    return _known[function]


def _evaluate(op: Operation, values: Sequence[object]) -> object:
    with np.errstate(all="ignore"):
        return evaluate_scalar(op, [np.asarray(value) for value in values])[()]


class _Writer:
    """Writes a kernel as Python."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self.lines = ["def run(block, thread):"]
        self.ops: list[Operation] = []
        self._names: dict[SSAValue, str] = {function.block_id: "block", function.thread_id: "thread"}
        self._parameters = list(function.parameters)
        self._maps = {value: number for number, value in enumerate(self._parameters)}
        self._needed = _needed(function)
        self._write(function.body.block, 1)
        self.lines.append("    yield from ()")

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _write(self, block: Block, depth: int) -> None:
        start = len(self.lines)
        for op in block.ops:
            self._op(op, depth)
        if len(self.lines) == start:
            self._line(depth, "pass")

    def _op(self, op: Operation, depth: int) -> None:
        match op:
            case loop.ForOp():
                bounds = self._map(op.bound.data, op.bound_operands)
                end = bounds[0] if len(bounds) == 1 else f"min({', '.join(bounds)})"
                self._line(depth, f"for {self._name(op.iv)} in range({end}):")
                self._write(op.body.block, depth + 1)
            case loop.GuardOp():
                self._line(depth, f"if {self._conditions(op.conditions.data, op.indices)}:")
                self._write(op.body.block, depth + 1)
            case loop.IndexOp():
                self._line(depth, f"{self._name(op.result)} = {self._map(op.map.data, op.indices)[0]}")
            case loop.InsideOp():
                self._line(depth, f"{self._name(op.result)} = {self._conditions(op.conditions.data, op.indices)}")
            case loop.LoadOp():
                self._access(depth, op.source, op.map.data, op.indices, 1, is_store=False)
                self._line(depth, f"{self._name(op.result)} = 0")
            case loop.StoreOp():
                self._access(depth, op.destination, op.map.data, op.indices, 1, is_store=True)
            case kernel.MoveOp():
                self._move(op, depth)
            case kernel.TmaLoadOp() | kernel.TmaStoreOp():
                is_store = isinstance(op, kernel.TmaStoreOp)
                map = op.destination_map if is_store else op.source_map
                corner = self._map(map.data, op.destination_indices if is_store else op.source_indices)
                source = op.tensor_map.source
                place = " + ".join(f"({at}) * {row}" for at, row in zip(corner, _rows(source.get_shape()), strict=True))
                bytes = element_bytes(source.element_type)
                self._line(depth, f"yield ({self._maps[op.map]}, ({place}) * {bytes}, 0, {is_store})")
            case arith.ConstantOp():
                number = op.value.value.data if isinstance(op.value, IntegerAttr) else 0
                self._line(depth, f"{self._name(op.result)} = {number}")
            case Shuffle():
                self._line(depth, f"{self._name(op.result)} = {self._name(op.value)}")
            case kernel.TicketOp():  # The first thread counts for all, and one that runs alone meets no other.
                (ctas,) = self._map(op.ctas.data, op.cta_indices)
                self._line(depth, f"{self._name(op.result)} = int({ctas} == 1 and thread == 0)")
            case _ if op.results and op.results[0] in self._needed and op.operands:
                self.ops.append(op)
                operands = ", ".join(self._name(value) for value in op.operands)
                self._line(depth, f"{self._name(op.results[0])} = evaluate(ops[{len(self.ops) - 1}], [{operands}])")
            case _ if op.results:
                self._line(depth, f"{self._name(op.results[0])} = 0")
            case _:
                pass

    def _move(self, op: kernel.MoveOp, depth: int) -> None:
        inner = depth
        if op.where is not None:
            self._line(depth, f"if {self._conditions(op.where.data, op.where_indices)}:")
            self._line(depth + 1, "pass")
            inner += 1
        self._access(inner, op.source, op.source_map.data, op.source_indices, op.elements, is_store=False)
        self._access(depth, op.destination, op.destination_map.data, op.destination_indices, op.elements, is_store=True)

    def _access(
        self, depth: int, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue], width: int, *, is_store: bool
    ) -> None:
        if memory_of(buffer) is not None:
            return
        type = loop.memref_of(buffer)
        subscripts = self._map(map, indices)
        place = " + ".join(f"({at}) * {row}" for at, row in zip(subscripts, _rows(type.get_shape()), strict=True))
        bytes = element_bytes(type.element_type)
        number = self._parameters.index(buffer)
        self._line(depth, f"yield ({number}, ({place or 0}) * {bytes}, {width * bytes}, {is_store})")

    def _map(self, map: AffineMap, operands: Sequence[SSAValue]) -> list[str]:
        names = [f"int({self._name(value)})" for value in operands]
        return [_expression(result, names, map.num_dims) for result in map.results]

    def _conditions(self, map: AffineMap, operands: Sequence[SSAValue]) -> str:
        sides = self._map(map, operands)
        return " and ".join(f"{lhs} < {rhs}" for lhs, rhs in zip(sides[::2], sides[1::2], strict=True)) or "True"

    def _name(self, value: SSAValue) -> str:
        return self._names.setdefault(value, f"v{len(self._names)}")


def _expression(expression: AffineExpr, names: Sequence[str], dims: int) -> str:
    match expression:
        case AffineConstantExpr():
            return f"({expression.value})"
        case AffineDimExpr():
            return names[expression.position]
        case AffineSymExpr():
            return names[dims + expression.position]
        case AffineBinaryOpExpr():
            lhs, rhs = (_expression(side, names, dims) for side in (expression.lhs, expression.rhs))
            return f"({lhs} {_OPERATORS[expression.kind]} {rhs})"
        case _:
            raise TypeError(f"{expression} is no affine expression")


def _rows(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous buffer, in elements."""
    rows = [1]
    for extent in list(shape)[:0:-1]:
        rows.insert(0, rows[0] * extent)
    return rows[: len(shape)]


def _needed(function: kernel.FuncOp) -> set[SSAValue]:
    """The values that subscripts, bounds and conditions depend on, through scalar operations."""
    pending = [value for op in function.body.walk() for value in op.operands if isinstance(value.type, IndexType)]
    found: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        if isinstance(value.owner, Operation) and not isinstance(value.owner, loop.LoadOp):
            pending += value.owner.operands
    return found
