"""Decompositions of what combines rows by bags or segments: embedding_bag with its gradients, segment_reduce."""

from __future__ import annotations

import math
from typing import Any

import torch

from deplodock.frontend.decompositions.rows import positions, smallest, wide, within
from deplodock.frontend.decompositions.table import ATEN, Decompositions

Tensor = torch.Tensor

_SUM, _MEAN, _MAX = range(3)
"""How the rows of a bag are combined, as ATen numbers it."""


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
    *,
    learns: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rows of each bag combined; then what gradients ask for, in the shapes that PyTorch gives on the device.

    That are the bag of each index, the number of indices in each bag, and, of a largest row, where each element is
    from. Rows of `padding_idx` do not count. A bag of none is 0.
    """
    count = offsets.shape[0] - int(include_last_offset)
    starts = offsets[:count]
    bag = _bags(indices, starts)
    counts = (indices != padding_idx) if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)
    hits = (bag == positions(count, indices)[:, None]) & counts
    rows = wide(weight).index_select(0, within(indices, weight.shape[0]))
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    size = hits.sum(1)
    largest = indices.new_zeros((count, weight.shape[1]))
    if mode == _MAX:
        given = torch.where(hits[:, :, None], rows, smallest(rows))
        value = torch.where(size[:, None] > 0, given.amax(1), 0)
        # Of equal elements the first one.
        is_largest = hits[:, :, None] & (rows == value[:, None, :])
        places = torch.where(is_largest, positions(indices.shape[0], indices)[:, None], indices.shape[0])
        first = places.amin(1).clamp(max=max(0, indices.shape[0] - 1))
        largest = torch.where(size[:, None] > 0, indices[first], 0)
    else:
        value = torch.where(hits[:, :, None], rows, 0).sum(1)
        value = value / size.clamp(min=1)[:, None] if mode == _MEAN else value
    facts = _facts(weight, indices, offsets, bag, size, largest, mode, per_sample_weights, padding_idx, learns)
    return value.to(weight.dtype), *facts


def _facts(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag: Tensor,
    size: Tensor,
    largest: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
    learns: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """What gradients ask for, with as many elements and of the types as PyTorch has it on the device."""
    longer = torch.constant_pad_nd(size, [0, offsets.shape[0] - size.shape[0]])
    if offsets.device.type != "cpu":
        where = largest if mode == _MAX else largest.new_zeros(0)
        return bag.to(indices.dtype), longer.to(indices.dtype), where.to(indices.dtype)
    is_scaled_apart = per_sample_weights is not None and per_sample_weights.stride(0) != 1
    is_fast = weight.dtype in (torch.float32, torch.float16) and weight.stride(1) == 1 and padding_idx < 0
    if mode == _SUM and is_fast and not is_scaled_apart:
        bag = bag.new_zeros(0)
    sizes = size if learns else longer
    where = largest if mode == _MAX else torch.zeros_like(size)
    return bag.to(offsets.dtype), sizes.to(offsets.dtype), where.to(offsets.dtype)


def _bags(indices: Tensor, starts: Tensor) -> Tensor:
    """The bag of each index: the last one that starts at it or before."""
    return (starts[:, None] <= positions(indices.shape[0], indices)).sum(0) - 1


def _backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:
    """The gradient by the table: for each row the sum over the indices that name it."""
    if sparse:
        return NotImplemented
    wanted = wide(grad)
    table = wanted.new_zeros((num_weights, grad.shape[1]))
    if mode == _MAX:
        taken = torch.where(bag_size[: grad.shape[0], None] > 0, wanted, 0)
        return table.scatter_add(0, maximum_indices.long(), taken).to(grad.dtype)
    bag = offset2bag if offset2bag.shape == indices.shape else _bags(indices, offsets[: grad.shape[0]])
    rows = wanted.index_select(0, bag)
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    if mode == _MEAN:
        rows = rows / bag_size.index_select(0, bag)[:, None]
    if scale_grad_by_freq:
        rows = rows / (indices[:, None] == indices).sum(1)[:, None]
    if padding_idx >= 0:
        rows = torch.where((indices != padding_idx)[:, None], rows, 0)
    return table.index_add(0, indices, rows).to(grad.dtype)


def _by_sample_weights(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    """The gradient by the weight of each index: the product of its row and of what comes back to its bag."""
    bag = offset2bag if offset2bag.shape == indices.shape else _bags(indices, offsets[: grad.shape[0]])
    value = (wide(grad).index_select(0, bag) * wide(weight).index_select(0, indices)).sum(1)
    value = value if padding_idx < 0 else torch.where(indices != padding_idx, value, 0)
    return value.to(grad.dtype)


def _forward_only(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _embedding_bag(*args, **kwargs, learns=False)


def _renormalized(x: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows that indices name scaled to a norm of at most `max_norm`."""
    rows = wide(x)
    norm = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True)
    named = (within(indices.reshape(-1), x.shape[0]) == positions(x.shape[0], x)[:, None]).any(1)
    is_longer = torch.logical_and(named[:, None], norm > max_norm)
    return torch.where(is_longer, rows * (max_norm / (norm + 1e-7)), rows).to(x.dtype)


def _segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """Each segment of the first dimension as one element: its sum, mean, product, or largest or smallest element.

    A segment of none is `initial`, by default NaN as a mean, else what changes no other element.
    """
    given = offsets if offsets is not None else lengths
    if axis or indices is not None or given is None or given.dim() != 1:
        return NotImplemented
    ends = given[1:] if offsets is not None else given.cumsum(0)
    starts = given[:-1] if offsets is not None else ends - given
    place = positions(data.shape[0], data)
    hits = torch.logical_and(place >= starts[:, None], place < ends[:, None])
    counts = hits.sum(1).reshape(-1, *[1] * (data.dim() - 1))
    hits = hits.reshape(*hits.shape, *[1] * (data.dim() - 1))
    values = wide(data)
    neutral = {"max": -math.inf, "min": math.inf, "prod": 1}.get(reduce, 0)
    taken = torch.where(hits, values, neutral).to(values.dtype)
    start = neutral if initial is None else initial
    match reduce:
        case "max":
            found = taken.amax(1).clamp(min=start)
        case "min":
            found = taken.amin(1).clamp(max=start)
        case "prod":
            found = taken.prod(1) * start
        case _:
            found = taken.sum(1) + start
    if reduce == "mean":
        found = torch.where(counts > 0, found / counts.clamp(min=1), math.nan if initial is None else initial)
    return found.to(data.dtype)


BAGS: Decompositions = {
    ATEN.segment_reduce.default: _segment_reduce,
    ATEN._embedding_bag.default: _embedding_bag,
    ATEN._embedding_bag_forward_only.default: _forward_only,
    ATEN._embedding_bag_backward.default: _backward,
    ATEN._embedding_bag_per_sample_weights_backward.default: _by_sample_weights,
    ATEN.embedding_renorm.default: _renormalized,
}
