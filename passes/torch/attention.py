"""Attention."""

from __future__ import annotations

from math import inf, sqrt

from xdsl.dialects.builtin import i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir.affine import AffineExpr

from deplodock.passes.torch.indexing import diagonal_mask
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.matmul import product
from deplodock.passes.torch.normalizations import safe_softmax
from deplodock.passes.torch.shapes import transposed
from deplodock.passes.torch.tensors import Tensor, where


@lowers("scaled_dot_product_attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """`softmax(query @ key.T * scale + mask) @ value`; scale is 1 / sqrt(features) unless given, scores of none are 0.

    A boolean mask says what counts, and -inf is added to all else, which may hide NaN, too; a causal one, which
    replaces scores by -inf, that key j counts for query i if j <= i. A query all of whose scores are -inf, as where
    nothing counts, gives 0. The value of a key of probability 0 may be left out, NaN too, as the kernels of PyTorch
    leave out those that `is_causal` hides. In half precision the shares may be as inexact as that type. With
    `enable_gqa`, neighbouring heads of the query share one of key and value.
    """
    if dropout_p != 0:
        raise ValueError(f"dropout_p = {dropout_p} is not supported; only 0 is")
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask and is_causal exclude each other")
    if enable_gqa:
        key, value = (_repeat_heads(x, query.shape[-3]) for x in (key, value))
    scores = product(query, transposed(key))
    if features := query.shape[-1]:
        scores = (scores * (1 / sqrt(features) if scale is None else scale)).named("scores")
    if is_causal:
        kept = diagonal_mask(scores.build, scores.shape, 0, "le")
        scores = where(kept, scores, -inf).named("masked")
    if attn_mask is not None:
        masked = (scores + _addend(attn_mask, scores).broadcast(scores.shape)).named("masked")
        scores = masked.allowing(FastMathFlag.NO_NANS) if attn_mask.element == i1 else masked
    shares = safe_softmax(scores, [scores.rank - 1], is_inexact=scores.build.narrow is not None)
    return product(shares, value, skips_zeros=True)


def _addend(mask: Tensor, scores: Tensor) -> Tensor:
    """What a mask adds to scores: a boolean one 0 where it holds, else -inf."""
    if mask.element != i1:
        return mask
    nothing, hidden = (mask.build.constant(value, scores.element, mask.shape) for value in (0, -inf))
    return where(mask, nothing, hidden).named("mask")


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Key or value with each head repeated in place until there are as many as the query has."""
    dim, times = x.rank - 3, heads // x.shape[-3]
    return x if times == 1 else x.along(dim, AffineExpr.dimension(dim) // times, heads)
