"""What a decomposition is: the table that torch.export takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

ATEN = torch.ops.aten

Decompositions: TypeAlias = dict[Any, Callable[..., Any]]
"""Functions of tensors by the ATen overload that they compute; one that gives NotImplemented leaves a call as it is."""
