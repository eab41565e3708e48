"""Positions that torch.export has as numbers read from a tensor, as the tensor itself."""

from __future__ import annotations

import torch
from torch import fx

_ATEN = torch.ops.aten


def index_by_tensors(graph: fx.Graph) -> None:
    """Make `x[:, i]` with a tensor `i` without dimensions an index by that tensor.

    torch.export reads the number, which is known only when the program runs:

        %item = aten.item(%i); %select = aten.select.int(%x, 1, %item)    ->    %select = aten.index(%x, [None, %i])
    """
    for number in graph.find_nodes(op="call_function", target=_ATEN.item.default):
        (index,) = number.args
        if index.meta["val"].dtype not in (torch.int32, torch.int64):
            continue
        for user in list(number.users):
            if user.target is _ATEN.select.int and user.args[1:] == (user.args[1], number):
                source, dim, _ = user.args
                # Changed in place: the signature of the exported program knows results by their names.
                user.target = _ATEN.index.Tensor
                user.args = (source, [*[None] * (dim % source.meta["val"].dim()), index])
        if not number.users:
            graph.erase_node(number)
