"""The SIMT simulator computes what the kernel says."""

from collections.abc import Callable

import numpy as np
import pytest

from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.interpreters.simulate import Simulation, simulate
from deplodock.interpreters.simulate.nests import Nests
from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser

RNG = np.random.default_rng(0)


def randn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(text: str, *inputs: np.ndarray, entry: str | None = None, check: bool = True) -> Simulation:
    module = LocatingParser(new_context(), text, "test.mlir").parse_module()
    module.verify()
    return simulate(module, inputs, entry=entry, check=check)


def _warp_fold(value: str, op: str, result: str) -> str:
    lines: list[str] = []
    for mask in (16, 8, 4, 2, 1):
        lines.append(f"%{result}s{mask} = kernel.shuffle_xor {value}, {mask} : f32")
        lines.append(f"%{result}{mask} = {op} {value}, %{result}s{mask} : f32")
        value = f"%{result}{mask}"
    return "\n".join(lines)


RMS_NORM = f"""
kernel.func @k_rms_norm(%x: memref<1x32x2048xf32>, %w: memref<2048xf32>, %out: memref<1x32x2048xf32>)
    blocks(%block = 32) threads(%thread = 256) occupancy 1 {{
  %inv_n = arith.constant 0.00048828125 : f32
  %eps = arith.constant 1.000000e-06 : f32
  %part = kernel.alloc : memref<8xf32, #tile.memory<shared>>
  %in = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  loop.for %i = 0 to 2 unroll {{
    kernel.move 4 %x[0, %block, %i * 1024 + %thread * 4] to %in[%i, 0]
      : memref<1x32x2048xf32> to memref<2x4xf32, #tile.memory<register>>
  }}
  %acc = kernel.alloc : memref<f32, #tile.memory<register>>
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %acc[] : memref<f32, #tile.memory<register>>
  loop.for %i = 0 to 2 unroll {{
    loop.for %v = 0 to 4 unroll {{
      %in_1 = loop.load %in[%i, %v] : memref<2x4xf32, #tile.memory<register>>
      %sq = arith.mulf %in_1, %in_1 : f32
      %old = loop.load %acc[] : memref<f32, #tile.memory<register>>
      %new = arith.addf %old, %sq : f32
      loop.store %new, %acc[] : memref<f32, #tile.memory<register>>
    }}
  }}
  %sum = loop.load %acc[] : memref<f32, #tile.memory<register>>
  {_warp_fold("%sum", "arith.addf", "fold")}
  loop.guard where (%thread mod 32 < 1) {{
    loop.store %fold1, %part[%thread floordiv 32] : memref<8xf32, #tile.memory<shared>>
  }}
  kernel.barrier
  loop.store %zero, %acc[] : memref<f32, #tile.memory<register>>
  loop.for %warp = 0 to 8 unroll {{
    %p = loop.load %part[%warp] : memref<8xf32, #tile.memory<shared>>
    %old = loop.load %acc[] : memref<f32, #tile.memory<register>>
    %new = arith.addf %old, %p : f32
    loop.store %new, %acc[] : memref<f32, #tile.memory<register>>
  }}
  %total = loop.load %acc[] : memref<f32, #tile.memory<register>>
  %mean = arith.mulf %total, %inv_n : f32
  %me = arith.addf %mean, %eps : f32
  %r = math.rsqrt %me : f32
  %wv = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  loop.for %i = 0 to 2 unroll {{
    kernel.move 4 %w[%i * 1024 + %thread * 4] to %wv[%i, 0]
      : memref<2048xf32> to memref<2x4xf32, #tile.memory<register>>
  }}
  %y = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  loop.for %i = 0 to 2 unroll {{
    loop.for %v = 0 to 4 unroll {{
      %in_2 = loop.load %in[%i, %v] : memref<2x4xf32, #tile.memory<register>>
      %s = arith.mulf %in_2, %r : f32
      %wv_1 = loop.load %wv[%i, %v] : memref<2x4xf32, #tile.memory<register>>
      %y_1 = arith.mulf %s, %wv_1 : f32
      loop.store %y_1, %y[%i, %v] : memref<2x4xf32, #tile.memory<register>>
    }}
  }}
  loop.for %i = 0 to 2 unroll {{
    kernel.move 4 %y[%i, 0] to %out[0, %block, %i * 1024 + %thread * 4]
      : memref<2x4xf32, #tile.memory<register>> to memref<1x32x2048xf32>
  }}
}}
"""


