"""Contracts in the evaluator: sums of products over axes, where the right factor is taken, and at active points."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.parser import Parser

from deplodock.analysis.shape.roundings import longest_reduction
from deplodock.interpreters.evaluate import machine, run
from deplodock.interpreters.values import Array
from deplodock.passes.driver import new_context

PROGRAM = """
func.func @k(%x: memref<36x64xbf16>, %w: memref<16x64xbf16>, %out: memref<36x16xf32>) {
  tile.launch (%m_w = 3 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %m_h = 2 : register, %n_j = 2 : register,
               %n_r = 2 : register, %k_v = 8 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %n = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
    %n_o = loop.index [%n_j * 8 + %n_g]
    %m = loop.index [%m_w * 16 + %m_h * 8 + %m_g]
    loop.where %m < 36
    %acc = loop.reduce {arith.addf} %k_s = 0 to 2 : f32 {
      %k = loop.index [%k_t * 16 + %k_s * 8 + %k_v]
      %a = loop.load %x[%m, %k] : memref<36x64xbf16>
      %b = loop.load %w[%n_o, %k] : memref<16x64xbf16>
      %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %c : f32
    }
    loop.store %acc, %out[%m, %n] : memref<36x16xf32>
  }
  func.return
}
"""


def factors(seed: int) -> list[Array]:
    """Two factors of bf16."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, 64)).astype(ml_dtypes.bfloat16) for rows in (36, 16)]


@pytest.mark.parametrize("points", [1 << 20, 1 << 10])
def test_a_product_of_matrices(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_POINTS", points)
    module = Parser(new_context(), PROGRAM).parse_module()
    x, w = factors(seed=3)
    ran = run(module, [x, w])
    expected = x.astype(np.float64) @ w.astype(np.float64).T
    np.testing.assert_allclose(ran.outputs[0], expected, rtol=1e-5, atol=1e-5)
    assert ran.outputs[0].dtype == np.float32
    assert not ran.exact


def test_sums_of_bytes_are_integers() -> None:
    text = PROGRAM.replace("bf16", "i8").replace("f32", "i32").replace("addf", "addi")
    text = text.replace("loop.store %acc", "%y = arith.muli %acc, %acc : i32\n    loop.store %y")
    x, w = (np.random.default_rng(5).integers(-128, 128, (rows, 64)).astype(np.int8) for rows in (36, 16))
    ran = run(Parser(new_context(), text).parse_module(), [x, w])
    sums = x.astype(np.int32) @ w.astype(np.int32).T
    np.testing.assert_array_equal(ran.outputs[0], sums * sums)
    assert ran.outputs[0].dtype == np.int32
    assert ran.exact


def test_sums_of_small_integers_are_exact() -> None:
    module = Parser(new_context(), PROGRAM).parse_module()
    x, w = (np.rint(value.astype(np.float32) * 2).astype(ml_dtypes.bfloat16) for value in factors(seed=0))
    ran = run(module, [x, w])
    np.testing.assert_array_equal(ran.outputs[0], x.astype(np.float32) @ w.astype(np.float32).T)
    assert ran.exact


def test_the_chain_of_additions() -> None:
    assert longest_reduction(Parser(new_context(), PROGRAM).parse_module()) == 64


def test_pairs_are_summed() -> None:
    text = PROGRAM.replace("mma %a * %b", "mma %a * %b + %a * %b")
    x, w = factors(seed=1)
    ran = run(Parser(new_context(), text).parse_module(), [x, w])
    np.testing.assert_allclose(ran.outputs[0], 2 * x.astype(np.float64) @ w.astype(np.float64).T, rtol=1e-5, atol=1e-5)
