"""What tensor, loop and tile programs mean, against numpy; and that wrong programs are refused."""

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.universe import Universe

from deplodock.analysis.arguments import Role, argument_roles, entry_function
from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.interpreters import machine
from deplodock.interpreters.evaluate import evaluate, run

F32 = np.float32


def parse(text: str) -> ModuleOp:
    """The verified module of a text."""
    context = Context()
    for name, dialect in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(name, dialect)
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


LOGSUMEXP = """
func.func @k(%x: memref<3x1000xf32>, %out: memref<3xf32>) {
  loop.for %i = 0 to 3 {
    %m, %s = loop.reduce %k = 0 to 1000 : f32, f32 {
      %v = loop.load %x[%i, %k] : memref<3x1000xf32>
      %one = arith.constant 1.0 : f32
      loop.yield %v, %one : f32, f32
    } combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %zero = arith.constant 0.0 : f32
      %mx = arith.maximumf %m0, %m1 : f32
      %d0 = arith.subf %m0, %mx : f32
      %d1 = arith.subf %m1, %mx : f32
      %e0 = math.exp %d0 : f32
      %e1 = math.exp %d1 : f32
      %p0 = arith.mulf %s0, %e0 : f32
      %p1 = arith.mulf %s1, %e1 : f32
      %sum = arith.addf %p0, %p1 : f32
      loop.yield %mx, %sum : f32, f32
    }
    %l = math.log %s : f32
    %y = arith.addf %l, %m : f32
    loop.store %y, %out[%i] : memref<3xf32>
  }
  func.return
}
"""


def test_online_logsumexp() -> None:
    x = draw(3, 1000)
    want = np.log(np.exp(x.astype(np.float64)).sum(-1))
    assert np.allclose(evaluate_text(LOGSUMEXP, x), want, rtol=1e-6)
    assert not run(parse(LOGSUMEXP), [x]).exact


FIRST_AND_LAST = """
func.func @k(%x: memref<{n}xi32>, %out: memref<2xi32>) {{
  %a, %b = loop.reduce %k = 0 to {n} : i32, i32 {{
    %v = loop.load %x[%k] : memref<{n}xi32>
    loop.yield %v, %v : i32, i32
  }} combine (%a0: i32, %b0: i32, %a1: i32, %b1: i32) identity [-1 : i32, -1 : i32] {{
    %none = arith.constant -1 : i32
    %e0 = arith.cmpi eq, %a0, %none : i32
    %e1 = arith.cmpi eq, %a1, %none : i32
    %first = arith.select %e0, %a1, %a0 : i32
    %last = arith.select %e1, %b0, %b1 : i32
    loop.yield %first, %last : i32, i32
  }}
  loop.for %i = 0 to 1 {{
    loop.store %a, %out[0] : memref<2xi32>
    loop.store %b, %out[1] : memref<2xi32>
  }}
  func.return
}}
"""


@given(st.integers(1, 40), st.sampled_from([1, 3, 1 << 20]))
@settings(deadline=None, max_examples=30)
def test_folds_keep_the_order_of_the_loop(n: int, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "MAX_POINTS", limit)
        result = evaluate_text(FIRST_AND_LAST.format(n=n), np.arange(n, dtype=np.int32) + 5)
    assert result.tolist() == [5, n + 4]


def test_component_wise_combiner_and_empty_reduction() -> None:
    text = """
    func.func @k(%n: index, %x: memref<8xf32>, %out: memref<2xf32>) {
      %s, %m = loop.reduce {arith.addf, arith.maximumf} %k = 0 to min(%n, 8) : f32, f32 {
        %v = loop.load %x[%k] : memref<8xf32>
        loop.yield %v, %v : f32, f32
      }
      loop.for %i = 0 to 1 {
        loop.store %s, %out[%i] : memref<2xf32>
        loop.store %m, %out[%i + 1] : memref<2xf32>
      }
      func.return
    }
    """
    x = integers(8)
    assert evaluate_text(text, np.asarray(5), x).tolist() == [x[:5].sum(), x[:5].max()]
    assert evaluate_text(text, np.asarray(100), x).tolist() == [x.sum(), x.max()]
    assert evaluate_text(text, np.asarray(0), x).tolist() == [0.0, -math.inf]


