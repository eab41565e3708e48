"""PyTorch's setting of how precisely products of FP32 matrices are computed, which belongs to the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

_BACKENDS: Any = torch.backends

_PLACES: Sequence[Any] = (
    *(_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn),
    _BACKENDS.mkldnn.matmul,
)
"""Where PyTorch keeps a setting for each kind of operation, which the two older settings of all of them change."""

_REDUCED = tuple(f"allow_{name}_reduced_precision_reduction" for name in ("fp16", "bf16"))
"""The settings of whether a GPU may round sums of parts of k to the type of their factors."""


def matmul_precision() -> str:
    """What torch.get_float32_matmul_precision() gives.

    It raises where `torch.backends.cuda.matmul.fp32_precision` was set on its own: to TF32 is `high` then, as
    `allow_tf32` is, else `highest`.
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "high" if _BACKENDS.cuda.matmul.fp32_precision == "tf32" else "highest"


@contextmanager
def pytorch_at(precision: str) -> Iterator[None]:
    """While it lasts, PyTorch itself computes products and convolutions of FP32 at a precision.

    At `highest` it is strict, at the others a GPU uses TF32.
    """
    word, convolutions = matmul_precision(), _BACKENDS.cudnn.conv.fp32_precision
    settings = [place.fp32_precision for place in _PLACES]
    torch.set_float32_matmul_precision(precision)
    _BACKENDS.cudnn.allow_tf32 = precision != "highest"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(word)
        _BACKENDS.cudnn.allow_tf32 = convolutions == "tf32"
        for place, setting in zip(_PLACES, settings, strict=True):
            place.fp32_precision = setting


def pytorch_beside(precision: str) -> AbstractContextManager[None]:
    """While it lasts, PyTorch computes as what is measured beside ours of a precision: strictly, or in TF32.

    It has no other products of `high`'s error than strict ones.
    """
    return pytorch_at("high" if precision == "medium" else "highest")


@contextmanager
def strict() -> Iterator[None]:
    """While it lasts, products and convolutions of FP32 are strict, and those of half precision sum in FP32 alone.

    A GPU may otherwise round sums of parts of k to half precision.
    """
    matmul = _BACKENDS.cuda.matmul
    held = {name: getattr(matmul, name) for name in _REDUCED}
    for name in _REDUCED:
        setattr(matmul, name, False)
    try:
        with pytorch_at("highest"):
            yield
    finally:
        for name, value in held.items():
            setattr(matmul, name, value)
