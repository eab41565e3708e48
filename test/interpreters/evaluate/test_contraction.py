"""Sums of products by matrix products: the same values as in the order of the loops, without the products' memory."""

import tracemalloc
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from deplodock.interpreters.evaluate import BufferState, call, contraction, loop
from deplodock.interpreters.evaluate.machine import Machine, Points
from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser

MATMUL = """
func.func @k(%x: memref<60x50xf32>, %y: memref<50x70xf32>, %out: memref<60x70xf32>) {
  loop.for %i = 0 to 60 {
    loop.for %j = 0 to 70 {
      %sum = loop.reduce {arith.addf} %k = 0 to 50 : f32 {
        %a = loop.load %x[%i, %k] : memref<60x50xf32>
        %b = loop.load %y[%k, %j] : memref<50x70xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %sum, %out[%i, %j] : memref<60x70xf32>
    }
  }
  func.return
}
"""
TRANSPOSED = MATMUL.replace("memref<50x70xf32>", "memref<70x50xf32>").replace("%y[%k, %j]", "%y[%j, %k]")
BATCHED = """
func.func @k(%x: memref<3x60x50xf32>, %y: memref<3x50x70xf32>, %out: memref<60x3x70xf32>) {
  loop.for %i = 0 to 60 {
    loop.for %h = 0 to 3 {
      loop.for %j = 0 to 70 {
        %sum = loop.reduce {arith.addf} %k = 0 to 50 : f32 {
          %a = loop.load %x[%h, %i, %k] : memref<3x60x50xf32>
          %n = arith.negf %a : f32
          %b = loop.load %y[%h, %k, %j] : memref<3x50x70xf32>
          %p = arith.mulf %n, %b : f32
          loop.yield %p : f32
        }
        loop.store %sum, %out[%i, %h, %j] : memref<60x3x70xf32>
      }
    }
  }
  func.return
}
"""
MASKED = MATMUL.replace("%a = loop.load", "loop.where %k < %i\n        %a = loop.load")
SAME = MATMUL.replace("%y[%k, %j]", "%y[%k, %i]")
MAXIMUM = MATMUL.replace("{arith.addf}", "{arith.maximumf}")
SUM = MATMUL.replace("%p = arith.mulf", "%p = arith.subf")


def arguments(function: FuncOp) -> list[BufferState | None]:
    random = np.random.default_rng(0)
    types = cast(Any, function.function_type.inputs.data)
    return [*(BufferState(random.standard_normal(type.get_shape()).astype(np.float32)) for type in types[:-1]), None]


def function_of(text: str) -> FuncOp:
    (function,) = LocatingParser(new_context(), text, "k").parse_module().ops
    assert isinstance(function, FuncOp)
    return function


@pytest.mark.parametrize(
    ("text", "contracts"),
    [
        (MATMUL, True),
        (TRANSPOSED, True),
        (BATCHED, True),
        (MASKED, False),
        (SAME, False),
        (MAXIMUM, False),
        (SUM, False),
    ],
    ids=["matmul", "transposed", "batched", "masked", "one axis", "maximum", "differences"],
)
@pytest.mark.parametrize("precision", ["native", "float64"])
def test_values(text: str, contracts: bool, precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    function, taken = function_of(text), []

    def spy(machine: Machine, op: Any, space: Points) -> Any:
        taken.append(result := contraction.contract(machine, op, space))
        return result

    given = arguments(function)
    monkeypatch.setattr(loop, "contract", spy)
    got = call(function, given, precision)[-1]
    assert [result is not None for result in taken] == [contracts]
    monkeypatch.setattr(loop, "contract", lambda *_: None)
    wanted = call(function, given, precision)[-1]
    assert got.initialised is not None
    assert got.initialised.all()
    assert got.data.dtype == wanted.data.dtype
    np.testing.assert_allclose(got.data, wanted.data, rtol=0, atol=1e-13 if precision == "float64" else 2e-5)


def test_infinities_and_nan_stay() -> None:
    function = function_of(MATMUL)
    x, y, out = arguments(function)
    assert x is not None
    assert y is not None
    x.data[3, 4], x.data[5, 6], y.data[4, 7] = np.inf, np.nan, 0.0
    result = call(function, [x, y, out])[-1].data
    assert np.isnan(result[5]).all()
    assert np.isnan(result[3, 7])
    assert np.isinf(np.delete(result[3], 7)).all()


def test_memory_is_that_of_the_factors() -> None:
    """A product of 1024 x 1024 matrices, whose products would take 4 GB."""
    text = MATMUL.replace("60", "1024").replace("50", "1024").replace("70", "1024")
    function = function_of(text)
    given = arguments(function)
    tracemalloc.start()
    call(function, given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20