def test_bounds_that_depend_on_outer_loops_and_arguments() -> None:
    text = """
    func.func @k(%n: index, %x: memref<6x6xf32>, %out: memref<6xf32>) {
      loop.for %q = 0 to 6 {
        %s = loop.reduce {arith.addf} %k = 0 to min(%q + 1, %n) : f32 {
          %v = loop.load %x[%q, %k] : memref<6x6xf32>
          loop.yield %v : f32
        }
        loop.store %s, %out[%q] : memref<6xf32>
      }
      func.return
    }
    """
    x = integers(6, 6)
    want = [x[q, : min(q + 1, 4)].sum() for q in range(6)]
    assert evaluate_text(text, np.asarray(4), x).tolist() == want


def test_a_triangular_loop_stores_inside_its_bound_only() -> None:
    text = """
    func.func @k(%x: memref<4x4xi32>, %out: memref<10xi32>) {
      loop.for %i = 0 to 4 {
        loop.for %j = 0 to %i + 1 {
          %p = loop.load %x[%i, %j] : memref<4x4xi32>
          %at = arith.index_cast %p : i32 to index
          loop.store %p, %out[%at] : memref<10xi32>
        }
      }
      func.return
    }
    """
    x = np.full((4, 4), 99, np.int32)
    x[np.tril_indices(4)] = np.arange(10)[::-1]
    assert evaluate_text(text, x).tolist() == list(range(10))


def test_gather_and_index_as_data() -> None:
    text = """
    func.func @k(%table: memref<7x3xf32>, %ids: memref<5xi64>, %out: memref<5x3xf32>) {
      loop.for %i = 0 to 5 {
        loop.for %j = 0 to 3 {
          %id = loop.load %ids[%i] : memref<5xi64>
          %r = arith.index_cast %id : i64 to index
          %v = loop.load %table[%r, %j] : memref<7x3xf32>
          %p = loop.index [%i * 3 + %j]
          %n = arith.index_cast %p : index to i32
          %f = arith.sitofp %n : i32 to f32
          %y = arith.addf %v, %f : f32
          loop.store %y, %out[%i, %j] : memref<5x3xf32>
        }
      }
      func.return
    }
    """
    table, ids = integers(7, 3), np.array([6, 0, 3, 3, 1])
    assert np.array_equal(evaluate_text(text, table, ids), table[ids] + np.arange(15).reshape(5, 3))
    with pytest.raises(Error, match=r"loop.load %table.* the element \[7, 0\] is outside"):
        evaluate_text(text, table, np.array([6, 0, 7, 3, 1]))


def test_guard_and_inside() -> None:
    text = """
    func.func @k(%x: memref<6xf32>, %out: memref<6xf32>, %flag: memref<6xi1>) {
      loop.for %i = 0 to 6 {
        %c = loop.inside where (%i < 4, 0 < %i)
        loop.store %c, %flag[%i] : memref<6xi1>
        %zero = arith.constant 0.0 : f32
        loop.guard where (%i < 3) {
          %v = loop.load %x[%i * 2] : memref<6xf32>
          loop.store %v, %out[%i] : memref<6xf32>
        }
        loop.guard where (2 < %i) {
          loop.store %zero, %out[%i] : memref<6xf32>
        }
      }
      func.return
    }
    """
    x = integers(6)
    out, flag = evaluate(parse(text), [x])
    assert out.tolist() == [x[0], x[2], x[4], 0, 0, 0]
    assert flag.tolist() == [False, True, True, True, False, False]


def test_inactive_iterations_take_the_identity_not_the_load() -> None:
    text = """
    func.func @k(%x: memref<5xf32>, %out: memref<1xf32>) {
      loop.for %i = 0 to 1 {
        %m = loop.reduce {arith.minimumf} %k = 0 to 8 : f32 {
          loop.where %k < 5
          %v = loop.load %x[%k] : memref<5xf32>
          loop.yield %v : f32
        }
        loop.store %m, %out[%i] : memref<1xf32>
      }
      func.return
    }
    """
    x = integers(5)
    assert evaluate_text(text, x).tolist() == [x.min()]


def test_a_where_holds_for_the_whole_body() -> None:
    text = """
    func.func @k(%x: memref<4xf32>, %out: memref<4xf32>) {
      tile.launch (%t = 6 : thread) {
        %v = loop.load %x[%t] : memref<4xf32>
        loop.store %v, %out[%t] : memref<4xf32>
        loop.where %t < 4
      }
      func.return
    }
    """
    x = integers(4)
    assert np.array_equal(evaluate_text(text, x), x)


INOUT = """
func.func @k(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i] : memref<4xf32>
    %b = loop.load %y[%i] : memref<4xf32>
    %c = arith.addf %a, %b : f32
    loop.store %c, %y[%i] : memref<4xf32>
  }
  func.return
}
"""


def test_inout_arguments_are_given_and_returned() -> None:
    x, y = integers(4), integers(4, seed=1)
    before = y.copy()
    assert np.array_equal(evaluate_text(INOUT, x, y), x + before)
    assert np.array_equal(y, before)


