"""store-low-parts: store what TF32 leaves of a factor, for the warpgroups that multiply it in parts.

    %x_r = tensor_ext.index_map %x ..              %x_low = tensor_ext.elementwise {math_ext.low_part} %x
    %w_r = tensor_ext.index_map %w ..                {deplodock.fuse = "never"}
    %p = tensor_ext.elementwise %x_r, %w_r ..      %x_r = tensor_ext.index_map %x ..
      arith.mulf .. {deplodock.precision       ->  %x_low_r = tensor_ext.index_map %x_low ..
        = "high"}                                  %w_r = tensor_ext.index_map %w ..
    %y = tensor_ext.reduce {arith.addf} %p         %p = tensor_ext.elementwise %x_r, %w_r, %x_low_r ..
                                                     math_ext.with_low_part .. arith.mulf ..
                                                   %y = tensor_ext.reduce {arith.addf} %p

Products of warpgroups take their right factor from shared memory, so its low part must lie there, too. To store it once
takes the time of its bytes, less than a tenth of a product's; and where another kernel computes the factor, that stores
both. The left factor's parts are computed by the threads that hold it. So the right factor is the one of fewer elements,
of those that lie along k in memory. Few rows or columns are left to warps, which compute the parts of both factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import has_feature, target_of
from deplodock.analysis.operations import reached, users_of
from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.shape.fusion_index import Index, compose, new_loop
from deplodock.analysis.shape.streaming import folds
from deplodock.dialects import math_ext
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.tma import UNIT_BYTES
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, ReduceOp, YieldOp, shape_of
from deplodock.passes.tensor.group import FUSE
from deplodock.schedule.choose.tensor_tiles import FEWEST_OUTPUTS, LINE_WORDS


MOST_SHARE = 0.15
"""The most of a product's time that storing a low part may take."""

PARTS_SHARE = 1.8
"""Products in parts of warpgroups, for each of the FP32 units: 120 TFLOPS of 67 on an H200."""


@dataclass(frozen=True)
class StoreLowPartsPass(ModulePass):
    """Store the low part of a factor that warpgroups multiply in parts."""

    name = "store-low-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        if not (has_feature(target, Feature.WARPGROUPS) and has_feature(target, Feature.BOXES)):
            return
        for function in op.walk():
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                _store_in(function.body.block, target)


def _store_in(block: Block, target: TargetAttr) -> None:
    """Store the low parts of factors of a block, each once."""
    low: dict[SSAValue, SSAValue] = {}
    for op in list(block.ops):
        if isinstance(op, ReduceOp) and (product := _product_of(op)) is not None:
            if not _gives_scores(op) and (right := _right_factor(product, Rates.of(target))) is not None:
                _give_low_part(product, right, low)


def _product_of(op: ReduceOp) -> ElementwiseOp | None:
    """The product of high precision that a reduction adds up along its last dimension; None for other reductions."""
    (value,) = op.inputs if len(op.inputs) == 1 else (None,)
    product = value.owner if value is not None else None
    if not isinstance(product, ElementwiseOp) or len(product.inputs) != 2 or not value.has_one_use():
        return None
    first, *rest = product.body.block.ops
    is_product = isinstance(first, arith.MulfOp) and precision_of(first) == HIGH and len(rest) == 1
    return product if is_product and op.reduced == (len(shape_of(value)) - 1,) else None


