"""store-low-parts: store what TF32 leaves of a factor, for the warpgroups that multiply it in parts.

                                               %x_low = tensor_ext.elementwise {math_ext.low_part} %x
                                                     {deplodock.fuse = "never"}
    %x_r = tensor_ext.index_map %x ..              %x_both = tensor_ext.elementwise
    %p = tensor_ext.elementwise %x_r, %w_r ..        {math_ext.with_low_part} %x, %x_low
      arith.mulf .. {deplodock.precision       ->  %x_r = tensor_ext.index_map %x_both ..
        = "high"}                                  %p = tensor_ext.elementwise %x_r, %w_r ..
    %y = tensor_ext.reduce {arith.addf} %p         %y = tensor_ext.reduce {arith.addf} %p

Products of warpgroups take their right factor from shared memory, so its low part must lie there, too. To store it
once takes the time of its bytes; and where another kernel computes the factor, that stores both. The left factor's
parts are computed by the threads that hold it. So the right factor is the one of which fewer bytes are moved, of those
that lie along k in memory. Few rows or columns are left to warps, which compute the parts of both factors, and so are
the scores of attention. What maps give, as heads side by side, is stored as it is read, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import has_feature, target_of
from deplodock.analysis.operations import operands_of, reached, users_of
from deplodock.analysis.shape.fusion import Index, compose, knows_low_part, new_loop
from deplodock.analysis.shape.streaming import folds, reassociates
from deplodock.dialects import math_ext
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.tma import BOX_UNIT_BYTES
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, ReduceOp, YieldOp, shape_of
from deplodock.passes.tensor.group import FUSE
from deplodock.schedule.choose.tensor_tiles import FEWEST_OUTPUTS, LINE_WORDS

MOST_SHARE = 0.5
"""The most of a product's time that storing a low part may take: without it, warps take twice as long."""

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
    known: dict[SSAValue, SSAValue] = {}
    sums = {op: product for op in block.ops if isinstance(op, ReduceOp) and (product := _product_of(op)) is not None}
    if not sums:
        return
    scores, shares = _scores(block), _shares(block)
    for op, product in sums.items():
        is_free = op not in scores and product not in shares
        if is_free and (right := _right_factor(product, Rates.of(target))) is not None:
            _know_low_part(right, known)


def _product_of(op: ReduceOp) -> ElementwiseOp | None:
    """The product of high precision that a reduction adds up along its last dimension; None for other reductions."""
    if len(op.inputs) != 1:
        return None
    (value,) = op.inputs
    product = value.owner
    if not isinstance(product, ElementwiseOp) or len(product.inputs) != 2 or not value.has_one_use():
        return None
    first, *rest = product.body.block.ops
    is_product = isinstance(first, arith.MulfOp) and precision_of(first) == HIGH and len(rest) == 1
    return product if is_product and op.reduced == (len(shape_of(value)) - 1,) else None


@dataclass(frozen=True)
class _Factor:
    """A factor of a product: what it is read from, through maps from the first to the last."""

    maps: tuple[IndexMapOp, ...]
    source: SSAValue

    @staticmethod
    def of(value: SSAValue) -> _Factor:
        """The factor that a value is."""
        maps: list[IndexMapOp] = []
        while isinstance(value.owner, IndexMapOp):
            maps.insert(0, value.owner)
            value = value.owner.source
        return _Factor(tuple(maps), value)

    @property
    def bytes(self) -> int:
        """What is moved to store the low part: it, and the factor, unless a kernel computes that."""
        return prod(shape_of(self.source)) * 4 * (1 if isinstance(self.source.owner, Operation) else 2)

    def along_k(self) -> _Factor | None:
        """The factor as it lies along k, the last dimension of the product, in memory, in rows that boxes take.

        That may be behind some of the maps, which a kernel then runs to store it so. None where it lies otherwise.
        """
        return next((part for part in (self, self._behind()) if part is not None and part._walks_k()), None)

    def _behind(self) -> _Factor | None:
        """The factor read from what all maps but the last give."""
        return _Factor(self.maps[-1:], self.maps[-1].source) if len(self.maps) > 1 else None

    def _walks_k(self) -> bool:
        shape = shape_of(self.source)
        if not self.maps or not shape or shape[-1] * 4 % BOX_UNIT_BYTES:
            return False
        index: Index = tuple(Linear.of(new_loop(extent).iv) for extent in shape_of(self.maps[-1].result))
        k = index[-1]
        for op in reversed(self.maps):
            index = compose(op.map.data, index)
        return index[-1] == k and not any(form.depends_on(root) for form in index[:-1] for root in k.roots())