def _block_fold(value: str, op: str, start: str, name: str) -> str:
    """Fold a value over the 256 threads of a CTA, through shared memory of its own."""
    return f"""
  {_warp_fold(value, op, name)}
  %{name}_part = kernel.alloc : memref<8xf32, #tile.memory<shared>>
  loop.guard where (%t mod 32 < 1) {{
    loop.store %{name}1, %{name}_part[%t floordiv 32] : memref<8xf32, #tile.memory<shared>>
  }}
  kernel.barrier
  %{name}_acc = kernel.alloc : memref<f32, #tile.memory<register>>
  loop.store {start}, %{name}_acc[] : memref<f32, #tile.memory<register>>
  loop.for %warp = 0 to 8 unroll {{
    %p = loop.load %{name}_part[%warp] : memref<8xf32, #tile.memory<shared>>
    %old = loop.load %{name}_acc[] : memref<f32, #tile.memory<register>>
    %new = {op} %old, %p : f32
    loop.store %new, %{name}_acc[] : memref<f32, #tile.memory<register>>
  }}
  %{name} = loop.load %{name}_acc[] : memref<f32, #tile.memory<register>>
"""


SOFTMAX = f"""
kernel.func @k_softmax(%x: memref<64x1000xf32>, %out: memref<64x1000xf32>) blocks(%row = 64) threads(%t = 256) {{
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xff800000 : f32
  %in = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[%row, %t * 4] to %in[0] where (%t * 4 < 1000)
    : memref<64x1000xf32> to memref<4xf32, #tile.memory<register>>
  %max_reg = kernel.alloc : memref<f32, #tile.memory<register>>
  loop.store %lowest, %max_reg[] : memref<f32, #tile.memory<register>>
  loop.for %v = 0 to 4 unroll {{
    %a = loop.load %in[%v] : memref<4xf32, #tile.memory<register>>
    %c = loop.inside where (%t * 4 + %v < 1000)
    %b = arith.select %c, %a, %lowest : f32
    %old = loop.load %max_reg[] : memref<f32, #tile.memory<register>>
    %new = arith.maximumf %old, %b : f32
    loop.store %new, %max_reg[] : memref<f32, #tile.memory<register>>
  }}
  %mine = loop.load %max_reg[] : memref<f32, #tile.memory<register>>
  {_block_fold("%mine", "arith.maximumf", "%lowest", "max")}
  %e = kernel.alloc : memref<4xf32, #tile.memory<register>>
  %sum_reg = kernel.alloc : memref<f32, #tile.memory<register>>
  loop.store %zero, %sum_reg[] : memref<f32, #tile.memory<register>>
  loop.for %v = 0 to 4 unroll {{
    %a = loop.load %in[%v] : memref<4xf32, #tile.memory<register>>
    %d = arith.subf %a, %max : f32
    %exp = math.exp %d : f32
    loop.store %exp, %e[%v] : memref<4xf32, #tile.memory<register>>
    %c = loop.inside where (%t * 4 + %v < 1000)
    %b = arith.select %c, %exp, %zero : f32
    %old = loop.load %sum_reg[] : memref<f32, #tile.memory<register>>
    %new = arith.addf %old, %b : f32
    loop.store %new, %sum_reg[] : memref<f32, #tile.memory<register>>
  }}
  %part = loop.load %sum_reg[] : memref<f32, #tile.memory<register>>
  {_block_fold("%part", "arith.addf", "%zero", "sum")}
  loop.for %v = 0 to 4 unroll {{
    %exp = loop.load %e[%v] : memref<4xf32, #tile.memory<register>>
    %q = arith.divf %exp, %sum : f32
    loop.store %q, %e[%v] : memref<4xf32, #tile.memory<register>>
  }}
  loop.guard where (%t * 4 < 1000) {{
    kernel.move 4 %e[0] to %out[%row, %t * 4] : memref<4xf32, #tile.memory<register>> to memref<64x1000xf32>
  }}
}}
"""

