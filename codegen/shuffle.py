"""Values that lanes of a warp give each other, as CUDA C: `__shfl_sync` and its kin."""

from __future__ import annotations

from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects import kernel
from deplodock.dialects.kernel.shuffle import SHUFFLES, Shuffle

HELPERS: dict[str, str] = {}
"""Shuffles use no device functions."""


def _shuffle(to: KernelWriter, op: Shuffle) -> None:
    match op:
        case kernel.ShuffleUpOp():
            function, lane = "__shfl_up_sync", f"{op.delta.value.data}"
        case kernel.ShuffleLastOp():
            function, lane = "__shfl_sync", f"{op.width.value.data - 1}, {op.width.value.data}"
        case _:
            assert isinstance(op, kernel.ShuffleXorOp)
            function, lane = "__shfl_xor_sync", f"{op.mask.value.data}"
    to.define(op.result, f"{function}(0xffffffff, {to.names[op.value]}, {lane})")


TEXTS: Texts = dict.fromkeys(SHUFFLES, _shuffle)
"""How shuffles are written."""
