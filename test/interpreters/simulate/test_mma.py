"""Products of matrices in the simulator: the lanes of PTX, their rounding, and what a warp must not do."""

from __future__ import annotations

import numpy as np
import pytest

from deplodock.errors import UnsupportedError
from deplodock.interpreters.simulate import Simulation, simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser

TYPES = (
    "memref<2x4xf16, #tile.memory<register>>, memref<4xf16, #tile.memory<register>> "
    "-> memref<2x2xf32, #tile.memory<register>>"
)

FILL = "kernel.move 4 %w[%thread, 0] to %b[0] : memref<{threads}x4xf16> to memref<4xf16, #tile.memory<register>>"


def kernel(product: str, threads: int = 64, fill: str = "") -> str:
    """Each lane's fragments are rows of %x and %w; the sums start at %out."""
    return f"""
    kernel.func @k(%x: memref<{threads}x8xf16>, %w: memref<{threads}x4xf16>, %out: memref<{threads}x4xf32>)
        blocks(%block = 1) threads(%thread = {threads}) {{
      %a = kernel.alloc : memref<2x4xf16, #tile.memory<register>>
      %b = kernel.alloc : memref<4xf16, #tile.memory<register>>
      %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
      loop.for %h = 0 to 2 unroll {{
        kernel.move 4 %x[%thread, %h * 4] to %a[%h, 0]
          : memref<{threads}x8xf16> to memref<2x4xf16, #tile.memory<register>>
        kernel.move 2 %out[%thread, %h * 2] to %c[%h, 0]
          : memref<{threads}x4xf32> to memref<2x2xf32, #tile.memory<register>>
      }}
      {fill or FILL.format(threads=threads)}
      {product}
      loop.for %h = 0 to 2 unroll {{
        kernel.move 2 %c[%h, 0] to %out[%thread, %h * 2]
          : memref<2x2xf32, #tile.memory<register>> to memref<{threads}x4xf32>
      }}
    }}
    """


PRODUCT = f"kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1] : {TYPES}"


def run(text: str, x: Array, w: Array, sums: Array) -> Simulation:
    module = LocatingParser(new_context(), text, "test.mlir").parse_module()
    module.verify()
    return simulate(module, [x, w, sums])


