"""The error bar, and the longest reduction that it depends on."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.dialects.memref import MemRef
from xdsl.parser import Parser

from deplodock.analysis.shape.roundings import TF32_ROUNDOFF, Roundings, longest_reduction
from deplodock.dialects.loop import Loop
from deplodock.dialects.tensor import TensorExt
from deplodock.dialects.tile import Tile
from deplodock.errors import UnsupportedError
from deplodock.interpreters.values import Array
from deplodock.runtime.compare import compare, equal

HALF_ULP = 2.0**-24
REFERENCE = np.random.default_rng(0).standard_normal((40, 50))


def f32(values: object) -> Array:
    return np.asarray(values, np.float32)


def sums(extent: int = 1) -> Roundings:
    return Roundings(extent)


def test_rounding_is_right() -> None:
    verdict = compare(f32(REFERENCE), REFERENCE, None, sums())
    assert verdict.passed
    assert 0 < verdict.error < HALF_ULP
    assert verdict.bar == pytest.approx(9 * HALF_ULP)


def test_in_float64_the_reference_is_rounded_too() -> None:
    assert compare(REFERENCE, REFERENCE, None, sums()).bar == pytest.approx(2 * 9 * 2.0**-53)


def test_the_bar_grows_with_the_root_of_the_reduction() -> None:
    assert compare(f32(REFERENCE), REFERENCE, None, sums(100)).bar == pytest.approx(18 * HALF_ULP)


@pytest.mark.parametrize(("dtype", "unit"), [(ml_dtypes.bfloat16, 2.0**-8), (np.float16, 2.0**-11)])
def test_the_bar_of_half_types_is_that_of_their_roundings_beside_sums_of_fp32(dtype: Any, unit: float) -> None:
    narrow = REFERENCE.astype(dtype)
    for extent in (1, 4096):
        of_sums = (8 + math.sqrt(extent)) * HALF_ULP
        assert compare(narrow, REFERENCE, None, sums(extent)).bar == pytest.approx(1.5 * unit + of_sums)
    four = Roundings(1, 2 * unit)
    assert compare(narrow, REFERENCE, None, four).bar == pytest.approx(3 * unit + 9 * HALF_ULP)
    assert compare(f32(REFERENCE), REFERENCE, None, four).bar == pytest.approx(3 * unit + 9 * HALF_ULP)


def test_the_bar_of_medium_is_that_of_tf32() -> None:
    for got, own in ((f32(REFERENCE), 9 * HALF_ULP), (REFERENCE, 9 * 2.0**-52)):
        bar = compare(got, REFERENCE, None, Roundings(1, 0.0, TF32_ROUNDOFF)).bar
        assert bar == pytest.approx(3 * 2.0**-11 + own)


@pytest.mark.parametrize(("factor", "passed"), [(0.99, True), (1.01, False)])
def test_the_mean_error_is_bounded(factor: float, passed: bool) -> None:
    got = f32(REFERENCE)
    reference = got.astype(np.float64) / (1 + factor * (8 + math.sqrt(64)) * HALF_ULP)
    assert compare(got, reference, None, sums(64)).passed is passed


@pytest.mark.parametrize(("factor", "passed"), [(0.9, True), (1.1, False)])
def test_each_element_is_bounded(factor: float, passed: bool) -> None:
    reference = np.ones(10**6)
    got = reference.copy()
    got[123] += factor * 8 * 9 * 2.0**-52
    verdict = compare(got, reference, None, sums())
    assert verdict.error < verdict.bar
    assert verdict.passed is passed
    assert passed or verdict.reason.startswith("element [123] is ")


@pytest.mark.parametrize(("factor", "passed"), [(0.9, True), (1.1, False)])
def test_rows_and_columns_of_small_scale_count(factor: float, passed: bool) -> None:
    """An element weighs what those of its row and its column say, if it does not weigh more itself."""
    rows, columns = np.ones((40, 1)), np.ones((1, 50))
    rows[7], columns[0, 11] = 1e-6, 1e-3
    reference = rows * columns
    for row, column in ((7, 5), (5, 11), (7, 11)):
        got = f32(reference)
        reference = got.astype(np.float64)
        got[row, column] *= 1 + factor * 8 * 9 * HALF_ULP
        assert compare(got, reference, None, sums()).passed is passed
    got = f32(reference * REFERENCE)
    got[7] = 0.0
    assert not compare(got, reference * REFERENCE, None, sums()).passed


def test_a_small_element_weighs_as_much_as_its_like() -> None:
    """What cancels by chance has the error of what does not; few elements say nothing of each other."""
    for shape in ((40, 50), (2000,), (2000, 1)):
        reference = REFERENCE.reshape(shape).copy()
        reference.flat[100] = 0.0
        got = f32(reference)
        got.flat[100] = 40 * HALF_ULP
        assert compare(got, reference, None, sums()).passed
        got.flat[100] = 150 * HALF_ULP
        assert not compare(got, reference, None, sums()).passed


@pytest.mark.parametrize(("factor", "passed"), [(3.9, True), (4.1, False)])
def test_four_times_the_error_of_eager_is_allowed(factor: float, passed: bool) -> None:
    eager, got = REFERENCE * (1 + 1e-4), REFERENCE * (1 + factor * 1e-4)
    assert compare(f32(got), REFERENCE, f32(eager), sums()).passed is passed


def test_the_error_of_eager_allows_one_where_it_is() -> None:
    """A row in which eager is inexact says nothing of the others."""
    eager, got = f32(REFERENCE), f32(REFERENCE)
    eager[3] *= 1 + 1e-3
    got[3] *= 1 - 1e-3
    assert compare(got, REFERENCE, eager, sums()).passed
    other = f32(REFERENCE)
    other[4] *= 1 - 1e-3
    assert not compare(other, REFERENCE, eager, sums()).passed


@pytest.mark.parametrize(("factor", "passed"), [(0.99, True), (1.01, False)])
def test_the_bar_grows_with_the_sensitivity(factor: float, passed: bool) -> None:
    """It is looked at only where the output would be wrong without."""
    got = f32(REFERENCE)
    moved = 1e-3 * REFERENCE
    reference = got.astype(np.float64) - factor * moved
    assert not compare(got, reference, None, sums(), lambda: 0 * moved).passed
    assert compare(got, reference, None, sums(), lambda: np.abs(moved)).passed is passed
    assert compare(got, REFERENCE, None, sums(), lambda: pytest.fail("the output is right")).passed


def test_the_bar_of_an_element_grows_with_its_own_sensitivity() -> None:
    got, moved = f32(REFERENCE), np.full(REFERENCE.shape, 1e-9)
    moved[3, 4] = 1e-2
    got[3, 4] += 5e-2
    assert compare(got, REFERENCE, f32(REFERENCE * (1 + 1e-2)), sums(), lambda: moved).passed
    got = f32(REFERENCE)
    got[3, 5] += 0.5
    assert not compare(got, REFERENCE, f32(REFERENCE * (1 + 1e-2)), sums(), lambda: moved).passed


def test_numbers_must_be_equal_where_all_is_exact() -> None:
    values = f32([0.0, np.nan, np.inf, 3.0])
    assert equal(values, f32([-0.0, np.nan, np.inf, 3.0])).passed
    assert equal(values, f32([0.0, np.nan, np.inf, 4.0])).reason == "element [3] is 3.0, should be 4.0"
    assert equal(values, f32([0.0, np.nan, np.inf, 4.0]), np.array([True, True, True, False])).passed
    assert not equal(values, f32([0.0, 1.0, np.inf, 3.0])).passed


def test_numbers_below_the_normal_ones_may_be_off_by_the_smallest() -> None:
    reference = np.full((4, 16), 7e-9)
    reference[0] = 1.0
    got = reference.astype(np.float16)
    assert (got[1:] == 0).all()
    assert compare(got, reference, None, Roundings()).passed
    got[3] = 1.3e-7
    verdict = compare(got, reference, None, Roundings())
    assert verdict.reason.startswith("element [3, ")


def test_special_values_must_be_in_place() -> None:
    special = f32([np.nan, np.inf, -np.inf, 1.0])
    assert compare(special, special.astype(np.float64), None, sums()).passed
    assert not compare(f32([np.nan, np.inf, np.inf, 1.0]), special.astype(np.float64), None, sums()).passed
    assert not compare(f32([0.0, np.inf, -np.inf, 1.0]), special.astype(np.float64), None, sums()).passed
    assert "element [1] is nan" in compare(f32([1.0, np.nan]), np.ones(2), None, sums()).reason


def test_overflow_of_the_type_is_right() -> None:
    assert compare(f32([np.inf, 1.0]), np.array([1e40, 1.0]), None, sums()).passed


def test_special_values_may_be_where_eager_has_them() -> None:
    got = f32([np.nan, 1.0])
    assert compare(got, np.ones(2), got, sums()).passed
    assert not compare(got, np.ones(2), f32([1.0, 1.0]), sums()).passed


def test_a_reference_of_zeros() -> None:
    assert compare(f32([0.0, 0.0]), np.zeros(2), None, sums()).passed
    assert not compare(f32([0.0, 1e-30]), np.zeros(2), None, sums()).passed
    assert not compare(f32([0.0, 1.0]), np.zeros(2), f32([1e-9, 1e-9]), sums()).passed


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_shapes_without_an_axis_or_an_element(shape: tuple[int, ...]) -> None:
    assert compare(np.ones(shape, np.float32), np.ones(shape), None, sums()).passed


def test_large_and_small_values_have_a_norm() -> None:
    for scale in (1e300, 1e-300):
        assert compare(REFERENCE * scale, REFERENCE * scale, None, sums()).passed
        assert not compare(REFERENCE * scale * (1 + 1e-9), REFERENCE * scale, None, sums()).passed


def test_integers_and_booleans_must_be_equal() -> None:
    assert compare(np.array([1, 2]), np.array([1, 2]), None, sums()).passed
    verdict = compare(np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 6]]), None, sums(10**6))
    assert verdict.reason == "element [1, 1] is 4, should be 6"
    assert not compare(np.array([True]), np.array([False]), None, sums()).passed


def test_shapes_must_be_equal() -> None:
    assert compare(f32([1.0]), np.ones((1, 1)), None, sums()).reason == "the shape is [1], not [1, 1]"


SUM = """
func.func @sum(%x: memref<4x6xf32>, %out: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %s = loop.reduce {arith.addf} %j = 0 to 6 : f32 {
      %v = loop.load %x[%i, %j] : memref<4x6xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<4xf32>
  }
  func.return
}
"""
TOTAL = """
func.func @total(%x: memref<4xf32>, %out: memref<f32>) {
  %s = loop.reduce {arith.addf} %j = 0 to 4 : f32 {
    %v = loop.load %x[%j] : memref<4xf32>
    loop.yield %v : f32
  }
  loop.store %s, %out[] : memref<f32>
  func.return
}
"""
MAIN = """
func.func @main(%x: memref<4x6xf32>) -> memref<f32> {
  %a = memref.alloc() : memref<4xf32>
  %b = memref.alloc() : memref<f32>
  func.call @sum(%x, %a) : (memref<4x6xf32>, memref<4xf32>) -> ()
  func.call @total(%a, %b) : (memref<4xf32>, memref<f32>) -> ()
  func.return %b : memref<f32>
}
"""
NESTED = """
func.func @nested(%x: memref<4x6xf32>, %out: memref<f32>) {
  %s = loop.reduce {arith.addf} %i = 0 to 4 : f32 {
    %t = loop.reduce {arith.addf} %j = 0 to 6 : f32 {
      %v = loop.load %x[%i, %j] : memref<4x6xf32>
      loop.yield %v : f32
    }
    loop.yield %t : f32
  }
  loop.store %s, %out[] : memref<f32>
  func.return
}
"""
LAUNCH = """
func.func @launch(%x: memref<4x6xf32>, %out: memref<4xf32>) {
  tile.launch (%i = 4 : block, %t = 2 : thread) {
    %s = loop.reduce {arith.addf} %j = 0 to 3 : f32 {
      %v = loop.load %x[%i, %j * 2 + %t] : memref<4x6xf32>
      loop.yield %v : f32
    }
    %r = tile.combine {arith.addf} %s over (%t) : f32
    loop.store %r, %out[%i] : memref<4xf32>
  }
  func.return
}
"""
TENSORS = """
func.func @main(%x: tensor<4x6x5xf32>) -> tensor<f32> {
  %r = tensor_ext.kernel @k(%y = %x : tensor<4x6x5xf32>) -> tensor<f32> {
    %a = tensor_ext.reduce {arith.addf} %y dims [0, 2] : tensor<4x6x5xf32> -> tensor<6xf32>
    %e = tensor_ext.elementwise {math.exp} %a : tensor<6xf32>
    %b = tensor_ext.reduce {arith.maximumf} %e dims [0] : tensor<6xf32> -> tensor<f32>
    tensor_ext.yield %b : tensor<f32>
  }
  func.return %r : tensor<f32>
}
"""


def longest(text: str) -> int:
    ctx = Context()
    for dialect in (Builtin, Func, Arith, Math, MemRef, TensorExt, Loop, Tile):
        ctx.load_dialect(dialect)
    return longest_reduction(Parser(ctx, text).parse_module())


@pytest.mark.parametrize(
    ("text", "extent"),
    [(SUM, 6), (MAIN + SUM + TOTAL, 10), (NESTED, 24), (LAUNCH, 5), (TENSORS, 26)],
    ids=["loop", "two kernels", "nested", "combine", "tensor"],
)
def test_longest_reduction(text: str, extent: int) -> None:
    assert longest(text) == extent


def test_a_varying_bound_counts_with_its_greatest() -> None:
    text = """
    func.func @f(%x: memref<512x512xf32>, %out: memref<512xf32>) {
      loop.for %i = 0 to 512 {
        %s = loop.reduce {arith.addf} %j = 0 to %i floordiv 128 * 128 + 128 : f32 {
          %v = loop.load %x[%i, %j] : memref<512x512xf32>
          loop.yield %v : f32
        }
        loop.store %s, %out[%i] : memref<512xf32>
      }
      func.return
    }
    """
    assert longest(text) == 512


def test_a_program_without_reduction() -> None:
    assert longest("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { func.return %x : tensor<4xf32> }") == 1


def test_an_unknown_extent() -> None:
    text = """
    func.func @f(%x: memref<?xf32>, %n: index, %out: memref<f32>) {
      %s = loop.reduce {arith.addf} %j = 0 to %n : f32 {
        %v = loop.load %x[%j] : memref<?xf32>
        loop.yield %v : f32
      }
      loop.store %s, %out[] : memref<f32>
      func.return
    }
    """
    with pytest.raises(UnsupportedError, match=r"loop\.reduce: the extent of a reduction is not constant"):
        longest(text)


def test_a_program_without_values() -> None:
    assert longest("func.func @f() { func.return }") == 1