@dataclass(frozen=True)
class _Factor:
    """A factor of a product: what it is read from, through maps from the first to the last."""

    place: int
    maps: tuple[IndexMapOp, ...]
    source: SSAValue

    @staticmethod
    def of(product: ElementwiseOp, place: int) -> _Factor:
        """The factor at a place among the operands."""
        maps: list[IndexMapOp] = []
        value = product.inputs[place]
        while isinstance(value.owner, IndexMapOp):
            maps.insert(0, value.owner)
            value = value.owner.source
        return _Factor(place, tuple(maps), value)

    @property
    def bytes(self) -> int:
        """What is moved to store the low part: it, and the factor, unless a kernel computes that."""
        return prod(shape_of(self.source)) * 4 * (1 if isinstance(self.source.owner, Operation) else 2)

    def lies_along_k(self) -> bool:
        """Whether k, the last dimension of the product, walks neighbours in memory, in whole lines of rows for boxes."""
        shape = shape_of(self.source)
        if not self.maps or not shape or shape[-1] * 4 % UNIT_BYTES:
            return False
        index: Index = tuple(Linear.of(new_loop(extent).iv) for extent in shape_of(self.maps[-1].result))
        k = index[-1]
        for op in reversed(self.maps):
            index = compose(op.map.data, index)
        return index[-1] == k or (shape[-1] % LINE_WORDS == 0 and index[-1] == k % shape[-1])


def _gives_scores(op: ReduceOp) -> bool:
    """Whether sums are scores of a softmax whose shares weigh a further sum: attention, which warps compute at once."""

    def users(one: Operation) -> list[Operation]:
        return [user for user in users_of(one) if isinstance(user, ElementwiseOp | IndexMapOp | ReduceOp)]

    behind = reached([op], users)
    maxima = [one for one in behind if isinstance(one, ReduceOp) and folds(one, "maximumf")]
    products = [one for one in behind if isinstance(one, ReduceOp) and one is not op and _product_of(one) is not None]
    return bool(maxima and products) and any(one in reached(maxima, users) for one in products)


def _right_factor(product: ElementwiseOp, rates: Rates) -> _Factor | None:
    """The factor whose low part is to be stored; None where warps are to multiply, or none lies along k."""
    *points, k = shape_of(product.outputs[0])
    factors = [_Factor.of(product, place) for place in range(2)]
    sides = [_varies_along(factor, len(points)) for factor in factors]
    own = [prod(points[dim] for dim in sides[i] - sides[1 - i]) for i in range(2)]
    if min(own) < FEWEST_OUTPUTS or k < LINE_WORDS:
        return None
    most = MOST_SHARE * prod(points) * k / (PARTS_SHARE * rates.instructions)
    found = [factor for factor in factors if factor.lies_along_k() and rates.moving_ns(factor.bytes) < most]
    return min(found, key=lambda factor: factor.bytes, default=None)


def _varies_along(factor: _Factor, rank: int) -> set[int]:
    """The dimensions of the product, but k, along which a factor varies."""
    if not factor.maps:
        return set(range(rank))
    used = {dim for expr in factor.maps[-1].map.data.results for dim in expr.used_dims()}
    return used & set(range(rank))


def _give_low_part(product: ElementwiseOp, right: _Factor, low: dict[SSAValue, SSAValue]) -> None:
    """Let a product know the stored low part of a factor; `low` has those that are stored already."""
    source = right.source
    if source not in low:
        part = ElementwiseOp.of(math_ext.LowPartOp, source)
        part.attributes[FUSE] = StringAttr("never")
        part.location = product.location
        part.outputs[0].name_hint = f"{source.name_hint or 'factor'}_low"
        place = InsertPoint.after(source.owner) if isinstance(source.owner, Operation) else None
        Rewriter.insert_op(part, place or InsertPoint.at_start(product.parent_block() or Block()))
        low[source] = part.outputs[0]
    value = low[source]
    for op in right.maps:
        read = IndexMapOp(value, op.map.data, shape_of(op.result))
        read.location, read.result.name_hint = op.location, f"{op.result.name_hint}_low"
        Rewriter.insert_op(read, InsertPoint.before(product))
        value = read.result
    scalars = product.body.block
    known = scalars.insert_arg(f32, len(scalars.args))
    both = math_ext.WithLowPartOp(scalars.args[right.place], known)
    both.location = product.location
    multiply = scalars.first_op
    assert multiply is not None
    Rewriter.insert_op(both, InsertPoint.before(multiply))
    multiply.operands[right.place if multiply.operands[right.place] is both.value else 1 - right.place] = both.result
    product.operands = [*product.operands, value]
