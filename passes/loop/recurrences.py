"""How lower-to-loops makes steps of a recurrence: the calls of its cell are repeated, on the rows of buffers.

    %hs = tensor_ext.recurrence @cell from (%h) each (%x) with (%w) -> tensor<9x4xf32>
    ->
    %hs = memref.alloc() : memref<9x4xf32>
    func.call @k(%h, %x0, %w, %hs0)                   // of the first step: %x0 and %hs0 are the first rows
    loop.repeat %t = 0 to 8 {
      %before = loop.part %hs[%t]
      %row = loop.part %x[%t + 1]
      %after = loop.part %hs[%t + 1]
      func.call @k(%before, %row, %w, %after)
    }

Rows start at multiples of 16 bytes, as all buffers do: where they would not, they are padded in buffers between. What a
caller gives or gets is copied, so that only a program's own buffers have parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IndexType, MemRefType, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.dialects import loop
from deplodock.dialects.loop.folds import PART_BYTES
from deplodock.dialects.tensor import IndexMapOp, KernelOp, PadOp, RecurrenceOp, YieldOp, element_of, shape_of
from deplodock.passes.copying import Symbols
from deplodock.passes.remarks import failure


def align_rows(op: RecurrenceOp, names: Symbols) -> None:
    """Have a recurrence, whose operands are still tensors, take and give rows that are aligned, by kernels that copy.

    Its types need not fit those of its cell afterwards: aligned rows are flat.
    """
    steps = op.steps
    for value in dict.fromkeys(op.each):
        length = _padded_length(value)
        if length is not None or isinstance(value, BlockArgument):
            kernel = _copy(value, _flat_rows(shape_of(value), length), names)
            kernel.location = op.location
            Rewriter.insert_op(kernel, InsertPoint.before(op))
            for use in [use for use in value.uses if use.operation is op]:
                if len(op.carried) <= use.index < len(op.carried) + len(op.each):
                    op.operands[use.index] = kernel.outputs[0]
    for value in list(op.outputs):
        shape, length = shape_of(value), _padded_length(value)
        is_returned = any(isinstance(use.operation, func.ReturnOp) for use in value.uses)
        if length is None and not is_returned:
            continue
        if length is not None:
            value = Rewriter.replace_value_with_new_type(value, TensorType(element_of(value), (steps, length)))
        kernel = _copy(value, _shaped_rows(shape) if length is not None else _same(shape), names)
        kernel.location = op.location
        Rewriter.insert_op(kernel, InsertPoint.after(op))
        value.replace_uses_with_if(kernel.outputs[0], lambda use, kernel=kernel: use.operation is not kernel)


def lower_recurrence(op: RecurrenceOp, cell: func.FuncOp) -> None:
    """Replace a recurrence by the steps of its cell, a host function of buffers.

    Raises PassFailedException for a cell that gives a value twice, or one that it was given.
    """
    body = cell.body.block
    assert isinstance(body.last_op, func.ReturnOp)
    returned = list(body.last_op.operands)
    if len(set(returned)) < len(returned) or not all(isinstance(value.owner, memref.AllocOp) for value in returned):
        raise failure(op, f"each result of {op.cell} must be computed in it, and be another; copy it there")
    made: list[Operation] = []
    sequences = [_allocated(value, made) for value in op.outputs]
    mapping: dict[SSAValue, SSAValue] = {}
    for inner in body.ops:
        if isinstance(inner, memref.AllocOp) and inner.memref not in returned:
            made.append(inner.clone(mapping))
    rows = body.args[len(op.carried) : len(op.carried) + len(op.each)]
    fixed = body.args[len(op.carried) + len(op.each) :]
    mapping |= dict(zip(fixed, op.fixed, strict=True))

    def step(before: Sequence[SSAValue], at: AffineMap, indices: Sequence[SSAValue]) -> list[Operation]:
        """The operations of a step, which reads and writes the row `at` some indices."""
        parts: list[Operation] = []
        own = {**mapping, **dict(zip(body.args, before, strict=False))}
        for row, source in zip((*rows, *returned), (*op.each, *sequences), strict=True):
            parts.append(loop.PartOp(source, at, indices, _buffer(row.type)))
            parts[-1].results[0].name_hint = row.name_hint
            own[row] = parts[-1].results[0]
        inner = (inner for inner in body.ops if not isinstance(inner, memref.AllocOp | func.ReturnOp))
        return [*parts, *(one.clone(own) for one in inner)]

    made += step(list(op.carried), AffineMap(0, 0, (AffineExpr.constant(0),)), [])
    if op.steps > 1:
        block = Block(arg_types=[IndexType()])
        block.args[0].name_hint = "t"
        here = AffineMap(1, 0, (AffineExpr.dimension(0),))
        for value, sequence in zip(op.carried, sequences, strict=True):
            part = loop.PartOp(sequence, here, block.args, _buffer(value.type))
            part.result.name_hint = value.name_hint
            block.add_op(part)
        before = [part.results[0] for part in block.ops]
        block.add_ops(step(before, AffineMap(1, 0, (AffineExpr.dimension(0) + 1,)), block.args))
        made.append(loop.RepeatOp(op.steps - 1, Region(block)))
    for one in made:
        for inner in one.walk():
            inner.location = op.location
    Rewriter.replace_op(op, made, sequences)


def _allocated(value: SSAValue, made: list[Operation]) -> SSAValue:
    """A buffer for a tensor, whose allocation is appended."""
    alloc = memref.AllocOp([], [], _buffer(value.type))
    alloc.memref.name_hint = value.name_hint
    made.append(alloc)
    return alloc.memref


def _buffer(type: Attribute) -> MemRefType[Attribute]:
    """The buffer that holds a tensor, or what another buffer holds."""
    shaped = cast(TensorType[Attribute] | MemRefType[Attribute], type)
    return MemRefType(shaped.element_type, shaped.get_shape())


def _padded_length(value: SSAValue) -> int | None:
    """The elements of a padded row of a tensor; None where rows need no padding."""
    size, row = element_bytes(element_of(value)), prod(shape_of(value)[1:])
    length = -(-row * size // PART_BYTES) * PART_BYTES // size
    return None if length == row else length


def _same(shape: Sequence[int]) -> tuple[AffineMap, Sequence[int]]:
    return AffineMap.identity(len(shape)), shape


def _flat_rows(shape: Sequence[int], length: int | None) -> tuple[AffineMap, Sequence[int]]:
    """The map and the shape of rows that are flat, and padded to a length, if given."""
    if length is None:
        return _same(shape)
    step, place = AffineExpr.dimension(0), AffineExpr.dimension(1)
    sources: list[AffineExpr] = []
    for dim in range(1, len(shape)):
        inner = prod(shape[dim + 1 :])
        source = place // inner if inner > 1 else place
        # Behind the row the first of its subscripts is outside.
        sources.append(source % shape[dim] if dim > 1 else source)
    first = step if sources else step + place * shape[0]
    return AffineMap(2, 0, (first, *sources)), (shape[0], length)


def _shaped_rows(shape: Sequence[int]) -> tuple[AffineMap, Sequence[int]]:
    """The map and the shape of rows in several dimensions, of a tensor in which they are flat."""
    place: AffineExpr = AffineExpr.constant(0)
    for dim in range(1, len(shape)):
        place = place + AffineExpr.dimension(dim) * prod(shape[dim + 1 :])
    return AffineMap(len(shape), 0, (AffineExpr.dimension(0), place)), shape


def _copy(source: SSAValue, read: tuple[AffineMap, Sequence[int]], names: Symbols) -> KernelOp:
    """A kernel that reads a tensor through a map, with 0 outside of it."""
    body = Block(arg_types=[source.type])
    map, shape = read
    is_inside = prod(shape) <= prod(shape_of(source))
    op = (IndexMapOp if is_inside else PadOp)(body.args[0], map, shape)
    op.result.name_hint = body.args[0].name_hint = source.name_hint
    body.add_ops([op, YieldOp(op.result)])
    kernel = KernelOp(names.fresh("k_rows"), [source], [op.result.type], Region(body))
    kernel.outputs[0].name_hint = source.name_hint
    return kernel