RELU_MATMUL = """
func.func @main(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>) -> memref<16x16xf32> {
  %out = memref.alloc() : memref<16x16xf32>
  kernel.launch @k_matmul(%x, %bias, %w, %out)
    : memref<16x64xf32>, memref<64xf32>, memref<64x16xf32>, memref<16x16xf32>
  func.return %out : memref<16x16xf32>
}
kernel.func @k_matmul(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>, %out: memref<16x16xf32>)
    blocks(%block = 1) threads(%t = 256) {
  %m = loop.index [%t floordiv 16]
  %n = loop.index [%t mod 16]
  %zero = arith.constant 0.0 : f32
  %xs = kernel.alloc : memref<16x32xf32, strided<[33, 1]>, #tile.memory<shared>>
  %ws = kernel.alloc : memref<32x16xf32, #tile.memory<shared>>
  %acc = kernel.alloc : memref<f32, #tile.memory<register>>
  loop.store %zero, %acc[] : memref<f32, #tile.memory<register>>
  loop.for %ko = 0 to 2 {
    loop.for %c = 0 to 2 unroll {
      %xv = loop.load %x[%c * 8 + %t floordiv 32, %ko * 32 + %t mod 32] : memref<16x64xf32>
      %bv = loop.load %bias[%ko * 32 + %t mod 32] : memref<64xf32>
      %sum = arith.addf %xv, %bv : f32
      loop.store %sum, %xs[%c * 8 + %t floordiv 32, %t mod 32]
        : memref<16x32xf32, strided<[33, 1]>, #tile.memory<shared>>
      kernel.move 1 %w[%ko * 32 + %c * 16 + %t floordiv 16, %t mod 16] to %ws[%c * 16 + %t floordiv 16, %t mod 16]
        : memref<64x16xf32> to memref<32x16xf32, #tile.memory<shared>>
    }
    kernel.barrier
    loop.for %ki = 0 to 32 unroll {
      %a = loop.load %xs[%m, %ki] : memref<16x32xf32, strided<[33, 1]>, #tile.memory<shared>>
      %b = loop.load %ws[%ki, %n] : memref<32x16xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      %old = loop.load %acc[] : memref<f32, #tile.memory<register>>
      %new = arith.addf %old, %p : f32
      loop.store %new, %acc[] : memref<f32, #tile.memory<register>>
    }
    kernel.barrier
  }
  %total = loop.load %acc[] : memref<f32, #tile.memory<register>>
  %y = arith.maximumf %total, %zero : f32
  loop.store %y, %out[%m, %n] : memref<16x16xf32>
}
"""


def test_rms_norm() -> None:
    x, w = randn(1, 32, 2048), randn(2048)
    simulation = run(RMS_NORM, x, w)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * w
    assert [str(f) for f in simulation.findings] == []
    np.testing.assert_allclose(simulation.outputs[0], expected, rtol=1e-5)
    assert simulation.outputs[0].dtype == np.float32


def test_rms_norm_runs_all_ctas_at_once(count_calls: Callable[[Callable[[], object]], int]) -> None:
    x, w = randn(1, 32, 2048), randn(2048)
    module = LocatingParser(new_context(), RMS_NORM, "test.mlir").parse_module()
    assert count_calls(lambda: simulate(module, [x, w])) < 50_000


def test_rms_norm_without_checks_is_the_same() -> None:
    x, w = randn(1, 32, 2048), randn(2048)
    np.testing.assert_array_equal(run(RMS_NORM, x, w, check=False).outputs[0], run(RMS_NORM, x, w).outputs[0])


def test_rms_norm_counters() -> None:
    counters = run(RMS_NORM, randn(1, 32, 2048), randn(2048)).counters["k_rms_norm"]
    row, rows = 2048 * 4, 32
    assert counters.global_bytes_read == 2 * rows * row
    assert counters.global_bytes_written == rows * row
    assert counters.global_sectors_read == 2 * rows * row // 32
    assert counters.global_sectors_written == rows * row // 32
    assert counters.barriers == rows
    # one store by lane 0 of each of 8 warps, eight loads of one word by each of 8 warps
    assert counters.shared_wavefronts == counters.shared_ideal_wavefronts == rows * (8 + 8 * 8)
    assert counters.widest == {
        ("global", "read"): 16,
        ("global", "write"): 16,
        ("shared", "read"): 4,
        ("shared", "write"): 4,
    }


