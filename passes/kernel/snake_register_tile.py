"""snake-register-tile: walk the register tile of a contraction in a snake, every second row backwards.

    loop.for %i = 0 to 4 unroll {            loop.for %i_2 = 0 to 2 unroll {
      loop.for %j = 0 to 8 unroll {            %i = loop.index [%i_2 * 2]
        %a = loop.load %x[%i] : ..             loop.for %j = 0 to 8 unroll { .. }
        %b = loop.load %w[%j] : ..             %i_1 = loop.index [%i_2 * 2 + 1]
        %c = loop.load %acc[%i, %j] : ..  ->   loop.for %j_1 = 0 to 8 unroll {
        %s = math.fma %a, %b, %c : f32           %j_2 = loop.index [%j_1 * -1 + 7]
        loop.store %s, %acc[%i, %j] : ..         ..
      }                                        }
    }                                        }

Neighbours in this order share a factor, also where the row changes, so that the hardware keeps it from one multiply-add
to the next and reads two registers, not three. Compiled for sm_90, a tile of 16 x 8 then loses 0.10 instead of 0.17
issue slots for each FFMA to register banks. Each accumulator takes the same products in the same order as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from deplodock.analysis.affine.linear import subscripts_of
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of


@dataclass(frozen=True)
class SnakeRegisterTilePass(ModulePass):
    """Walk the register tile of a contraction in a snake, every second row backwards."""

    name = "snake-register-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            for product in [op for op in function.body.walk() if isinstance(op, math.FmaOp)]:
                if (rows := _rows(product)) is not None:
                    _snake(*rows)


def _rows(product: math.FmaOp) -> tuple[loop.ForOp, list[loop.ForOp]] | None:
    """The innermost loop over rows around a multiply-add and the loops over columns; None where it is no such tile.

    The rows come in pairs, and all that the innermost loop writes is a register for each row and column.
    """
    nest = _nest(product)
    varying = [_loops_of(factor, nest) for factor in (product.a, product.b)]
    count = next((count for count in range(1, len(nest)) if _are_split(varying, nest[:count], nest[count:])), None)
    if count is None:
        return None
    row, columns = nest[count - 1], nest[count:]
    if row.trips is None or row.trips % 2 or not _is_accumulation(product, [op.iv for op in (row, *columns)]):
        return None
    return row, columns


def _is_accumulation(product: math.FmaOp, coordinates: Sequence[SSAValue]) -> bool:
    """Whether a block holds loads and one multiply-add to a register that the coordinates are subscripts of."""
    assert product.parent is not None
    others = [op for op in product.parent.ops if op is not product and not isinstance(op, loop.LoadOp)]
    if len(others) != 1 or not isinstance(store := others[0], loop.StoreOp):
        return False
    read = product.c.owner
    if not isinstance(read, loop.LoadOp) or memory_of(store.destination) is not Memory.REGISTER:
        return False
    is_same = read.source is store.destination and read.map == store.map and read.indices == store.indices
    subscripts = [form.terms for form in subscripts_of(store)]
    return is_same and store.value is product.result and all(((iv, 1),) in subscripts for iv in coordinates)


def _snake(row: loop.ForOp, columns: Sequence[loop.ForOp]) -> None:
    """Replace the loop over rows by one over pairs of rows, the second of each from the last column to the first."""
    assert row.trips is not None
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = row.iv.name_hint
    pairs = loop.ForOp(row.trips // 2, Region(body), unroll=True)
    for part in (0, 1):
        _append_row(body, row.iv, columns, part)
    Rewriter.replace_op(row, pairs)


def _append_row(body: Block, row: SSAValue, columns: Sequence[loop.ForOp], part: int) -> None:
    """Append one row of a pair, the second with its columns in reverse."""
    pair = AffineExpr.dimension(0) * 2 + part
    index = loop.IndexOp(AffineMap(1, 0, (pair,)), [body.args[0]])
    index.result.name_hint = row.name_hint
    copy = columns[0].clone({row: index.result})
    body.add_ops([index, copy])
    for column in _inner_loops(copy, len(columns)) if part else ():
        assert column.trips is not None
        mirror = loop.IndexOp(AffineMap(1, 0, (AffineExpr.dimension(0) * -1 + (column.trips - 1),)), [column.iv])
        mirror.result.name_hint = column.iv.name_hint
        column.iv.replace_all_uses_with(mirror.result)
        first = column.body.block.first_op
        assert first is not None
        column.body.block.insert_op_before(mirror, first)
        mirror.operands[0] = column.iv


def _nest(op: Operation) -> list[loop.ForOp]:
    """The unrolled loops around an operation that hold each other and nothing else, the outermost first."""
    found: list[loop.ForOp] = []
    around = op.parent_op()
    while isinstance(around, loop.ForOp) and around.unroll and around.trips is not None:
        if found and len(around.body.block.ops) > 1:
            break
        found.insert(0, around)
        around = around.parent_op()
    return found


def _inner_loops(outer: loop.ForOp, count: int) -> list[loop.ForOp]:
    """The `count` loops that hold each other from an outer one on."""
    found = [outer]
    while len(found) < count:
        inner = found[-1].body.block.first_op
        assert isinstance(inner, loop.ForOp)
        found.append(inner)
    return found


def _loops_of(factor: SSAValue, nest: Sequence[loop.ForOp]) -> list[loop.ForOp] | None:
    """The loops of a nest along which a factor read in its innermost varies, None for one that is computed there."""
    read = factor.owner
    if not isinstance(read, loop.LoadOp):
        return None
    roots = [root for form in subscripts_of(read) for root in form.roots()]
    return [op for op in nest if any(root is op.iv for root in roots)]


def _are_split(
    varying: Sequence[list[loop.ForOp] | None], rows: Sequence[loop.ForOp], columns: Sequence[loop.ForOp]
) -> bool:
    """Whether one factor varies along the rows only and the other along the columns only."""
    return any(
        of_row and of_column and all(op in rows for op in of_row) and all(op in columns for op in of_column)
        for of_row, of_column in (varying, reversed(varying))
    )