TWO_LAUNCHES = """
func.func @k(%x: memref<8xf32>, %out: memref<8xf32>) {
  %tmp = memref.alloc() : memref<8xf32>
  tile.launch (%t = 8 : thread) {
    %v = loop.load %x[%t] : memref<8xf32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %tmp[%t] : memref<8xf32>
  }
  tile.launch (%t = 8 : thread) {
    %v = loop.load %tmp[7 - %t] : memref<8xf32>
    loop.store %v, %out[%t] : memref<8xf32>
  }
  func.return
}
"""


def test_launches_order_memory() -> None:
    x = integers(8)
    assert np.array_equal(evaluate_text(TWO_LAUNCHES, x), 2 * x[::-1])
    merged = TWO_LAUNCHES.replace(
        "  }\n  tile.launch (%t = 8 : thread) {\n    %v = loop.load %tmp", "    %u = loop.load %tmp"
    )
    merged = merged.replace("loop.store %v, %out", "loop.store %u, %out")
    with pytest.raises(Error, match="was written in this launch"):
        evaluate_text(merged, x)


def test_argument_roles_follow_calls() -> None:
    module = parse(
        RMS_NORM_LOOP
        + """
        kernel.func @copy(%a: memref<4xf32>, %b: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
          kernel.move 1 %a[%thread] to %b[%thread] : memref<4xf32> to memref<4xf32>
        }
        func.func @host(%w: memref<64xf32>, %x: memref<1x32x64xf32>, %a: memref<4xf32>, %b: memref<4xf32>) {
          func.call @k_rms_norm(%x, %w, %x) : (memref<1x32x64xf32>, memref<64xf32>, memref<1x32x64xf32>) -> ()
          kernel.launch @copy(%a, %b) : memref<4xf32>, memref<4xf32>
          func.return
        }
        """
    )
    host = entry_function(module)
    assert argument_roles(host) == [Role.IN, Role.INOUT, Role.IN, Role.OUT]


def test_recursion_is_refused() -> None:
    text = "func.func @main(%x: memref<4xf32>) { func.call @f(%x) : (memref<4xf32>) -> () func.return }"
    text += "func.func @f(%x: memref<4xf32>) { func.call @f(%x) : (memref<4xf32>) -> () func.return }"
    with pytest.raises(Error, match="@f calls itself"):
        evaluate(parse(text), [draw(4)])


def test_an_output_must_not_overlap_an_input() -> None:
    text = (
        INOUT.replace("loop.load %y", "loop.load %x")
        + """
    func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
      func.call @k(%x, %x) : (memref<4xf32>, memref<4xf32>) -> ()
      func.return %x : memref<4xf32>
    }
    """
    )
    with pytest.raises(Error, match="@k: an argument that it writes is passed twice"):
        evaluate(parse(text), [draw(4)])


