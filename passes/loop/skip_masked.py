"""skip-masked: leave out what a mask makes nothing of, in sums of products and in all that only they read.

    %sum = loop.reduce {arith.addf} %n = 0 to 2048 : f32 {        %sum = .. {
      %p = loop.load %probabilities[%q, %n] : ..                    loop.where %n < %q floordiv 128 * 128 + 128
      %v = loop.load %values[%n, %d] : ..                    ->     ..
      %product = arith.mulf %p, %v fastmath<nnan,nsz> : f32       }
      loop.yield %product : f32
    }

Here another kernel stored `exp(select(%n <= %q, %x, -inf) - max) / sum` as probabilities, which is 0 for `%n > %q`. The
product must say with `fastmath<nnan,nsz>` that 0 times a value is 0, NaN and infinities too (LLVM's condition for
`x * 0 -> 0`); the decomposition of attention does. Conditions are rounded up to multiples of 128, the largest tile of a
contraction, so that they never cut through a tile; those of a streaming reduction to multiples of 64, its rows. Of that
the first elements may be left out, too, as a window of positions does.

An element of a local buffer that no sum of products reads then is not stored, and where a loop only stores it, it is
not computed: the loops that store the probabilities and the scores get the same condition. So do the other reductions
of such a kernel, whose elements are identities of their combiners there. `passes/loop/masks.py` says what is known of a
value under a mask, and why rows of NaN stay NaN.

Elements that are not stored hold nothing. What crosses a condition may read them, as a slab of any shape, since they do
not count there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import (
    Linear,
    condition_of,
    equal,
    form_of,
    subscripts_of,
    to_map,
    to_sides,
)
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.nest import kernels
from deplodock.analysis.shape.streaming import streams
from deplodock.dialects import loop
from deplodock.passes.loop.buffers import Buffers
from deplodock.passes.loop.masks import Mask, Masks, over_subscripts
from deplodock.schedule.choose.sizes import STREAM_ROWS
from deplodock.schedule.choose.tiling import MASK_STEP


@dataclass(frozen=True)
class SkipMaskedPass(ModulePass):
    """Let masked points of sums of products be inactive, and all that only they read."""

    name = "skip-masked"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(inner, arith.CmpiOp) for inner in op.walk()):
            _Skipping(op).run()


class _Skipping:
    """The module, and what masks make of its values."""

    def __init__(self, module: ModuleOp) -> None:
        self.buffers = Buffers(module)
        self.masks = Masks(self.buffers)
        self.kernels = kernels(module)

    def run(self) -> None:
        """Add conditions to sums of products, then to what they read, until there are no more."""
        reductions = [op for kernel in self.kernels for op in kernel.walk() if isinstance(op, loop.ReduceOp)]
        stores = [op for kernel in self.kernels for op in kernel.walk() if isinstance(op, loop.StoreOp)]
        first = [op for op in reductions if isinstance(op.yielded[0].owner, arith.MulfOp) or streams(op)]
        changed = any([*map(self._skip_identities, first)])
        while changed:
            near = [op for op in reductions if any(isinstance(inner, loop.WhereOp) for inner in _kernel(op).walk())]
            changed = any([*map(self._skip_unread, stores), *map(self._skip_identities, near)])

    def _skip_identities(self, op: loop.ReduceOp) -> bool:
        """Leave out identities of a reduction's combiner. Returns whether that is new."""
        found = [(mask, _rounded(mask, op)) for mask in self.masks.masks(op.yielded[0], op.iv)]
        if streams(op):
            found += [(mask, _started(mask, op)) for mask in self.masks.starts(op.yielded[0], op.iv)]
        for mask, condition in found:
            is_left = condition is not None and self.masks.is_identity(op, mask)
            if condition is not None and is_left and _add(op.body.block, condition):
                return True
        return False

    def _skip_unread(self, store: loop.StoreOp) -> bool:
        """Leave out the elements of a store that no load reads. Returns whether that is new."""
        around = store.parent_op()
        if not isinstance(around, loop.ForOp) or sum(isinstance(op, loop.StoreOp) for op in around.walk()) > 1:
            return False
        if any(isinstance(op, loop.ScanOp) for op in around.walk()):
            return False  # What it scans counts for elements that are read.
        subscripts = subscripts_of(store)
        read = [list(_conditions(load)) for load in self.buffers.readers(store.destination)]
        for expr in read[0] if read else ():
            if all(expr in others for others in read):
                return _add(around.body.block, form_of(expr, (), subscripts))
        return False


def _kernel(op: Operation) -> Operation:
    """The function around an operation."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent.parent_op(), ModuleOp):
        parent = parent.parent_op()
    assert parent is not None
    return parent


def _rounded(mask: Mask, op: loop.ReduceOp) -> Linear | None:
    """The condition that leaves out most of what a mask does; None where it leaves nothing out, or all of a row.

    A mask counts the elements `n` up to `last`, which varies along outer loops: n < last floordiv 128 * 128 + 128.
    """
    along = Linear.of(mask.along)
    last = along - mask.form - 1
    bounds = last.range()
    if op.trips is None or bounds is None or bounds[0] < 0 or any(op.is_ancestor(root.owner) for root in last.roots()):
        return None
    step = STREAM_ROWS if streams(op) else MASK_STEP
    end = last // step * step + step
    least = end.range()
    return along - end if least is not None and least[0] < op.trips else None


def _started(mask: Mask, op: loop.ReduceOp) -> Linear | None:
    """The condition that leaves out most of the first elements of a row that a mask hides, in the rows of most hidden.

    A mask counts the elements `n` from `first` on: first floordiv 64 * 64 < n + 1. None where a row has fewer than half
    of its elements hidden, as all rows then take as many steps as the longest one.
    """
    along = Linear.of(mask.along)
    first = mask.form + along + 1
    bounds = first.range()
    if op.trips is None or bounds is None or any(op.is_ancestor(root.owner) for root in first.roots()):
        return None
    start = first // STREAM_ROWS * STREAM_ROWS
    return start - along - 1 if 2 * bounds[1] >= op.trips else None


def _conditions(load: loop.LoadOp) -> Iterator[AffineExpr]:
    """The conditions under which a load counts, over its subscripts.

    Those of a streaming reduction do not count: its steps may be longer than what they are rounded up to, and the
    weight 0 of an element that holds nothing, as NaN, would be multiplied with it.
    """
    subscripts, parent = subscripts_of(load), load.parent_op()
    while isinstance(parent, loop.LoopLike):
        is_whole = isinstance(parent, loop.ReduceOp) and streams(parent)
        conditions = () if is_whole else map(condition_of, wheres(parent.body.block))
        exprs = (over_subscripts(condition, subscripts) for condition in conditions)
        yield from (expr for expr in exprs if expr is not None)
        parent = parent.parent_op()


def _add(block: Block, condition: Linear) -> bool:
    """Put a condition at the start of a loop's body, unless it is there. Returns whether it was not."""
    if any(equal(condition_of(where), condition) for where in wheres(block)):
        return False
    map, operands = to_map(to_sides([condition]))
    Rewriter.insert_op(loop.WhereOp(map, operands), InsertPoint.at_start(block))
    return True
