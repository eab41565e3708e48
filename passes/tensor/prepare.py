"""Rewrites before fusion, after which more operations can share a kernel.

* A gather from an index map reads through both maps at once.
* A pad of a tensor whose dimensions an index map puts in another order is one of the tensor itself, and one of a cast
  to a wider type becomes a cast of a pad: the tensor is there, and fewer bytes are read.
* A gather from a tensor whose elements are equal is an index map of it: its index tensors say nothing.
* A concat of concats along one dimension is one concat.
* An elementwise operation on a concat becomes a concat of elementwise operations on its parts: a concat is stored, and
  what is done to it then happens on the way to memory. (A rotation of pairs of halves is computed in one kernel.)
* A concat of casts to a wider type becomes a cast of a concat: fewer bytes are stored and read.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from deplodock.analysis.shape.fusion import splat_of, widens
from deplodock.dialects.tensor import ConcatOp, ElementwiseOp, GatherOp, IndexMapOp, PadOp, element_of, shape_of

MAX_PARTS = 4
"""The most parts of a concat for which operations are repeated."""


def prepare(block: Block) -> None:
    """Rewrite the tensor operations of a block in place; what nobody needs any more stays."""
    for op in list(block.ops):
        match op:
            case GatherOp():
                _fold_maps(op)
            case PadOp():
                _pad_source(op)
            case ConcatOp() if not op.attributes:
                _flatten(op)
            case ElementwiseOp() if not op.attributes and (concat := _sinkable(op)) is not None:
                _sink(op, concat)
            case _:
                pass
    for op in list(block.ops):
        if isinstance(op, ConcatOp) and not op.attributes:
            _widen_behind(op)


def _fold_maps(op: GatherOp) -> None:
    """`gather(index_map(x, f), g)` is `gather(x, f . g)`, and if all of `x` is one number, reads its first element."""
    source, map = op.source, op.map.data
    while isinstance(source.owner, IndexMapOp):
        outer = source.owner.map.data
        exprs = tuple(expr.replace_dims_and_symbols(map.results, ()) for expr in outer.results)
        source, map = source.owner.source, AffineMap(map.num_dims, map.num_symbols, exprs)
    folded: GatherOp | IndexMapOp
    if isinstance(source.owner, arith.ConstantOp) and splat_of(source.owner) is not None:
        first = AffineMap(map.num_dims, 0, tuple(AffineExpr.constant(0) for _ in map.results))
        folded = IndexMapOp(source, first, shape_of(op.result))
    elif source is not op.source:
        folded = GatherOp(source, op.indices, map)
    else:
        return
    folded.attributes |= op.attributes
    _replace(op, [folded], [folded.result])


def _pad_source(op: PadOp) -> None:
    """`pad(index_map(x, f), g)` is `pad(x, f . g)` if f is an order of dimensions, `pad(cast(x))` is `cast(pad(x))`."""
    source, map, casts = op.source, op.map.data, list[ElementwiseOp]()
    while True:
        match source.owner:
            case IndexMapOp() as outer if (read := _reordered(outer, map, shape_of(op.result))) is not None:
                source, map = outer.source, read
            case ElementwiseOp() as cast if widens(cast) and not cast.attributes:
                source, casts = cast.inputs[0], [*casts, cast]
            case _:
                break
    if source is op.source:
        return
    made: list[PadOp | ElementwiseOp] = [PadOp(source, map, shape_of(op.result))]
    made[0].attributes |= op.attributes
    for cast in reversed(casts):
        type = TensorType(element_of(cast.outputs[0]), shape_of(op.result))
        made.append(ElementwiseOp([made[-1].results[0]], [type], cast.body.clone()))
    _replace(op, made, [made[-1].results[0]])


def _reordered(op: IndexMapOp, map: AffineMap, padded: Sequence[int]) -> AffineMap | None:
    """Where a pad by a map to a shape reads the source of an index map; None if that does more than order dimensions.

    It may also leave out dimensions of one, and add some. An index into those is not 0 where the pad reads nothing, so
    it becomes one into a dimension that was left out.
    """
    given, wanted, dims = shape_of(op.source), shape_of(op.result), list[int]()
    for expr, extent in zip(op.map.data.results, given, strict=True):
        match expr:
            case AffineDimExpr(position) if wanted[position] == extent:
                dims.append(position)
            case AffineConstantExpr(0) if extent == 1:
                pass
            case _:
                return None
    added = [dim for dim in range(len(wanted)) if dim not in dims]
    if len(set(dims)) < len(dims) or any(wanted[dim] != 1 for dim in added):
        return None
    ones = [AffineExpr.dimension(dim) for dim, extent in enumerate(padded) if extent == 1]
    rest = [expr for dim in added if (expr := map.results[dim]) not in (AffineExpr.constant(0), *ones)]
    exprs = [
        map.results[expr.position] if isinstance(expr, AffineDimExpr) else rest.pop(0) if rest else expr
        for expr in op.map.data.results
    ]
    return None if rest else AffineMap(map.num_dims, 0, tuple(exprs))


def _flatten(op: ConcatOp) -> None:
    """`concat(concat(a, b), c)` is `concat(a, b, c)` where no other operation reads the inner one."""
    inputs: list[SSAValue] = []
    for value in op.inputs:
        inner = value.owner
        alone = all(isinstance(use.operation, ConcatOp) for use in value.uses)
        if alone and isinstance(inner, ConcatOp) and inner.dim == op.dim and not inner.attributes:
            inputs += inner.inputs
        else:
            inputs.append(value)
    if len(inputs) > len(op.inputs):
        flattened = ConcatOp(inputs, op.dim.value.data)
        _replace(op, [flattened], [flattened.result])


def _sinkable(op: ElementwiseOp) -> ConcatOp | None:
    """A concat among the operands that only elementwise operations read."""
    for value in op.inputs:
        concat = value.owner
        if isinstance(concat, ConcatOp) and len(concat.inputs) <= MAX_PARTS and not concat.attributes:
            users = [use.operation for use in concat.result.uses]
            if all(isinstance(user, ElementwiseOp) and not user.attributes for user in users):
                return concat
    return None


def _sink(op: ElementwiseOp, concat: ConcatOp) -> None:
    dim, start = concat.dim.value.data, 0
    parts: list[ElementwiseOp] = []
    made: list[Operation] = []
    for position, part in enumerate(concat.inputs):
        shape = shape_of(part)
        operands: list[SSAValue] = []
        for value in op.inputs:
            if isinstance(value.owner, ConcatOp) and _alike(value.owner, concat):
                operands.append(value.owner.inputs[position])
            else:
                operands.append(_slice(value, dim, start, shape, made))
        types = [TensorType(element_of(out), shape) for out in op.outputs]
        parts.append(ElementwiseOp(operands, types, op.body.clone()))
        made.append(parts[-1])
        start += shape[dim]
    joined = [ConcatOp([part.outputs[i] for part in parts], dim) for i in range(len(op.outputs))]
    _replace(op, [*made, *joined], [whole.result for whole in joined])


def _widen_behind(op: ConcatOp) -> None:
    """`concat(cast(a), cast(b))` is `cast(concat(a, b))`, of casts that are the same and widen their elements."""
    casts = [owner for value in op.inputs if isinstance(owner := value.owner, ElementwiseOp) and widens(owner)]
    first = casts[0] if casts else None
    is_same = first is not None and all(each.body.is_structurally_equivalent(first.body) for each in casts)
    if first is None or not is_same or len(casts) < len(op.inputs) or any(each.attributes for each in casts):
        return
    sources = [each.inputs[0] for each in casts]
    joined = ConcatOp(sources, op.dim.value.data)
    wide = ElementwiseOp([joined.result], [op.result.type], first.body.clone())
    _replace(op, [joined, wide], [wide.outputs[0]])


def _alike(op: ConcatOp, other: ConcatOp) -> bool:
    return op.dim == other.dim and [v.type for v in op.inputs] == [v.type for v in other.inputs]


def _slice(value: SSAValue, dim: int, start: int, shape: Sequence[int], made: list[Operation]) -> SSAValue:
    """A part of a value along a dimension, read by a new index map."""
    exprs = [AffineExpr.dimension(d) + (start if d == dim else 0) for d in range(len(shape))]
    op = IndexMapOp(value, AffineMap(len(shape), 0, tuple(exprs)), shape)
    made.append(op)
    return op.result


def _replace(op: Operation, new: Sequence[Operation], results: Sequence[SSAValue]) -> None:
    """Put operations in the place of one, with its name and location."""
    for value in (result for made in new for result in made.results):
        value.name_hint = op.results[0].name_hint
    for made in new:
        made.location = op.location
    Rewriter.replace_op(op, new, results)