def matrices(fragments: Array, w: Array, sums: Array) -> tuple[Array, Array, Array]:
    """The matrices of one warp, by the tables of the PTX ISA for mma.m16n8k16 with .f16."""
    a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    for lane in range(32):
        group, thread = lane // 4, lane % 4
        for i in range(8):
            # The fragment of the operation is a[half][k], that of PTX counts pairs along k, of both halves in turn.
            row = group + (8 if i // 2 % 2 else 0)
            column = thread * 2 + i % 2 + (8 if i >= 4 else 0)
            a[row, column] = fragments[lane, (i // 2 % 2) * 4 + i // 4 * 2 + i % 2]
        for i in range(4):
            b[thread * 2 + i % 2 + (8 if i >= 2 else 0), group] = w[lane, i]
        for i in range(4):
            c[group + (8 if i >= 2 else 0), thread * 2 + i % 2] = sums[lane, i]
    return a, b, c


def test_the_fragments_are_those_of_ptx() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-8, 8, (64, n)).astype(np.float16) for n in (8, 4))
    sums = rng.integers(-8, 8, (64, 4)).astype(np.float32)
    result = run(kernel(PRODUCT), x, w, sums)
    assert not result.findings
    for warp in (slice(0, 32), slice(32, 64)):
        a, b, c = matrices(x[warp], w[warp], sums[warp])
        _, _, got = matrices(x[warp], w[warp], result.outputs[0][warp])
        np.testing.assert_array_equal(got, a @ b + c)


BYTES = (
    kernel(PRODUCT)
    .replace("m16n8k16", "m16n8k32")
    .replace("x8xf16", "x16xi8")
    .replace("x4xf16", "x8xi8")
    .replace("<4xf16", "<8xi8")
    .replace("f32", "i32")
    .replace("kernel.move 4 %x[%thread, %h * 4]", "kernel.move 8 %x[%thread, %h * 8]")
    .replace("kernel.move 4", "kernel.move 8")
)
"""The product of bytes: `a[half][k]` has 8 elements along k, of two registers."""


def test_the_fragments_of_bytes_are_those_of_ptx() -> None:
    """The tables of the PTX ISA for mma.m16n8k32 with .s8; sums wrap."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, (64, n)).astype(np.int8) for n in (16, 8))
    sums = np.full((64, 4), 2**31 - 1, np.int32)
    result = run(BYTES, x, w, sums)
    assert not result.findings
    for warp in (slice(0, 32), slice(32, 64)):
        a, b, c = np.zeros((16, 32), np.int64), np.zeros((32, 8), np.int64), np.zeros((16, 8), np.int64)
        for lane in range(32):
            group, thread = lane // 4, lane % 4
            for i in range(16):
                half, column = i // 4 % 2, thread * 4 + i % 4 + (16 if i >= 8 else 0)
                a[group + 8 * half, column] = x[warp][lane, half * 8 + i // 8 * 4 + i % 4]
            for i in range(8):
                b[thread * 4 + i % 4 + (16 if i >= 4 else 0), group] = w[warp][lane, i]
            for i in range(4):
                c[group + (8 if i >= 2 else 0), thread * 2 + i % 2] = result.outputs[0][warp][lane, i]
        np.testing.assert_array_equal(c, (a @ b + 2**31 - 1).astype(np.int32))


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_are_rounded_toward_zero(sign: int) -> None:
    """1 + 3/4 of the last bit stays 1; rounded to nearest it would be the next number."""
    x, w = np.zeros((32, 8), np.float16), np.zeros((32, 4), np.float16)
    x[0, 0], w[0, 0] = sign * 3 * 2.0**-12, 2.0**-13
    sums = np.full((32, 4), sign, np.float32)
    result = run(kernel(PRODUCT, threads=32), x, w, sums)
    np.testing.assert_array_equal(result.outputs[0], sums)
    x[0, 0] *= 2
    result = run(kernel(PRODUCT, threads=32), x, w, sums)
    assert result.outputs[0][0, 0] == np.float32(sign * (1 + 2.0**-23))


def ones(threads: int) -> tuple[Array, Array, Array]:
    return np.ones((threads, 8), np.float16), np.ones((threads, 4), np.float16), np.ones((threads, 4), np.float32)


READ = """
    kernel.func @k(%x: memref<64x8xf16>, %out: memref<64x{count}x2xf16>) blocks(%block = 1) threads(%thread = 64) {{
      %xs = kernel.alloc : memref<64x8xf16, #tile.memory<shared>>
      %a = kernel.alloc : memref<{count}x2xf16, #tile.memory<register>>
      kernel.move 8 %x[%thread, 0] to %xs[%thread, 0]
        : memref<64x8xf16> to memref<64x8xf16, #tile.memory<shared>>
      {barrier}
      kernel.ldmatrix {count} {trans} %xs[{rows}, 0] to %a[d0, d1]
        : memref<64x8xf16, #tile.memory<shared>> to memref<{count}x2xf16, #tile.memory<register>>
      loop.for %i = 0 to {count} unroll {{
        kernel.move 2 %a[%i, 0] to %out[%thread, %i, 0]
          : memref<{count}x2xf16, #tile.memory<register>> to memref<64x{count}x2xf16>
      }}
    }}
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", "trans"])
def test_matrices_are_spread_as_ptx_says(count: int, trans: str) -> None:
    """The tables of the PTX ISA for ldmatrix.m8n8, without and with .trans."""
    x = np.arange(512, dtype=np.float16).reshape(64, 8)
    module = LocatingParser(
        new_context(), READ.format(count=count, trans=trans, rows="%thread", barrier="kernel.barrier"), "test.mlir"
    ).parse_module()
    module.verify()
    result = simulate(module, [x])
    assert not result.findings
    for thread in range(64):
        group, lane = thread % 32 // 4, thread % 4
        for matrix in range(count):
            rows = x[thread // 32 * 32 + matrix * 8 :][:8]
            wanted = rows[2 * lane : 2 * lane + 2, group] if trans else rows[group, 2 * lane : 2 * lane + 2]
            np.testing.assert_array_equal(result.outputs[0][thread, matrix], wanted)


def test_rows_of_matrices_need_a_barrier() -> None:
    """Those that another warp has written."""
    text = READ.format(count=4, trans="", rows="63 - %thread", barrier="")
    module = LocatingParser(new_context(), text, "test.mlir").parse_module()
    result = simulate(module, [np.ones((64, 8), np.float16)])
    assert [finding.kind for finding in result.findings] == ["data race"]


def test_a_warp_that_diverges() -> None:
    result = run(kernel(f"loop.guard where (%thread < 40) {{ {PRODUCT} }}"), *ones(64))
    (finding,) = result.findings
    assert finding.kind == "divergent mma"
    assert "only 8 of the 32 lanes of warp 1 of CTA 0 take part" in finding.message
    assert finding.location.startswith("test.mlir:")


def test_part_of_a_warp_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="whole warps"):
        run(kernel(PRODUCT, threads=48), *ones(48))


def test_a_fragment_without_a_value() -> None:
    fill = f"loop.guard where (0 < %thread) {{ {FILL.format(threads=64)} }}"
    result = run(kernel(PRODUCT, fill=fill), *ones(64))
    assert [finding.kind for finding in result.findings] == ["unwritten read"]
    assert "an element of a fragment holds no value yet" in result.findings[0].message
