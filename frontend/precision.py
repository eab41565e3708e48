"""PyTorch's setting of how precisely products of FP32 matrices are computed, which belongs to the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch


def matmul_precision() -> str:
    """What torch.get_float32_matmul_precision() gives.

    It raises where `torch.backends.cuda.matmul.fp32_precision` was set on its own: to TF32 is `high` then, as
    `allow_tf32` is, else `highest`.
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


@contextmanager
def pytorch_at(precision: str) -> Iterator[None]:
    """While it lasts, PyTorch itself computes products and convolutions of FP32 at a precision.

    At `highest` it is strict, at the others a GPU uses TF32.
    """
    products, convolutions = matmul_precision(), torch.backends.cudnn.allow_tf32
    _set(precision, precision != "highest")
    try:
        yield
    finally:
        _set(products, convolutions)


def pytorch_beside(precision: str) -> AbstractContextManager[None]:
    """While it lasts, PyTorch computes as what is measured beside ours of a precision: strictly, or in TF32.

    It has no other products of `high`'s error than strict ones.
    """
    return pytorch_at("high" if precision == "medium" else "highest")


def _set(products: str, convolutions: bool) -> None:
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32 = convolutions
