"""The inputs of a kernel that is measured: drawn, but for those that another one determines."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deplodock.dialects.math_ext import DROPPED_BITS, LowPartOp
from deplodock.runtime.graph_timing import torch_dtype
from deplodock.runtime.plan import BufferPlan
from deplodock.tune.requests import Begin


def drawn(request: Begin, device: str) -> list[torch.Tensor]:
    """The inputs of a kernel, on a device."""
    values = [_drawn(buffer, number, device) for number, buffer in enumerate(request.inputs)]
    for number, own in request.derived.items():
        if number < len(values):
            values[number] = derive(own.operation, values[own.source])
    return values


def derive(operation: str, source: torch.Tensor) -> torch.Tensor:
    """What an operation gives of all elements of a buffer, bit for bit; by its name, that of a scalar operation."""
    return _OPERATIONS[operation](source)


def _low_part(value: torch.Tensor) -> torch.Tensor:
    high = (value.view(torch.int32) >> DROPPED_BITS << DROPPED_BITS).view(torch.float32)
    low = torch.where(value.isfinite(), (value - high).view(torch.int32), torch.iinfo(torch.int32).max)
    return (low + (1 << (DROPPED_BITS - 1))).view(torch.float32)


_OPERATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {LowPartOp.name: _low_part}
"""The operations by which buffers are derived, on tensors."""


def _drawn(buffer: BufferPlan, seed: int, device: str) -> torch.Tensor:
    """Normal numbers, booleans, or integers from 0 to 4, which suit subscripts."""
    dtype, random = torch_dtype(buffer), torch.Generator(device).manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(buffer.shape, generator=random, device=device, dtype=dtype)
    most = 2 if dtype is torch.bool else 5
    return torch.randint(0, most, buffer.shape, generator=random, device=device).to(dtype)
