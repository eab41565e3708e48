"""The pattern for attention."""

from __future__ import annotations

from math import inf, sqrt

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.index_maps import dim_map
from deplodock.passes.torch.indexing import diagonal_mask
from deplodock.passes.torch.matmul import matmul
from deplodock.passes.torch.normalizations import safe_softmax
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.shapes import transposed
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerAttention(AtenPattern):
    """`softmax(query @ key.T * scale + mask) @ value`; scale is 1 / sqrt(features) unless given, scores of none are 0.

    A boolean mask says what counts, and -inf is added to all else; a causal one, which replaces scores by -inf, that
    key j counts for query i if j <= i. A query all of whose scores are -inf, as where nothing counts, gives 0. The
    value of a key of probability 0 may be left out, NaN too, as the kernels of PyTorch leave out those that `is_causal`
    hides. With `enable_gqa`, neighbouring heads of the query share one of key and value.
    """

    overloads = ("scaled_dot_product_attention",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        query, key, value, mask = (op.tensor(name) for name in ("query", "key", "value", "attn_mask"))
        assert query is not None
        assert key is not None
        assert value is not None
        _check(op, query, key, value)
        if op.value("enable_gqa"):
            key, value = (_repeat_heads(build, x, shape_of(query)) for x in (key, value))
        scores = matmul(build, query, transposed(build, key))
        if features := shape_of(query)[-1]:
            scale = op.value("scale") if op.value("scale") is not None else 1 / sqrt(features)
            scores = build.apply("mul", scores, build.constant_like(scale, scores), name="scores")
        last = [len(shape_of(scores)) - 1]
        if op.value("is_causal"):
            kept = diagonal_mask(build, shape_of(scores), 0, "le")
            scores = build.select(kept, scores, build.constant_like(-inf, scores), name="masked")
        if mask is not None:
            scores = _masked(build, scores, mask)
        return matmul(build, safe_softmax(build, scores, last), value, skips_zeros=True)


def _check(op: AtenOp, query: SSAValue, key: SSAValue, value: SSAValue) -> None:
    if op.value("dropout_p") != 0:
        raise ValueError(f"dropout_p = {op.value('dropout_p')} is not supported; only 0 is")
    if op.value("is_causal") and op.tensor("attn_mask") is not None:
        raise ValueError("attn_mask and is_causal exclude each other")
    shapes = [shape_of(x) for x in (query, key, value)]
    if any(len(shape) < 2 for shape in shapes):
        raise ValueError("query, key and value must have at least 2 dimensions")
    if shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        names = ", ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"the features of query and key, or the rows of key and value differ: {names}")


def _masked(build: TensorBuilder, scores: SSAValue, mask: SSAValue) -> SSAValue:
    if element_of(mask) == i1:
        nothing, hidden = (build.constant(value, element_of(scores), shape_of(mask)) for value in (0, -inf))
        mask = build.select(mask, nothing, hidden, name="mask")
    mask = build.broadcast(mask, shape_of(scores))
    return build.apply("add", scores, mask, name="masked")


def _repeat_heads(build: TensorBuilder, x: SSAValue, query: tuple[int, ...]) -> SSAValue:
    """Key or value with each head repeated in place until there are as many as the query has."""
    shape = shape_of(x)
    if len(shape) < 3 or len(query) < 3 or shape[-3] == 0 or query[-3] % shape[-3]:
        raise ValueError(f"the heads of the shapes {list(query)} and {list(shape)} do not fit enable_gqa")
    dim, times = len(shape) - 3, query[-3] // shape[-3]
    if times == 1:
        return x
    source = dim_map(len(shape), dim, AffineExpr.dimension(dim) // times)
    return build.index_map(x, source, (*shape[:-3], query[-3], *shape[-2:]))
