"""What loops mean to the evaluators: reductions, bounds, gathers, guards and active points, against numpy."""

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
