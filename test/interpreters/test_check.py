"""Comparing a module before and after a pass: equal meanings pass, seeded bugs are found and located."""

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    ModuleOp,
    TensorType,
    f32,
    f64,
    f128,
    i1,
    i32,
    i64,
)
from xdsl.parser import Parser

from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.interpreters.check import check_semantics, draw_inputs
from deplodock.interpreters.values import dtype_of
from deplodock.passes.driver import new_context


def parse(text: str) -> ModuleOp:
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


ROW_SUMS = """
func.func @k(%x: memref<5x60xf32>, %out: memref<5xf32>) {
  loop.for %i = 0 to 5 {
    %s = loop.reduce {arith.addf} %k = 0 to 60 : f32 {
      %v = loop.load %x[%i, %k] : memref<5x60xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<5xf32>
  }
  func.return
}
"""

ROW_SUMS_TILE = """
func.func @k(%x: memref<5x60xf32>, %out: memref<5xf32>) {
  tile.launch (%i = 5 : block, %t = 8 : thread) {
    %p = loop.reduce {arith.addf} %o = 0 to 8 : f32 {
      %k = loop.index [%o * 8 + %t]
      loop.where %k < 60
      %v = loop.load %x[%i, %k] : memref<5x60xf32>
      loop.yield %v : f32
    }
    %s = tile.combine {arith.addf} %p over (%t) : f32
    loop.store %s, %out[%i] : memref<5xf32>
  }
  func.return
}
"""

ROW_SUMS_KERNEL = """
kernel.func @k(%x: memref<5x60xf32>, %out: memref<5xf32>) blocks(%block = 5) threads(%thread = 1) {
  %acc = kernel.alloc : memref<1xf32, #tile.memory<register>>
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %acc[0] : memref<1xf32, #tile.memory<register>>
  loop.for %k = 0 to 60 {
    %v = loop.load %x[%block, %k] : memref<5x60xf32>
    %a = loop.load %acc[0] : memref<1xf32, #tile.memory<register>>
    %s = arith.addf %a, %v : f32
    loop.store %s, %acc[0] : memref<1xf32, #tile.memory<register>>
  }
  %s = loop.load %acc[0] : memref<1xf32, #tile.memory<register>>
  loop.store %s, %out[%block] : memref<5xf32>
}
func.func @run_k(%x: memref<5x60xf32>, %out: memref<5xf32>) {
  kernel.launch @k(%x, %out) : memref<5x60xf32>, memref<5xf32>
  func.return
}
"""

ROW_SUMS_TENSOR = """
func.func @main(%x: tensor<5x60xf32>) -> tensor<5xf32> {
  %s = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<5x60xf32> -> tensor<5xf32>
  func.return %s : tensor<5xf32>
}
"""

