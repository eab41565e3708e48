"""Memory in the evaluators: one writer, written before read, inside the buffer; and the inputs they take."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.analysis.host.arguments import Role, argument_roles, entry_function
from deplodock.dialects.loop import LoadOp
from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.interpreters.evaluate import evaluate, machine
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
    with pytest.raises(Error, match="@f calls itself; functions must not be recursive"):
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


@pytest.mark.parametrize("limit", [3, 4])
def test_slabs_may_hold_what_nobody_wrote(limit: int) -> None:
    slots = "memref<2x4xf32, #tile.memory<shared>>"
    text = f"""
    func.func @k(%x: memref<4xf32>, %out: memref<4xf32>) {{
      %tmp = memref.alloc() : memref<4xf32>
      tile.launch (%i = 3 : thread) {{
        %v = loop.load %x[%i] : memref<4xf32>
        loop.store %v, %tmp[%i] : memref<4xf32>
      }}
      tile.launch (%i = 4 : thread) {{
        %ring = tile.ring 2
        %ys = tile.alloc : {slots}
        %xs = tile.stage %tmp[d0] : memref<4xf32> to memref<4xf32, #tile.memory<shared>>
        tile.copy %tmp[d0] to %ys at %ring[0] : memref<4xf32> to {slots}
        tile.wait %ring[0]
        %sum = loop.reduce {{arith.addf}} %k = 0 to 4 : f32 {{
          loop.where %k < {limit}
          %v = loop.load %xs[%k] : memref<4xf32, #tile.memory<shared>>
          %w = loop.load %ys[0, %k] : {slots}
          %y = arith.addf %v, %w : f32
          loop.yield %y : f32
        }}
        tile.release %ring[0]
        loop.store %sum, %out[%i] : memref<4xf32>
      }}
      func.return
    }}
    """
    if limit == 3:
        assert evaluate_text(text, np.arange(4, dtype=F32)).tolist() == [6, 6, 6, 6]
        return
    with pytest.raises(Error, match=r"loop.load %xs.* reads element \[3\], which nobody wrote"):
        evaluate_text(text, np.arange(4, dtype=F32))


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
        (
            RMS_NORM_LOOP + SOFTMAX,
            [],
            Error,
            "the module has several entry points, @k_rms_norm, @k_softmax; let one function call the others, or name "
            "the one to run",
        ),
        (
            "func.func private @absent() func.func @main() { func.call @absent() : () -> () func.return }",
            [],
            Error,
            "func.call: the module does not define the function @absent",
        ),
        (
            "builtin.module {}",
            [],
            Error,
            "the module has no entry point: define a func.func that no other function calls",
        ),
        (
            "func.func @f(%x: tensor<2xf80>) -> tensor<2xf80> {func.return %x : tensor<2xf80>}",
            [draw(2)],
            UnsupportedError,
            "not f80",
        ),
        (
            "func.func @f(%x: memref<f32>) -> f32 {%v = memref.load %x[] : memref<f32> func.return %v : f32}",
            [draw()],
            UnsupportedError,
            "memref.load .*: it cannot be evaluated here",
        ),
        ("func.func @f() {cf.br ^b ^b: func.return}", [], UnsupportedError, "@f has several blocks"),
    ],
)
def test_inputs_that_do_not_fit(text: str, inputs: Sequence[np.ndarray], error: type[Error], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(parse(text), inputs)


def test_entry_by_name() -> None:
    x = draw(5, 63)
    assert evaluate_text(RMS_NORM_LOOP + SOFTMAX, x, entry="k_softmax").shape == (5, 63)
    with pytest.raises(Error, match="the module does not define a function @nowhere"):
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


def test_inactive_loads_yield_poison() -> None:
    module = parse(INOUT)
    load = next(op for op in module.walk() if isinstance(op, LoadOp))
    space = machine.Points((4,), np.array([True, False, True, False]))
    for values, unspecified in ((np.ones(4, F32), np.nan), (np.ones(4, np.int32), 0x5A5A5A5A)):
        loaded = machine.Machine({}).load(load, machine.PointBuffer(values, 1), [np.arange(4) * 3 % 5], space)
        assert np.array_equal(loaded, [1, unspecified, 1, unspecified], equal_nan=values.dtype.kind == "f")
