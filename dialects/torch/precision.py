"""The precision of all products of a captured program, which its operations are given at once."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from deplodock.dialects.precision import set_precision_of
from deplodock.dialects.torch import AtenOp


def set_precision(module: ModuleOp, word: str) -> None:
    """Write a precision, one of `PRECISIONS`, on all operations of the torch dialect that have products of FP32."""
    for op in module.walk():
        if isinstance(op, AtenOp) and op.has_precision:
            set_precision_of(op, word)
