"""What tensor, loop and tile programs mean, against numpy; and that wrong programs are refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.errors import Error
from deplodock.interpreters.evaluate import evaluate, machine, run
from deplodock.passes.driver import new_context

F32 = np.float32


def parse(text: str) -> ModuleOp:
    """The verified module of a text."""
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(F32)


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-4, 5, shape).astype(F32)


def evaluate_text(text: str, *inputs: np.ndarray, **options: object) -> np.ndarray:
    (output,) = evaluate(parse(text), inputs, **options)
    return output


def rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


RMS_NORM_TENSOR = """
func.func @main(%x: tensor<1x32x64xf32>, %w: tensor<64xf32>) -> tensor<1x32x64xf32> {
  %out = tensor_ext.kernel @k_rms_norm(%x0 = %x : tensor<1x32x64xf32>, %w0 = %w : tensor<64xf32>)
      -> tensor<1x32x64xf32> {
    %n = arith.constant dense<0.015625> : tensor<1x32xf32>
    %eps = arith.constant dense<1.0e-6> : tensor<1x32xf32>
    %sq = tensor_ext.elementwise {arith.mulf} %x0, %x0 : tensor<1x32x64xf32>
    %sum = tensor_ext.reduce {arith.addf} %sq dims [2] : tensor<1x32x64xf32> -> tensor<1x32xf32>
    %r = tensor_ext.elementwise %sum, %n, %eps : tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>
        -> tensor<1x32xf32> (%s: f32, %m: f32, %e: f32) {
      %mean = arith.mulf %s, %m : f32
      %me = arith.addf %mean, %e : f32
      %rs = math.rsqrt %me : f32
      tensor_ext.yield %rs : f32
    }
    %rb = tensor_ext.index_map %r affine_map<(d0, d1, d2) -> (d0, d1)> : tensor<1x32xf32> -> tensor<1x32x64xf32>
    %wb = tensor_ext.index_map %w0 affine_map<(d0, d1, d2) -> (d2)> : tensor<64xf32> -> tensor<1x32x64xf32>
    %s = tensor_ext.elementwise {arith.mulf} %x0, %rb : tensor<1x32x64xf32>
    %y = tensor_ext.elementwise {arith.mulf} %s, %wb : tensor<1x32x64xf32>
    tensor_ext.yield %y : tensor<1x32x64xf32>
  }
  func.return %out : tensor<1x32x64xf32>
}
"""

RMS_NORM_LOOP = """
func.func @k_rms_norm(%x: memref<1x32x64xf32>, %w: memref<64xf32>, %out: memref<1x32x64xf32>) {
  %n = arith.constant 0.015625 : f32
  %eps = arith.constant 1.0e-6 : f32
  loop.for %a0 = 0 to 32 {
    %acc = loop.reduce {arith.addf} %a1 = 0 to 64 : f32 {
      %in = loop.load %x[0, %a0, %a1] : memref<1x32x64xf32>
      %sq = arith.mulf %in, %in : f32
      loop.yield %sq : f32
    }
    %mean = arith.mulf %acc, %n : f32
    %me = arith.addf %mean, %eps : f32
    %r = math.rsqrt %me : f32
    loop.for %a2 = 0 to 64 {
      %in = loop.load %x[0, %a0, %a2] : memref<1x32x64xf32>
      %wv = loop.load %w[%a2] : memref<64xf32>
      %s = arith.mulf %in, %r : f32
      %y = arith.mulf %s, %wv : f32
      loop.store %y, %out[0, %a0, %a2] : memref<1x32x64xf32>
    }
  }
  func.return
}
"""

RMS_NORM_HOST = """
func.func @main(%x: memref<1x32x64xf32>, %p_weight: memref<64xf32>) -> memref<1x32x64xf32> {
  %out = memref.alloc() : memref<1x32x64xf32>
  func.call @k_rms_norm(%x, %p_weight, %out) : (memref<1x32x64xf32>, memref<64xf32>, memref<1x32x64xf32>) -> ()
  func.return %out : memref<1x32x64xf32>
}
"""

RMS_NORM_AXES = """
func.func @k_rms_norm(%x: memref<1x32x64xf32>, %w: memref<64xf32>, %out: memref<1x32x64xf32>) {
  %inv_n = arith.constant 0.015625 : f32
  %eps = arith.constant 1.0e-6 : f32
  tile.launch (%a0 = 32 : block, %i = 2 : register, %t = 8 : thread, %v = 4 : register) {
    %k = loop.index [%i * 32 + %t * 4 + %v]
    %in = loop.load %x[0, %a0, %k] : memref<1x32x64xf32>
    %sq = arith.mulf %in, %in : f32
    %acc = tile.combine {arith.addf} %sq over (%i, %t, %v) : f32
    %mean = arith.mulf %acc, %inv_n : f32
    %me = arith.addf %mean, %eps : f32
    %r = math.rsqrt %me : f32
    %wv = loop.load %w[%k] : memref<64xf32>
    %s = arith.mulf %in, %r : f32
    %y = arith.mulf %s, %wv : f32
    loop.store %y, %out[0, %a0, %k] : memref<1x32x64xf32>
  }
  func.return
}
"""

RMS_NORM_STAGED = """
func.func @k_rms_norm(%x: memref<1x32x64xf32>, %w: memref<64xf32>, %out: memref<1x32x64xf32>) {
  %inv_n = arith.constant 0.015625 : f32
  %eps = arith.constant 1.0e-6 : f32
  tile.launch (%a0 = 32 : block, %t = 24 : thread) {
    %xs = tile.stage %x[0, %a0, d0] : memref<1x32x64xf32> to memref<64xf32, #tile.memory<shared>>
    %p = loop.reduce {arith.addf} %i = 0 to 3 : f32 {
      %k = loop.index [%i * 24 + %t]
      loop.where %k < 64
      %in = loop.load %xs[%k] : memref<64xf32, #tile.memory<shared>>
      %sq = arith.mulf %in, %in : f32
      loop.yield %sq : f32
    }
    %acc = tile.combine {arith.addf} %p over (%t) : f32
    %mean = arith.mulf %acc, %inv_n : f32
    %me = arith.addf %mean, %eps : f32
    %r = math.rsqrt %me : f32
    loop.for %i = 0 to 3 {
      %k = loop.index [%i * 24 + %t]
      loop.where %k < 64
      %in = loop.load %xs[%k] : memref<64xf32, #tile.memory<shared>>
      %wv = loop.load %w[%k] : memref<64xf32>
      %s = arith.mulf %in, %r : f32
      %y = arith.mulf %s, %wv : f32
      loop.store %y, %out[0, %a0, %k] : memref<1x32x64xf32>
    }
  }
  func.return
}
"""


@pytest.mark.parametrize(
    "text",
    [RMS_NORM_TENSOR, RMS_NORM_LOOP, RMS_NORM_LOOP + RMS_NORM_HOST, RMS_NORM_AXES, RMS_NORM_STAGED],
    ids=["tensor", "loop", "host", "axes", "staged"],
)
def test_rms_norm(text: str) -> None:
    x, w = draw(1, 32, 64), draw(64)
    assert np.allclose(evaluate_text(text, x, w), rms_norm(x, w), rtol=1e-5, atol=1e-6)
    reference = evaluate_text(text, x, w, precision="float64")
    assert reference.dtype == np.float64
    assert np.allclose(reference, rms_norm(x, w), rtol=1e-7, atol=0)


SOFTMAX = """
func.func @k_softmax(%x: memref<5x63xf32>, %out: memref<5x63xf32>) {
  tile.launch (%row = 5 : block, %t = 32 : thread, %v = 2 : register) {
    %k = loop.index [%t * 2 + %v]
    loop.where %k < 63
    %in = loop.load %x[%row, %k] : memref<5x63xf32>
    %m = tile.combine {arith.maximumf} %in over (%t, %v) : f32
    %d = arith.subf %in, %m : f32
    %e = math.exp %d : f32
    %s = tile.combine {arith.addf} %e over (%t, %v) : f32
    %y = arith.divf %e, %s : f32
    loop.store %y, %out[%row, %k] : memref<5x63xf32>
  }
  func.return
}
"""


def test_softmax_with_inactive_points() -> None:
    x = draw(5, 63)
    assert np.allclose(evaluate_text(SOFTMAX, x), softmax(x), rtol=1e-5)


def test_dropping_a_where_shows() -> None:
    with pytest.raises(Error, match=r"loop.load %x.* the element \[0, 63\] is outside the buffer of shape \[5, 63\]"):
        evaluate_text(SOFTMAX.replace("    loop.where %k < 63\n", ""), draw(5, 63))


MATMUL = """
func.func @k_matmul(%x: memref<50x44xf32>, %w: memref<37x44xf32>, %out: memref<50x37xf32>) {
  tile.launch (%mb = 4 : block, %nb = 3 : block, %mt = 4 : thread, %nt = 8 : thread,
               %mr = 4 : register, %nr = 2 : register) occupancy 2 {
    %mi = loop.index [%mr floordiv 2 * 8 + %mt * 2 + %mr mod 2]
    %ni = loop.index [%nr * 8 + %nt]
    %m = loop.index [%mb * 16 + %mi]
    %n = loop.index [%nb * 16 + %ni]
    loop.where %m < 50
    loop.where %n < 37
    %acc = loop.reduce {arith.addf} %ko = 0 to 5 : f32 {
      %xs = tile.stage %x[%mb * 16 + d1, %ko * 10 + d0] : memref<50x44xf32> to memref<10x16xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%nb * 16 + d1, %ko * 10 + d0] : memref<37x44xf32>
          to memref<10x16xf32, strided<[20, 1]>, #tile.memory<shared>>
      %p = loop.reduce {arith.addf} %ki = 0 to 10 unroll : f32 {
        %k = loop.index [%ko * 10 + %ki]
        loop.where %k < 44
        %a = loop.load %xs[%ki, %mi] : memref<10x16xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %ni] : memref<10x16xf32, strided<[20, 1]>, #tile.memory<shared>>
        %q = arith.mulf %a, %b : f32
        loop.yield %q : f32
      }
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<50x37xf32>
  }
  func.return
}
"""


def test_split_matmul_with_ragged_tiles_is_exact_on_integers() -> None:
    x, w = integers(50, 44), integers(37, 44)
    result = run(parse(MATMUL), [x, w])
    assert np.array_equal(result.outputs[0], x @ w.T)
    assert result.exact


def test_inexact_sums_are_known() -> None:
    assert not run(parse(MATMUL), [draw(50, 44), draw(37, 44)]).exact
    assert run(parse(SOFTMAX.replace("math.exp %d", "math.absf %d").replace("divf", "subf")), [integers(5, 63)]).exact


@pytest.mark.parametrize("limit", [7, 100, 4096])
@pytest.mark.parametrize("text", [RMS_NORM_STAGED, RMS_NORM_AXES, RMS_NORM_LOOP])
def test_chunks_do_not_change_the_result(text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = integers(1, 32, 64), integers(64)
    whole = evaluate_text(text, x, w)
    monkeypatch.setattr(machine, "MAX_POINTS", limit)
    assert np.array_equal(evaluate_text(text, x, w), whole)


def test_matmul_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_POINTS", 1000)
    x, w = integers(50, 44), integers(37, 44)
    assert np.array_equal(evaluate_text(MATMUL, x, w), x @ w.T)


def test_a_shared_slab_that_varies_along_threads_is_refused() -> None:
    with pytest.raises(Error, match="its origin varies along a thread axis"):
        evaluate_text(MATMUL.replace("%x[%mb * 16 + d1", "%x[%mb * 16 + %mt + d1"), draw(50, 44), draw(37, 44))


def test_register_slabs_vary_along_threads_and_read_zero_outside() -> None:
    text = """
    func.func @k(%x: memref<10xf32>, %out: memref<4xf32>) {
      tile.launch (%t = 4 : thread) {
        %xs = tile.stage %x[%t * 3 + d0 - 1] : memref<10xf32> to memref<4xf32, #tile.memory<register>>
        %s = loop.reduce {arith.addf} %i = 0 to 4 : f32 {
          %v = loop.load %xs[%i] : memref<4xf32, #tile.memory<register>>
          loop.yield %v : f32
        }
        loop.store %s, %out[%t] : memref<4xf32>
      }
      func.return
    }
    """
    x = integers(10)
    padded = np.pad(x, (1, 8))
    assert np.array_equal(evaluate_text(text, x), [padded[3 * t : 3 * t + 4].sum() for t in range(4)])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
@settings(deadline=None, max_examples=25)
def test_any_split_with_where_is_the_whole(m: int, n: int, f: int, g: int) -> None:
    text = f"""
    func.func @k(%x: memref<{m}x{n}xf32>, %out: memref<{m}xf32>) {{
      tile.launch (%mo = {-(-m // f)} : block, %mi = {f} : thread, %t = {g} : thread) {{
        %i = loop.index [%mo * {f} + %mi]
        loop.where %i < {m}
        %p = loop.reduce {{arith.addf}} %ko = 0 to {-(-n // g)} : f32 {{
          %k = loop.index [%ko * {g} + %t]
          loop.where %k < {n}
          %v = loop.load %x[%i, %k] : memref<{m}x{n}xf32>
          loop.yield %v : f32
        }}
        %s = tile.combine {{arith.addf}} %p over (%t) : f32
        loop.store %s, %out[%i] : memref<{m}xf32>
      }}
      func.return
    }}
    """
    x = integers(m, n)
    assert np.array_equal(evaluate_text(text, x), x.sum(1))


def test_index_maps_and_constants_of_tensors() -> None:
    text = """
    func.func @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<i64>) {
      %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1, 2 - d0)> : tensor<2x3xf32> -> tensor<3x2xf32>
      %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %s = arith.constant dense<7> : tensor<i64>
      func.return %t, %c, %s : tensor<3x2xf32>, tensor<2xf32>, tensor<i64>
    }
    """
    x = integers(2, 3)
    turned, constant, scalar = evaluate(parse(text), [x])
    assert np.array_equal(turned, x[:, ::-1].T)
    assert constant.tolist() == [1, 2]
    assert scalar.shape == ()
    assert scalar == 7
    with pytest.raises(Error, match=r"tensor_ext.index_map .* the element \[0, 3\] is outside"):
        evaluate(parse(text.replace("2 - d0", "3 - d0")), [x])


def test_reductions_of_tensors() -> None:
    text = """
    func.func @main(%x: tensor<2x3x4xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
      %a, %b = tensor_ext.reduce {arith.addf, arith.minimumf} %x, %x dims [0, 2]
          : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<3xf32>, tensor<3xf32>
      func.return %a, %b : tensor<3xf32>, tensor<3xf32>
    }
    """
    x = integers(2, 3, 4)
    total, least = evaluate(parse(text), [x])
    assert np.array_equal(total, x.sum((0, 2)))
    assert np.array_equal(least, x.min((0, 2)))


def test_maximum_reductions_propagate_nan() -> None:
    x = integers(5, 63)
    x[2, 40] = math.nan
    text = SOFTMAX.replace("loop.store %y", "loop.store %m")
    result = evaluate_text(text, x)
    assert np.isnan(result[2]).all()
    assert not np.isnan(np.delete(result, 2, 0)).any()
