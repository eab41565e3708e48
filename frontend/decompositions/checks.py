"""How a decomposition makes a check that PyTorch makes at each call."""

from __future__ import annotations

import torch

from deplodock.frontend.decompositions.table import ATEN


def check(condition: torch.Tensor, message: str) -> None:
    """Assert that a condition holds everywhere; a call where it fails raises CheckError with the message."""
    ATEN._assert_async.msg(condition.all(), message)


def check_index(index: torch.Tensor, lowest: int, extent: int, message: str) -> None:
    """Assert that all positions lie from `lowest` to below `extent`."""
    check(torch.logical_and(index >= lowest, index < extent), message)