ROW_SUMS_HOST = """
func.func @main(%x: memref<5x60xf32>) -> memref<5xf32> {
  %out = memref.alloc() : memref<5xf32>
  func.call @k(%x, %out) : (memref<5x60xf32>, memref<5xf32>) -> ()
  func.return %out : memref<5xf32>
}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ROW_SUMS, ROW_SUMS_TILE),
        (ROW_SUMS_TENSOR, ROW_SUMS + ROW_SUMS_HOST),
        (ROW_SUMS_TILE, ROW_SUMS_KERNEL),
        (ROW_SUMS_KERNEL, ROW_SUMS_KERNEL),
    ],
    ids=["loop to tile", "tensor to loop", "tile to kernel", "kernel to kernel"],
)
def test_equal_meanings_pass_at_every_level(before: str, after: str) -> None:
    check_semantics(parse(before), parse(after), "a-pass")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 to 8 : f32", "0 to 7 : f32", r"output 0 differs at \[0\]: -?\d+\.0 before, -?\d+\.0 after"),
        ("      loop.where %k < 60\n", "", r"after the pass: .*loop.load %x.* the element \[0, 60\] is outside"),
        ("%k < 60", "%k < 59", r"output 0 differs at"),
        ("combine {arith.addf}", "combine {arith.maximumf}", r"output 0 differs at"),
        ("%out[%i]", "%out[%i floordiv 2]", r"after the pass: loop.store .* different values"),
    ],
    ids=["trips", "no where", "wrong where", "combiner", "two writers"],
)
def test_seeded_bugs_are_found(old: str, new: str, message: str) -> None:
    assert old in ROW_SUMS_TILE
    with pytest.raises(Error, match=r"cooperative-reduce: @k.*" + message):
        check_semantics(parse(ROW_SUMS), parse(ROW_SUMS_TILE.replace(old, new)), "cooperative-reduce")


def test_a_wrong_kernel_is_found() -> None:
    wrong = ROW_SUMS_KERNEL.replace("0 to 60", "0 to 59")
    with pytest.raises(Error, match=r"materialize: @run_k \(integers inputs, seed 0\): output 0 differs"):
        check_semantics(parse(ROW_SUMS_TILE), parse(wrong), "materialize")


def pointwise(body: str) -> str:
    return f"""
    func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {{
      loop.for %i = 0 to 64 {{
        %v = loop.load %x[%i] : memref<64xf32>
        {body}
        loop.store %y, %out[%i] : memref<64xf32>
      }}
      func.return
    }}
    """


def test_narrow_floats_may_round() -> None:
    """The simulator rounds to bf16, a run in float64 does not."""
    narrow = "%r = arith.truncf %s : f32 to bf16  loop.store %r, %out"
    loops, kernel = (
        text.replace("memref<5xf32>", "memref<5xbf16>").replace("loop.store %s, %out", narrow)
        for text in (ROW_SUMS_TILE, ROW_SUMS_KERNEL)
    )
    check_semantics(parse(loops), parse(kernel), "materialize")


def test_a_small_difference_on_normal_inputs_is_found() -> None:
    """Equal at the integers from -4 to 4, different between them."""
    before = pointwise("%y = math.absf %v : f32")
    after = pointwise("%r = math.roundeven %v : f32\n%y = math.absf %r : f32")
    with pytest.raises(Error, match=r"p: @k \(normal inputs, seed 0\): output 0 differs at \[0\]"):
        check_semantics(parse(before), parse(after), "p")


def test_the_sign_of_zero_counts() -> None:
    before = pointwise("%z = arith.constant 0.0 : f32\n%y = arith.maximumf %v, %z : f32")
    after = pointwise("%z = arith.constant -0.0 : f32\n%y = arith.maximumf %v, %z : f32")
    with pytest.raises(Error, match=r"0\.0 before, -0\.0 after"):
        check_semantics(parse(before), parse(after), "p")


def test_sums_of_inexact_values_may_be_reordered() -> None:
    exponentials = [
        text.replace("loop.yield %v", "%e = math.exp %v : f32\n loop.yield %e") for text in (ROW_SUMS, ROW_SUMS_TILE)
    ]
    check_semantics(parse(exponentials[0]), parse(exponentials[1]), "p")


def test_programs_that_gather_get_subscripts_as_integers() -> None:
    text = """
    func.func @k(%x: memref<5xf32>, %ids: memref<9xi64>, %out: memref<9xf32>) {
      loop.for %i = 0 to 9 {
        %id = loop.load %ids[%i] : memref<9xi64>
        %at = arith.index_cast %id : i64 to index
        %v = loop.load %x[%at] : memref<5xf32>
        loop.store %v, %out[%i] : memref<9xf32>
      }
      func.return
    }
    """
    check_semantics(parse(text), parse(text), "p")
    with pytest.raises(Error, match="output 0 differs"):
        check_semantics(parse(text), parse(text.replace("%ids[%i]", "%ids[8 - %i]")), "p")


def test_torch_level_is_not_compared() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    """
    check_semantics(parse(text), parse(ROW_SUMS), "decompose")


def test_several_entries_are_compared_in_order() -> None:
    other = ROW_SUMS.replace("@k", "@l")
    check_semantics(parse(ROW_SUMS + other), parse(ROW_SUMS_TILE + other), "p")
    with pytest.raises(Error, match="had 2 entry points and has 1 after"):
        check_semantics(parse(ROW_SUMS + other), parse(other), "p")


def test_outputs_must_keep_their_number_and_shape() -> None:
    shorter = ROW_SUMS.replace("5x", "4x").replace("<5x", "<4x").replace("0 to 5", "0 to 4")
    with pytest.raises(Error, match="after the pass: input 0 of @k must be"):
        check_semantics(parse(ROW_SUMS), parse(shorter), "p")


TYPES = [TensorType(f32, [3, 2]), MemRefType(f64, [50]), MemRefType(i32, [50]), TensorType(i64, [50]), i1, IndexType()]


@pytest.mark.parametrize("kind", ["integers", "normal"])
def test_inputs_are_the_same_for_the_same_seed(kind: str) -> None:
    first, again, other = (draw_inputs(TYPES, seed, kind) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[1], other[1])
    for type, value in zip(TYPES, first, strict=True):
        shaped = isinstance(type, TensorType | MemRefType)
        assert value.shape == (type.get_shape() if shaped else ())
        assert value.dtype == dtype_of(type.element_type if shaped else type)


def test_drawn_integers_are_small() -> None:
    floats, wide = draw_inputs([MemRefType(f32, [500]), MemRefType(i64, [500])], 0, "integers")
    assert set(floats) == set(wide) == set(range(-4, 5))
    (subscripts,) = draw_inputs([MemRefType(i64, [500])], 0, "normal", lowest=0)
    assert set(subscripts) == set(range(5))


def test_inputs_that_cannot_be_drawn() -> None:
    with pytest.raises(InvalidInputError, match=r"cannot draw input 0: .* dynamic shape"):
        draw_inputs([MemRefType(f32, [DYNAMIC_INDEX])], 0, "normal")
    with pytest.raises(UnsupportedError, match="not f128"):
        draw_inputs([f128], 0, "normal")