STEPS = """
kernel.func @steps(%x: memref<16xf32>, %out: memref<16xf32>) blocks(%block = 1) threads(%thread = 1) {
  %r = kernel.alloc : memref<4x4xf32, #tile.memory<register>>
  loop.for %i = 0 to 4 unroll {
    loop.for %j = 0 to 4 unroll {
      %in = loop.load %x[%i * 4 + %j] : memref<16xf32>
      loop.store %in, %r[%i, %j] : memref<4x4xf32, #tile.memory<register>>
    }
  }
  loop.for %i_1 = 0 to 2 unroll {
    %even = loop.index [%i_1 * 2]
    loop.for %j_1 = 0 to COUNT unroll {
      %a = loop.load %r[%even, %j_1] : memref<4x4xf32, #tile.memory<register>>
      %b = arith.addf %a, %a : f32
      loop.store %b, %r[%even, %j_1] : memref<4x4xf32, #tile.memory<register>>
    }
    %odd = loop.index [%i_1 * 2 + 1]
    loop.for %j_2 = 0 to COUNT unroll {
      %back = loop.index [%j_2 * -1 + 3]
      %c = loop.load %r[%odd, %back] : memref<4x4xf32, #tile.memory<register>>
      %d = arith.mulf %c, %c : f32
      loop.store %d, %r[%odd, NEXT] : memref<4x4xf32, #tile.memory<register>>
    }
  }
  loop.for %i_2 = 0 to 4 unroll {
    loop.for %j_3 = 0 to 4 unroll {
      %e = loop.load %r[%i_2, %j_3] : memref<4x4xf32, #tile.memory<register>>
      loop.store %e, %out[%i_2 * 4 + %j_3] : memref<16xf32>
    }
  }
}
"""


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (RMS_NORM, [(1, 32, 2048), (2048,)]),
        (STEPS.replace("NEXT", "%back").replace("COUNT", "4"), [(16,)]),
        # Each iteration reads what the one before has written.
        (STEPS.replace("NEXT", "%j_2 * -1 + 2").replace("COUNT", "3"), [(16,)]),
        (
            STEPS.replace("%i_1 * 2 + 1", "%i_1 * 2 + 2 - %i_1 * 1").replace("NEXT", "%back").replace("COUNT", "4"),
            [(16,)],
        ),
        (SOFTMAX, [(64, 1000)]),
        (RELU_MATMUL, [(16, 64), (64,), (64, 16)]),
        (RELU_MATMUL.replace("kernel.barrier", ""), [(16, 64), (64,), (64, 16)]),
        (RELU_MATMUL.replace("%c * 8", "%c * 9"), [(16, 64), (64,), (64, 16)]),
    ],
)
def test_loops_run_at_once_mean_what_they_mean_in_order(
    text: str, shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [randn(*shape) for shape in shapes]
    at_once = run(text, *inputs)
    monkeypatch.setattr(Nests, "of", lambda self, loop: None)
    in_order = run(text, *inputs)
    np.testing.assert_array_equal(at_once.outputs[0], in_order.outputs[0])
    assert at_once.counters == in_order.counters
    assert [(f.kind, f.location, f.count) for f in at_once.findings] == [
        (f.kind, f.location, f.count) for f in in_order.findings
    ]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_barrier_is_needed(index: int) -> None:
    """The barrier of RMSNorm, and the two of the matmul's K loop."""
    text = RELU_MATMUL if index else RMS_NORM
    inputs = (randn(16, 64), randn(64), randn(64, 16)) if index else (randn(1, 32, 2048), randn(2048))
    pieces = text.split("kernel.barrier")
    cut = max(index - 1, 0)
    findings = run("kernel.barrier".join([*pieces[:cut], pieces[cut] + pieces[cut + 1], *pieces[cut + 2 :]]), *inputs)
    races = [f for f in findings.findings if f.kind == "data race"]
    assert races
    assert "with no barrier between" in races[0].message


def test_softmax_of_a_masked_row() -> None:
    x = randn(64, 1000)
    simulation = run(SOFTMAX, x)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    assert [str(f) for f in simulation.findings] == []
    np.testing.assert_allclose(simulation.outputs[0], e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_relu_matmul_through_a_host_function() -> None:
    x, bias, w = randn(16, 64), randn(64), randn(64, 16)
    simulation = run(RELU_MATMUL, x, bias, w)
    assert [str(f) for f in simulation.findings] == []
    np.testing.assert_allclose(simulation.outputs[0], np.maximum((x + bias) @ w, 0), rtol=1e-4, atol=1e-4)


def copy_kernel(body: str, stored: str) -> str:
    """A kernel of 2 CTAs of 32 threads that stores a value for each of 64 elements %i."""
    return f"""
    kernel.func @k(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 2) threads(%t = 32) {{
      %i = loop.index [%block * 32 + %t]
      {body}
      loop.store {stored}, %out[%i] : memref<64xf32>
    }}
    """


def test_nan_inf_and_negative_zero_stay_what_they_are() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40] * 13, np.float32)[:64]
    out = run(copy_kernel("%v = loop.load %x[%i] : memref<64xf32>", "%v"), x).outputs[0]
    np.testing.assert_array_equal(out.view(np.int32), x.view(np.int32))


