"""The shapes of the results of products and attention."""

from __future__ import annotations

from collections.abc import Sequence

from deplodock.dialects.einsum import einsum_labels
from deplodock.dialects.shapes import Shape, broadcast_shape, check_broadcast
from deplodock.dialects.tensor.indexing import shape_of
from deplodock.dialects.torch.schema import AtenCall

_RANKS = {
    **{"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)},
    **{"addmm": (2, 2), "baddbmm": (3, 3), "addmv": (2, 1)},
}
"""The ranks of the factors of products that take no others."""


def _matmul(a: Shape, b: Shape) -> Shape:
    if not a or not b:
        raise ValueError("both operands must have at least one dimension")
    *_, inner = b[-2:-1] or b
    if a[-1] != inner:
        raise ValueError(f"the inner dimensions {a[-1]} and {inner} differ")
    return (*broadcast_shape(a[:-2], b[:-2]), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def product(op: AtenCall) -> Sequence[Shape]:
    """That of the product of the last two operands, to which a first one broadcasts."""
    *addends, a, b = map(shape_of, op.tensors)
    name, ranks = op.schema().name, (len(a), len(b))
    if ranks != _RANKS.get(name, ranks):
        raise ValueError(f"operands of ranks {_RANKS[name]} are needed, not {ranks}")
    if name in ("bmm", "baddbmm") and a[0] != b[0]:
        raise ValueError(f"the batches {a[0]} and {b[0]} differ")
    result = _matmul(a, b)
    for addend in addends:
        check_broadcast(addend, result)
    return [result]


def outer(op: AtenCall) -> Sequence[Shape]:
    """That of the products of two vectors."""
    a, b = map(shape_of, op.tensors)
    if len(a) != 1 or len(b) != 1:
        raise ValueError(f"two vectors are needed, not shapes {list(a)} and {list(b)}")
    return [(*a, *b)]


def linear(op: AtenCall) -> Sequence[Shape]:
    """That of `input @ weight.T + bias`, with a weight of shape [n, k] or [k]."""
    x, weight, bias = shape_of(op.operand("input")), shape_of(op.operand("weight")), op.tensor("bias")
    if not x or len(weight) not in (1, 2) or weight[-1] != x[-1]:
        raise ValueError(f"a weight of shape {list(weight)} does not fit an input of shape {list(x)}")
    result = (*x[:-1], *weight[:-1])
    if bias is not None:
        check_broadcast(shape_of(bias), result)
    return [result]


def einsum(op: AtenCall) -> Sequence[Shape]:
    """The extents of the labels of the output."""
    _, output, extents = einsum_labels(op.value("equation"), [shape_of(value) for value in op.tensors])
    return [tuple(extents[label] for label in output)]


def attention(op: AtenCall) -> Sequence[Shape]:
    """That of `query @ key.T @ value`; a mask broadcasts to the first product."""
    query, key, value = (shape_of(op.operand(name)) for name in ("query", "key", "value"))
    if min(len(query), len(key), len(value)) < 2:
        raise ValueError("query, key and value must have at least 2 dimensions")
    if query[-1] != key[-1] or key[-2] != value[-2]:
        names = ", ".join(str(list(shape)) for shape in (query, key, value))
        raise ValueError(f"the features of query and key, or the rows of key and value differ: {names}")
    if op.value("enable_gqa"):
        key, value = (_repeat_heads(shape, query) for shape in (key, value))
    scores = _matmul(query, (*key[:-2], key[-1], key[-2]))
    mask = op.tensor("attn_mask")
    if mask is not None:
        check_broadcast(shape_of(mask), scores)
    return [_matmul(scores, value)]


def _repeat_heads(shape: Shape, query: Shape) -> Shape:
    if len(shape) < 3 or len(query) < 3 or shape[-3] == 0 or query[-3] % shape[-3]:
        raise ValueError(f"the heads of the shapes {list(query)} and {list(shape)} do not fit enable_gqa")
    return (*shape[:-3], query[-3], *shape[-2:])