def _scores(block: Block) -> set[Operation]:
    """Operations that give scores of a softmax whose shares weigh a further sum: attention, which warps compute.

    They are those before a largest value that leads to a product, up to the products before them.
    """

    def sources(one: Operation) -> list[Operation]:
        owners = [value.owner for value in operands_of(one)]
        values = [owner for owner in owners if isinstance(owner, ElementwiseOp | IndexMapOp | ReduceOp)]
        return [value for value in values if not _multiplies(value)]

    weighing = reached([op for op in block.ops if _multiplies(op)], sources)
    return reached([op for op in weighing if isinstance(op, ReduceOp) and folds(op, "maximumf")], sources)


def _shares(block: Block) -> set[Operation]:
    """Operations that take shares of a softmax, as products do that weigh values: attention, too."""

    def users(one: Operation) -> list[Operation]:
        return [user for user in users_of(one) if isinstance(user, ElementwiseOp | IndexMapOp)]

    return reached([op for op in block.ops if isinstance(op, ElementwiseOp) and _exponentiates(op)], users)


def _exponentiates(op: ElementwiseOp) -> bool:
    return any(isinstance(scalar, math.ExpOp) and reassociates(scalar) for scalar in op.body.block.ops)


def _multiplies(op: Operation) -> bool:
    """Whether an operation is a product of high precision."""
    scalars = op.body.block.ops if isinstance(op, ElementwiseOp) else ()
    return any(isinstance(scalar, arith.MulfOp) and precision_of(scalar) == HIGH for scalar in scalars)


def _right_factor(product: ElementwiseOp, rates: Rates) -> _Factor | None:
    """The factor whose low part is to be stored; None where warps are to multiply, or none lies along k."""
    *points, k = shape_of(product.outputs[0])
    factors = [_Factor.of(value) for value in product.inputs]
    sides = [_varies_along(factor, len(points)) for factor in factors]
    own = [prod(points[dim] for dim in sides[i] - sides[1 - i]) for i in range(2)]
    if min(own) < FEWEST_OUTPUTS or k <= LINE_WORDS:
        return None
    most = MOST_SHARE * prod(points) * k / (PARTS_SHARE * rates.instructions)
    found = [along for factor in factors if (along := factor.along_k()) is not None]
    cheap = [each for each in found if rates.moving_ns(each.bytes) < most]
    return min(cheap, key=lambda each: each.bytes, default=None)


def _varies_along(factor: _Factor, rank: int) -> set[int]:
    """The dimensions of the product, but k, along which a factor varies."""
    if not factor.maps:
        return set(range(rank))
    used = {dim for expr in factor.maps[-1].map.data.results for dim in expr.used_dims()}
    return used & set(range(rank))


def _know_low_part(factor: _Factor, known: dict[SSAValue, SSAValue]) -> None:
    """Let what reads a factor know its stored low part; `known` has the factors that do."""
    source, first = factor.source, factor.maps[0]
    if isinstance(source.owner, Operation) and knows_low_part(source.owner):
        return
    if source not in known:
        known[source] = _with_low_part(source, first)
    first.operands = [known[source]]


def _with_low_part(source: SSAValue, reader: IndexMapOp) -> SSAValue:
    """A value with its low part, which is stored; so is the value where maps give it."""
    place = InsertPoint.after(source.owner) if isinstance(source.owner, Operation) else InsertPoint.before(reader)
    ops: list[ElementwiseOp] = []
    if isinstance(source.owner, IndexMapOp):
        type = source.type
        body = Block(arg_types=[f32])
        low = math_ext.LowPartOp(body.args[0])
        body.add_ops([low, YieldOp(body.args[0], low.result)])
        ops.append(ElementwiseOp([source], [type, type], Region(body)))
        values = list[SSAValue](ops[0].outputs)
    else:
        ops.append(ElementwiseOp.of(math_ext.LowPartOp, source))
        values = [source, ops[0].outputs[0]]
    ops[0].attributes[FUSE] = StringAttr("never")
    ops.append(ElementwiseOp.of(math_ext.WithLowPartOp, *values))
    name = source.name_hint or "factor"
    values[0].name_hint, values[1].name_hint, ops[1].outputs[0].name_hint = name, f"{name}_low", name
    for op in ops:
        op.location = reader.location
    Rewriter.insert_op(ops, place)
    return ops[1].outputs[0]
