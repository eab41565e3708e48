"""Decompositions of the forms that operations have in graphs for which PyTorch computes gradients."""

from __future__ import annotations

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _dtype(x: torch.Tensor, half_to_float: bool) -> torch.dtype:
    return torch.float32 if half_to_float else x.dtype


DERIVED: Decompositions = {
    ATEN._softmax.default: lambda x, dim, half: torch.softmax(x, dim, dtype=_dtype(x, half)),
    ATEN._log_softmax.default: lambda x, dim, half: torch.log_softmax(x, dim, dtype=_dtype(x, half)),
}