def store_program(body: str, shape: str = "4") -> str:
    return f"""
    func.func @k(%x: memref<8xf32>, %out: memref<{shape}xf32>) {{
      loop.for %i = 0 to 8 {{
        %v = loop.load %x[%i] : memref<8xf32>
        {body}
      }}
      func.return
    }}
    """


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("loop.store %v, %out[%i floordiv 2] : memref<4xf32>", r"different values to element \[0\]"),
        ("loop.store %v, %out[%i] : memref<4xf32>", r"the element \[4\] is outside the buffer of shape \[4\]"),
        ("loop.where %i < 3\nloop.store %v, %out[%i] : memref<4xf32>", r"argument 1: nobody writes element \[3\]"),
    ],
    ids=["two writers", "outside", "unwritten"],
)
@pytest.mark.parametrize("limit", [3, 1 << 20])
def test_wrong_stores(body: str, message: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_POINTS", limit)
    with pytest.raises(Error, match=message):
        evaluate_text(store_program(body), np.arange(8, dtype=F32))


def test_equal_values_may_be_stored_twice() -> None:
    text = store_program("loop.store %v, %out[%i floordiv 2] : memref<4xf32>")
    assert evaluate_text(text, np.repeat(np.arange(4, dtype=F32), 2)).tolist() == [0, 1, 2, 3]


def test_reading_what_nobody_wrote() -> None:
    text = """
    func.func @k(%out: memref<4xf32>) {
      %tmp = memref.alloc() : memref<4xf32>
      loop.for %i = 0 to 4 {
        %v = loop.load %tmp[%i] : memref<4xf32>
        loop.store %v, %out[%i] : memref<4xf32>
      }
      func.return
    }
    """
    with pytest.raises(Error, match=r"loop.load %tmp.* reads element \[0\], which nobody wrote"):
        evaluate_text(text)


@pytest.mark.parametrize(
    ("text", "inputs", "error", "message"),
    [
        (RMS_NORM_LOOP, [draw(64)], InvalidInputError, r"@k_rms_norm takes 2 inputs \(.*\), got 1 arrays"),
        (
            RMS_NORM_LOOP,
            [draw(1, 32, 63), draw(64)],
            InvalidInputError,
            r"input 0 of @k_rms_norm must be memref<1x32x64",
        ),
        (RMS_NORM_LOOP, [draw(1, 32, 64), np.zeros(64)], InvalidInputError, r"got float64\[64\]"),
        (RMS_NORM_LOOP + SOFTMAX, [], Error, "several entry points, @k_rms_norm, @k_softmax: name the one"),
        ("builtin.module {}", [], Error, "no entry point"),
        (
            "func.func @f(%x: tensor<2xf16>) -> tensor<2xf16> {func.return %x : tensor<2xf16>}",
            [draw(2)],
            UnsupportedError,
            "not f16",
        ),
    ],
)
def test_inputs_that_do_not_fit(text: str, inputs: Sequence[np.ndarray], error: type[Error], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(parse(text), inputs)


def test_entry_by_name() -> None:
    x = draw(5, 63)
    assert evaluate_text(RMS_NORM_LOOP + SOFTMAX, x, entry="k_softmax").shape == (5, 63)
    with pytest.raises(Error, match="does not define a function @nowhere"):
        evaluate_text(SOFTMAX, x, entry="nowhere")


def test_torch_level_is_refused_by_name() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    """
    with pytest.raises(UnsupportedError, match=r"torch\.aten\.relu is not evaluated"):
        evaluate_text(text, draw(4))


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


def scalar(op: str, types: Sequence[str], result: str, *values: np.ndarray) -> np.ndarray:
    """The result of one scalar operation on arrays; `op` names its operands %0, %1, ..."""
    n = len(values[0])
    tensors = ", ".join(f"%t{i}: tensor<{n}x{type}>" for i, type in enumerate(types))
    names = ", ".join(f"%t{i}" for i in range(len(types)))
    arguments = ", ".join(f"%a{i}: {type}" for i, type in enumerate(types))
    operands = ", ".join(f"tensor<{n}x{type}>" for type in types)
    return evaluate_text(
        f"""
        func.func @main({tensors}) -> tensor<{n}x{result}> {{
          %r = tensor_ext.elementwise {names} : {operands} -> tensor<{n}x{result}> ({arguments}) {{
            %v = {op}
            tensor_ext.yield %v : {result}
          }}
          func.return %r : tensor<{n}x{result}>
        }}
        """,
        *values,
    )


SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan], F32)
LEFT, RIGHT = (side.reshape(-1) for side in np.meshgrid(SPECIAL, SPECIAL))


def by_element(function: Callable[[float, float], float]) -> np.ndarray:
    return np.array([function(float(a), float(b)) for a, b in zip(LEFT, RIGHT, strict=True)], F32)


def maximum(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return max(a, b, key=lambda v: (v, math.copysign(1, v)))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | (a.view(np.uint32) == b.view(np.uint32))))


def test_maximum_and_minimum_propagate_nan_and_order_zeros() -> None:
    types = ["f32", "f32"]
    assert same_bits(scalar("arith.maximumf %a0, %a1 : f32", types, "f32", LEFT, RIGHT), by_element(maximum))
    minimum = by_element(lambda a, b: -maximum(-a, -b))
    assert same_bits(scalar("arith.minimumf %a0, %a1 : f32", types, "f32", LEFT, RIGHT), minimum)
    number = by_element(lambda a, b: b if math.isnan(a) else a if math.isnan(b) else maximum(a, b))
    assert same_bits(scalar("arith.maxnumf %a0, %a1 : f32", types, "f32", LEFT, RIGHT), number)


def test_maximum_reductions_propagate_nan() -> None:
    x = integers(5, 63)
    x[2, 40] = math.nan
    text = SOFTMAX.replace("loop.store %y", "loop.store %m").replace("%out[%row, %k]", "%out[%row, %k]")
    result = evaluate_text(text, x)
    assert np.isnan(result[2]).all()
    assert not np.isnan(np.delete(result, 2, 0)).any()


def test_float_comparisons() -> None:
    def unordered(a: float, b: float) -> bool:
        return math.isnan(a) or math.isnan(b)

    relations: dict[str, Callable[[float, float], bool]] = {
        "eq": lambda a, b: a == b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "ne": lambda a, b: a != b and not unordered(a, b),
    }
    wanted: dict[str, Callable[[float, float], bool]] = {"ord": lambda a, b: not unordered(a, b), "uno": unordered}
    for name, relation in relations.items():
        wanted["o" + name] = relation
        wanted["u" + name] = lambda a, b, relation=relation: unordered(a, b) or relation(a, b)
    for name, relation in wanted.items():
        got = scalar(f"arith.cmpf {name}, %a0, %a1 : f32", ["f32", "f32"], "i1", LEFT, RIGHT)
        assert got.tolist() == [relation(float(a), float(b)) for a, b in zip(LEFT, RIGHT, strict=True)], name


def test_division_by_zero_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = scalar("arith.divf %a0, %a1 : f32", ["f32", "f32"], "f32", LEFT, RIGHT)
    with np.errstate(all="ignore"):
        assert same_bits(got, LEFT / RIGHT)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": truncated,
    "remsi": lambda a, b: a - truncated(a, b) * b,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: (a % 2**32) // (b % 2**32),
    "remui": lambda a, b: (a % 2**32) % (b % 2**32),
    "minsi": min,
    "maxui": lambda a, b: max(a % 2**32, b % 2**32),
    "andi": lambda a, b: a & b,
    "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << (b % 32),
    "shrsi": lambda a, b: a >> (b % 32),
    "shrui": lambda a, b: (a % 2**32) >> (b % 32),
}


@pytest.mark.parametrize("name", INTEGER_OPS)
@given(st.integers(-(2**31) + 1, 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
@settings(deadline=None, max_examples=8)
def test_integer_operations(name: str, a: int, b: int) -> None:
    if name.startswith("sh"):
        b %= 32
    b = b or 1
    operands = [np.array([value], np.int32) for value in (a, b)]
    got = scalar(f"arith.{name} %a0, %a1 : i32", ["i32", "i32"], "i32", *operands)
    assert int(got[0]) % 2**32 == INTEGER_OPS[name](a, b) % 2**32


def test_booleans_are_signed_bits() -> None:
    bits = np.array([False, True])
    assert scalar("arith.sitofp %a0 : i1 to f32", ["i1"], "f32", bits).tolist() == [0, -1]
    assert scalar("arith.uitofp %a0 : i1 to f32", ["i1"], "f32", bits).tolist() == [0, 1]
    assert scalar("arith.extsi %a0 : i1 to i32", ["i1"], "i32", bits).tolist() == [0, -1]
    assert scalar("arith.extui %a0 : i1 to i64", ["i1"], "i64", bits).tolist() == [0, 1]
    assert scalar("arith.addi %a0, %a1 : i1", ["i1", "i1"], "i1", bits, bits).tolist() == [False, False]
    assert scalar("arith.trunci %a0 : i32 to i1", ["i32"], "i1", np.array([2, 3], np.int32)).tolist() == [False, True]


def test_casts_and_rounding() -> None:
    halves = np.array([-2.5, -1.5, 0.5, 1.5, 2.5], F32)
    assert scalar("arith.fptosi %a0 : f32 to i32", ["f32"], "i32", halves).tolist() == [-2, -1, 0, 1, 2]
    assert scalar("math.round %a0 : f32", ["f32"], "f32", halves).tolist() == [-3, -2, 1, 2, 3]
    assert scalar("math.roundeven %a0 : f32", ["f32"], "f32", halves).tolist() == [-2, -2, 0, 2, 2]
    assert scalar("arith.truncf %a0 : f64 to f32", ["f64"], "f32", np.array([0.1])).tolist() == [float(F32(0.1))]
    ones = np.array([1.0, -0.0], F32)
    assert scalar("arith.bitcast %a0 : f32 to i32", ["f32"], "i32", ones).tolist() == [0x3F800000, -(2**31)]
    assert np.allclose(scalar("math.erf %a0 : f32", ["f32"], "f32", halves), [math.erf(v) for v in halves])


def test_fused_multiply_add_rounds_once() -> None:
    a = np.array([1 + 2**-12], F32)
    c = np.array([-1.0], F32)
    fused = scalar("math.fma %a0, %a1, %a2 : f32", ["f32"] * 3, "f32", a, a, c)
    assert fused[0] == (1 + 2**-12) ** 2 - 1
    assert fused[0] != a[0] * a[0] + c[0]


def test_an_unknown_scalar_operation_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"do not compute math\.ctpop"):
        scalar("math.ctpop %a0 : i32", ["i32"], "i32", np.zeros(2, np.int32))


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
