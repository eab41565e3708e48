"""Values that a launch keeps on chip, in the evaluator: who wrote what, and what nobody did."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from deplodock.errors import Error
from deplodock.interpreters.evaluate import machine, run
from deplodock.passes.driver import new_context

PROGRAM = """
func.func @k(%x: memref<6x8x4xf32>, %out: memref<6x7x4xf32>) {
  tile.launch (%b = 6 : block, %t = 8 : thread, %r = 4 : register) {
    loop.where %t < 7
    %v = loop.load %x[%b, %t, %r] : memref<6x8x4xf32>
    %s = tile.keep %v[KEPT] : memref<4x9xf32, #tile.memory<shared>>
    %w = loop.load %s[READ] : memref<4x9xf32, #tile.memory<shared>>
    loop.store %w, %out[%b, %t, %r] : memref<6x7x4xf32>
  }
  func.return
}
"""
X = np.arange(192, dtype=np.float32).reshape(6, 8, 4)


def kept(kept: str, read: str) -> np.ndarray:
    text = PROGRAM.replace("KEPT", kept).replace("READ", read)
    return run(Parser(new_context(), text).parse_module(), [X]).outputs[0]


@pytest.mark.parametrize("points", [1 << 20, 32])
def test_each_cta_reads_what_its_threads_kept(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_POINTS", points)
    np.testing.assert_array_equal(kept("%r, %t", "%r, 6 - %t"), X[:, 6::-1])


def test_an_element_of_no_active_point_has_no_value() -> None:
    with pytest.raises(Error, match=r"reads element \[0, 7\], which nobody wrote"):
        kept("%r, %t", "%r, %t + 1")


def test_an_element_is_that_of_one_point() -> None:
    with pytest.raises(Error, match=r"two points store different values to element \[0, 0\]"):
        kept("%r, 0", "%r, 0")