def test_integers_wrap_around() -> None:
    x = np.full(64, 2**31 - 1, np.int32)
    text = copy_kernel("%a = loop.load %x[%i] : memref<64xf32>\n%v = arith.addi %a, %a : f32", "%v").replace(
        "f32", "i32"
    )
    np.testing.assert_array_equal(run(text, x).outputs[0], np.full(64, -2, np.int32))


def test_inputs_are_not_changed_and_written_ones_come_back() -> None:
    x = randn(64)
    before = x.copy()
    simulation = run(
        """
        kernel.func @k(%x: memref<64xf32>) blocks(%block = 1) threads(%t = 64) {
          %v = loop.load %x[%t] : memref<64xf32>
          %w = arith.addf %v, %v : f32
          loop.store %w, %x[%t] : memref<64xf32>
        }
        """,
        x,
    )
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(simulation.outputs[0], x + x)
    assert simulation.findings == []


def test_a_launch_sees_what_the_one_before_wrote() -> None:
    simulation = run(
        """
        kernel.func @double(%a: memref<64xf32>, %b: memref<64xf32>) blocks(%block = 2) threads(%t = 32) {
          %v = loop.load %a[%block * 32 + %t] : memref<64xf32>
          %w = arith.addf %v, %v : f32
          loop.store %w, %b[63 - %block * 32 - %t] : memref<64xf32>
        }
        func.func @inner(%x: memref<64xf32>, %out: memref<64xf32>) {
          %tmp = memref.alloc() : memref<64xf32>
          kernel.launch @double(%x, %tmp) : memref<64xf32>, memref<64xf32>
          kernel.launch @double(%tmp, %out) : memref<64xf32>, memref<64xf32>
          func.return
        }
        func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
          %out = memref.alloc() : memref<64xf32>
          func.call @inner(%x, %out) : (memref<64xf32>, memref<64xf32>) -> ()
          func.return %out : memref<64xf32>
        }
        """,
        np.arange(64, dtype=np.float32),
    )
    np.testing.assert_array_equal(simulation.outputs[0], 4 * np.arange(64))
    assert simulation.findings == []


def test_many_ctas_run_in_chunks_that_race_with_each_other() -> None:
    n = 1 << 19
    text = copy_kernel("%v = loop.load %x[%i] : memref<64xf32>", "%v")
    text = text.replace("64", str(n)).replace("= 2)", f"= {n // 32})")
    x = np.arange(n, dtype=np.float32)
    simulation = run(text, x)
    np.testing.assert_array_equal(simulation.outputs[0], x)
    assert simulation.findings == []
    race, _ = run(text.replace("%out[%i]", f"%out[%i mod {n - 1}]"), x).findings
    assert (race.kind, race.count) == ("data race", 1)
    assert f"thread 31 of CTA {n // 32 - 1} writes %out[0], which thread 0 of CTA 0 writes" in race.message


