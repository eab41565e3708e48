"""Tensors as numpy arrays and back, without a change of a bit."""

from __future__ import annotations

import numpy as np
import torch
from xdsl.dialects.builtin import bf16

from deplodock.interpreters.values import Array, dtype_of


def to_array(tensor: torch.Tensor) -> Array:
    """The elements of a tensor on the CPU; the array may share its memory. PyTorch itself has no bfloat16 arrays."""
    tensor = tensor.detach().cpu().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(dtype_of(bf16))
    return tensor.numpy()


def to_tensor(array: Array) -> torch.Tensor:
    """A tensor of the elements of an array, which may share its memory."""
    if array.dtype.kind == "V":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16).reshape(array.shape)).view(torch.bfloat16)
    return torch.from_numpy(array)
