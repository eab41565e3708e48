"""Masked moves on the host, of every type that moves: all bits of what the condition lets through, and zeros."""

from __future__ import annotations

import numpy as np
import pytest
from scalar_kernels import TYPES
from xdsl.parser import Parser

from deplodock.dialects.elements import ELEMENTS
from deplodock.interpreters.values import dtype_of
from deplodock.passes.driver import new_context
from deplodock.runtime.host.harness import build

TEXT = """
kernel.func @k(%x: memref<64xT>, %out: memref<64xT>) blocks(%block = 1) threads(%t = 64) {
  %r = kernel.alloc : memref<T, #tile.memory<register>>
  kernel.move 1 %x[%t] to %r[] where (%t < 50) : memref<64xT> to memref<T, #tile.memory<register>>
  %v = loop.load %r[] : memref<T, #tile.memory<register>>
  loop.store %v, %out[%t] : memref<64xT>
}
"""


@pytest.mark.parametrize("type", [str(type) for type in ELEMENTS])
def test_a_masked_move_keeps_all_bits(type: str) -> None:
    (program,) = build([Parser(new_context(), TEXT.replace("T", type)).parse_module()])
    dtype = dtype_of(TYPES[type])
    values = (np.arange(64 * dtype.itemsize) * 37 % 113 + 1).astype(np.uint8)
    moved = (values % 2).astype(bool)[:64] if type == "i1" else values.view(dtype)
    (output,) = program.run([moved])
    assert output[:50].tobytes() == moved[:50].tobytes()
    assert not output[50:].view(np.uint8).any()