def test_loop_bounds_may_vary_by_lane() -> None:
    simulation = run(
        """
        kernel.func @k(%out: memref<32xi64>) blocks(%block = 1) threads(%t = 32) {
          %n = kernel.alloc : memref<i64, #tile.memory<register>>
          %zero = arith.constant 0 : i64
          %one = arith.constant 1 : i64
          loop.store %zero, %n[] : memref<i64, #tile.memory<register>>
          loop.for %i = 0 to min(%t - 3, 7) {
            %v = loop.load %n[] : memref<i64, #tile.memory<register>>
            %w = arith.addi %v, %one : i64
            loop.store %w, %n[] : memref<i64, #tile.memory<register>>
          }
          %r = loop.load %n[] : memref<i64, #tile.memory<register>>
          loop.store %r, %out[%t] : memref<32xi64>
        }
        """
    )
    np.testing.assert_array_equal(simulation.outputs[0], np.clip(np.arange(32) - 3, 0, 7))
    assert simulation.findings == []


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("loop.store %v, %out[%t] : memref<32xi64>", 0),
        # the accumulator keeps the loop over %j in order, and with it the stores of the loop over %i
        (
            """
            %n = loop.load %acc[%i] : memref<4xi64, #tile.memory<register>>
            %m = arith.addi %n, %v : i64
            loop.store %m, %acc[%i] : memref<4xi64, #tile.memory<register>>
            loop.store %v, %out[%t] : memref<32xi64>
            """,
            0,
        ),
        ("loop.store %v, %acc[0] : memref<4xi64, #tile.memory<register>>", 1),
    ],
)
def test_loop_writes_happen_in_order(body: str, output: int) -> None:
    simulation = run(
        f"""
        kernel.func @k(%out: memref<32xi64>, %last: memref<32xi64>) blocks(%block = 1) threads(%t = 32) {{
          %acc = kernel.alloc : memref<4xi64, #tile.memory<register>>
          %zero = arith.constant 0 : i64
          loop.for %i = 0 to 4 unroll {{
            loop.store %zero, %acc[%i] : memref<4xi64, #tile.memory<register>>
          }}
          loop.store %zero, %out[%t] : memref<32xi64>
          loop.for %i = 0 to 4 unroll {{
            loop.for %j = 0 to 3 unroll {{
              %k = loop.index [%i * 10 + %j]
              %v = arith.index_cast %k : index to i64
              loop.guard where (%i + %j < 4) {{
                {body}
              }}
            }}
          }}
          %r = loop.load %acc[0] : memref<4xi64, #tile.memory<register>>
          loop.store %r, %last[%t] : memref<32xi64>
        }}
        """
    )
    np.testing.assert_array_equal(simulation.outputs[output], [30] * 32)
    assert simulation.findings == []


def test_overlapping_moves_happen_in_order() -> None:
    simulation = run(
        """
        kernel.func @k(%x: memref<2xf32>, %out: memref<32xf32>) blocks(%block = 1) threads(%t = 32) {
          %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
          loop.for %i = 0 to 3 unroll {
            kernel.move 2 %x[0] to %r[%i] : memref<2xf32> to memref<4xf32, #tile.memory<register>>
          }
          %v = loop.load %r[1] : memref<4xf32, #tile.memory<register>>
          loop.store %v, %out[%t] : memref<32xf32>
        }
        """,
        np.array([1, 2], np.float32),
        check=False,
    )
    np.testing.assert_array_equal(simulation.outputs[0], [1] * 32)


def test_a_move_fills_with_zeros_and_touches_nothing_outside() -> None:
    simulation = run(
        """
        kernel.func @k(%x: memref<50xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%t = 32) {
          %s = kernel.alloc : memref<64xf32, #tile.memory<shared>>
          kernel.move 2 %x[%t * 2] to %s[%t * 2] where (%t * 2 < 50)
            : memref<50xf32> to memref<64xf32, #tile.memory<shared>>
          kernel.move 2 %s[%t * 2] to %out[%t * 2] : memref<64xf32, #tile.memory<shared>> to memref<64xf32>
        }
        """,
        np.ones(50, np.float32),
    )
    np.testing.assert_array_equal(simulation.outputs[0], [1.0] * 50 + [0.0] * 14)
    assert simulation.findings == []


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"takes 2 inputs .*, got 1 arrays"):
        run(RMS_NORM, randn(1, 32, 2048))
    with pytest.raises(InvalidInputError, match=r"%w of @k_rms_norm must be float32 of shape \(2048,\)"):
        run(RMS_NORM, randn(1, 32, 2048), randn(2047))
    with pytest.raises(Error, match="does not define a function @nope"):
        run(RMS_NORM, entry="nope")
    with pytest.raises(UnsupportedError, match=r"memref<\?xf32> cannot be simulated"):
        run("kernel.func @k(%x: memref<?xf32>) blocks(%b = 1) threads(%t = 1) {}", randn(3))
    with pytest.raises(UnsupportedError, match=r"does not run tile\.launch in the host function @f"):
        run("func.func @f() {\n tile.launch (%a = 2 : block) {}\n func.return\n}")
    with pytest.raises(UnsupportedError, match=r"memref\.load .*: it cannot be evaluated here"):
        run(
            "kernel.func @k(%x: memref<f32>) blocks(%b = 1) threads(%t = 1) {%v = memref.load %x[] : memref<f32>}",
            np.float32(1).reshape(()),
        )
    with pytest.raises(Error, match="several entry points, @f, @g"):
        run("func.func @f() { func.return }\nfunc.func @g() { func.return }")
