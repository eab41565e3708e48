"""Copies of boxes: zeros outside of the buffer, bytes that complete phases, each mistake named, and the CUDA text.

The simulator finds the mistakes of a run, verify-barriers those of all runs.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from rounded_boxes import ROUNDED, numbers
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.interpreters.scalars import round_tf32
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.place_barriers import place_barriers
from deplodock.passes.kernel.verify_barriers import verify_barriers
from deplodock.runtime.nvcc import compile_cubin, find_nvcc

MAP = "!kernel.tensor_map<memref<72x20xf32>, box [16, 8]>"
SLAB = "memref<3x16x8xf32, #tile.memory<shared>>"
EMPTY = "kernel.wait_phase %empty[(%k + 1) mod 3], (%k + 1) floordiv 3 + 1"
FULL = "kernel.wait_phase %full[%k mod 3], %k floordiv 3\n"
READ = "%v = loop.load %s[%k mod 3, %i * 4 + %thread floordiv 8, %thread mod 8]"
RELEASE = "kernel.arrive warp %empty[%k mod 3]\n"
EXPECT = "kernel.arrive %full[(%k + 1) mod 3] expect 512"
WRITE = f"loop.guard where (%thread < 1) {{ %z = arith.constant 0.0 : f32 loop.store %z, %s[2, 0, 0] : {SLAB} }}"
FENCE = "kernel.fence_proxy_async"
RING = f"""
kernel.func @k(%x: {MAP}, %out: memref<5x3x16x8xf32>) blocks(%block = 3) threads(%thread = 32) {{
  %s = kernel.alloc : {SLAB}
  %full = kernel.mbarrier 3 arrivals 1
  %empty = kernel.mbarrier 3 arrivals 1
  {FENCE}
  kernel.barrier
  loop.guard where (%thread < 1) {{
    kernel.arrive %full[0] expect 512
    kernel.tma_load %x[0, %block * 8] to %s[0, 0, 0] signal %full[0] : {MAP} to {SLAB}
  }}
  loop.for %k = 0 to 5 {{
    loop.guard where (%k < 4) {{
      {EMPTY}
      loop.guard where (%thread < 1) {{
        {EXPECT}
        kernel.tma_load %x[%k * 16 + 16, %block * 8] to %s[(%k + 1) mod 3, 0, 0] signal %full[(%k + 1) mod 3]
          : {MAP} to {SLAB}
      }}
    }}
    {FULL}
    loop.for %i = 0 to 4 unroll {{
      {READ} : {SLAB}
      loop.store %v, %out[%k, %block, %i * 4 + %thread floordiv 8, %thread mod 8] : memref<5x3x16x8xf32>
    }}
    {RELEASE}
  }}
}}
func.func @main(%x: memref<72x20xf32>) -> memref<5x3x16x8xf32> {{
  %out = memref.alloc() : memref<5x3x16x8xf32>
  %map = kernel.tensor_map %x : {MAP}
  kernel.launch @k(%map, %out) : {MAP}, memref<5x3x16x8xf32>
  func.return %out : memref<5x3x16x8xf32>
}}"""
X = np.arange(1440, dtype=np.float32).reshape(72, 20)


def module_of(text: str) -> ModuleOp:
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def verify(text: str) -> None:
    (function,) = (op for op in module_of(text).walk() if isinstance(op, kernel.FuncOp))
    verify_barriers(function)


def test_boxes_are_copied_with_zeros_outside() -> None:
    simulation = simulate(module_of(RING), [X])
    assert not simulation.findings
    padded = np.zeros((80, 24), np.float32)
    padded[:72, :20] = X
    assert np.array_equal(simulation.outputs[0], padded.reshape(5, 16, 3, 8).transpose(0, 2, 1, 3))
    assert simulation.counters["k"].shared_bytes_written == 15 * 512


def test_boxes_of_tf32_are_rounded_as_they_are_copied() -> None:
    simulation = simulate(module_of(ROUNDED), [given := numbers()])
    assert not simulation.findings
    for got in simulation.outputs:
        assert got.tobytes() == round_tf32(given).tobytes() != given.tobytes()
    whole = simulate(module_of(ROUNDED.replace(", tf32>", ">")), [given]).outputs[0]
    assert whole.tobytes() == given.tobytes()


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("expect 512", "expect 256", ("wrong byte count", "kernel.wait_phase")),
        ("expect 512", "expect 1024", ("wrong byte count", "kernel.wait_phase")),
        (FULL, "", ("read in flight", "loop.load")),
        (FULL, FULL.replace("floordiv 3", "floordiv 3 + 1"), ("phase never completes", "kernel.wait_phase")),
        (EMPTY, "", ("data race", "kernel.tma_load")),
        (EXPECT, "", ("phase never completes", "kernel.wait_phase")),
        ("%s[0, 0, 0]", "%s[0, 0, 4]", ("misaligned slot", "kernel.tma_load")),
        ("%s[0, 0, 0]", "%s[2, 8, 0]", ("out of bounds", "kernel.tma_load")),
        ("%thread < 1", "%thread < 2", ("repeated issue", "kernel.tma_load")),
        ("kernel.barrier", "", ("uninitialised barrier", "kernel.arrive")),
        (FENCE, "", ("missing proxy fence", "kernel.tma_load")),
        (f"{FENCE}\n  kernel.barrier", f"kernel.barrier\n  {FENCE}", ("missing proxy fence", "kernel.tma_load")),
        (f"{FENCE}\n", f"{FENCE}\n  {WRITE}\n", ("missing proxy fence", "kernel.tma_load")),
    ],
    ids=[
        *("too few bytes", "too many bytes", "no wait", "wrong parity", "not released", "not expected"),
        *("misaligned slot", "outside", "several issue", "no barrier", "no fence", "late fence", "unfenced write"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, finding: tuple[str, str]) -> None:
    assert old in RING
    simulation = simulate(module_of(RING.replace(old, new, 1)), [X])
    assert finding in [(found.kind, found.op.name) for found in simulation.findings]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "expect 512",
            "expect 256",
            "kernel.wait_phase waits forever, wrong byte count: phase 0 of its barrier expects 256",
        ),
        ("expect 512", "expect 1024", "wrong byte count: phase 0 of its barrier expects 512 bytes more than come"),
        (FULL, "", "%s is read by loop.load while"),
        (FULL, FULL.replace("floordiv 3", "floordiv 3 + 1"), "the parity is wrong"),
        (EMPTY, "", "overwritten by kernel.tma_load with no phase between them; the slot is released early"),
        (EXPECT, "", "0 of 1 arrivals come before; an arrival is missing"),
        ("%s[0, 0, 0]", "%s[0, 0, 4]", "misaligned slot: kernel.tma_load copies a box to %s"),
        ("%thread < 1", "%thread < 2", "kernel.tma_load is issued by 2 threads; guard it"),
        (
            "(%thread < 1) {\n        kernel",
            "(%thread < 1, %block < 2) {\n        kernel",
            "leaves open how many threads",
        ),
        ("kernel.barrier", "", "with no phase between them"),
        (FENCE, "", "missing proxy fence: %full is written by kernel.mbarrier and then used by kernel.tma_load"),
        (f"{FENCE}\n  kernel.barrier", f"kernel.barrier\n  {FENCE}", "missing proxy fence: %full"),
        (f"{FENCE}\n", f"{FENCE}\n  {WRITE}\n", "missing proxy fence: %s is written by loop.store"),
    ],
    ids=[
        *("too few bytes", "too many bytes", "no wait", "wrong parity", "not released", "not expected"),
        *("misaligned slot", "several issue", "divergent", "no barrier", "no fence", "late fence", "unfenced write"),
    ],
)
def test_a_mistake_is_refused(old: str, new: str, reason: str) -> None:
    assert old in RING
    with pytest.raises(DiagnosticException) as error:
        verify(RING.replace(old, new, 1))
    assert reason in str(error.value)


def test_the_ring_is_proven() -> None:
    verify(RING)


def test_barriers_and_fences_are_placed() -> None:
    module = module_of(RING.replace(FENCE, WRITE).replace("kernel.barrier", ""))
    (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    place_barriers(function)
    verify_barriers(function)
    assert not simulate(module, [X]).findings
    assert sum(isinstance(op, kernel.FenceProxyAsyncOp) for op in module.walk()) == 2
    assert sum(isinstance(op, kernel.BarrierOp) for op in module.walk()) == 1


def test_a_slot_released_early_is_named() -> None:
    simulation = simulate(module_of(RING.replace(RELEASE, "").replace(FULL, f"{FULL} {RELEASE}")), [X])
    assert ("data race", "kernel.tma_load") in [(found.kind, found.op.name) for found in simulation.findings]
    assert "released early" in simulation.findings[0].message
    with pytest.raises(DiagnosticException, match="the slot is released early"):
        verify(RING.replace(RELEASE, "").replace(FULL, f"{FULL} {RELEASE}"))


def test_boxes_carry_what_nobody_wrote() -> None:
    text = RING.replace("@main(%x: memref<72x20xf32>)", "@main()").replace(
        "%out = mem", "%x = memref.alloc() : memref<72x20xf32> %out = mem"
    )
    (finding,) = simulate(module_of(text), []).findings[:1]
    assert (finding.kind, finding.op.name) == ("unwritten read", "kernel.tma_load")
    assert "%x[0, 0] holds no value yet, and `loop.store %v" in finding.message


def test_ctas_may_make_barriers_in_loops_of_different_length() -> None:
    text = f"""
    kernel.func @k(%x: {MAP}, %out: memref<3x16x8xf32>) blocks(%block = 3) threads(%thread = 128) {{
      %s = kernel.alloc : memref<16x8xf32, #tile.memory<shared>>
      loop.for %k = 0 to %block + 1 {{
        %full = kernel.mbarrier 1 arrivals 1
        {FENCE}
        kernel.barrier
        loop.guard where (%thread < 1) {{
          kernel.arrive %full[0] expect 512
          kernel.tma_load %x[%k * 16, 0] to %s[0, 0] signal %full[0] : {MAP} to memref<16x8xf32, #tile.memory<shared>>
        }}
        kernel.wait_phase %full[0], 0
        kernel.barrier
      }}
      %v = loop.load %s[%thread floordiv 8, %thread mod 8] : memref<16x8xf32, #tile.memory<shared>>
      loop.store %v, %out[%block, %thread floordiv 8, %thread mod 8] : memref<3x16x8xf32>
    }}"""
    main = RING[RING.index("func.func") :].replace("5x3x16x8", "3x16x8")
    simulation = simulate(module_of(text + main), [X])
    assert not simulation.findings
    np.testing.assert_array_equal(simulation.outputs[0], X[:48, :8].reshape(3, 16, 8))
    unfenced = simulate(module_of((text + main).replace(FENCE, "")), [X])
    assert [found.kind for found in unfenced.findings] == ["missing proxy fence"]


def test_the_text_counts_coordinates_from_the_last_dimension_and_aligns_slots() -> None:
    text = print_module(
        module_of(RING.replace("%s = ", "%r = kernel.alloc : memref<4xf32, #tile.memory<shared>> %s = "))
    )
    assert "void __launch_bounds__(32) k(const __grid_constant__ tensor_map x, float* __restrict__ out)" in text
    assert "__shared__ __align__(16) float r[4];" in text
    assert "__shared__ __align__(128) float s[384];" in text
    assert "tma_load_2(&s[(k + 1) % 3 * 128], &x, block * 8, k * 16 + 16, &full[(k + 1) % 3]);" in text


def test_boxes_are_aligned_in_the_pool() -> None:
    text = RING.replace("%s = ", "%r = kernel.alloc : memref<12292xf32, #tile.memory<shared>> %s = ")
    text = print_module(module_of(text))
    assert "extern __shared__ __align__(128) unsigned char shared_memory_128[];" in text
    assert "float* const s = reinterpret_cast<float*>(shared_memory_128 + 49280);" in text


def test_boxes_are_aligned_behind_kernels_without_boxes() -> None:
    """nvcc gives all declarations of a name the alignment of the first, and warns."""
    large = "%r = kernel.alloc : memref<12292xf32, #tile.memory<shared>>"
    plain = f"kernel.func @plain() blocks(%b = 1) threads(%t = 32) {{ {large} }}"
    text = print_module(module_of(plain + RING.replace("%s = ", f"{large} %s = ")))
    pools = re.findall(r"extern __shared__ __align__\((\d+)\) unsigned char (\w+)\[\];", text)
    assert pools == [("16", "shared_memory_16"), ("128", "shared_memory_128")]


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_of_each_rank_compile(rank: int) -> None:
    shape = "1x" * (rank - 1)
    type = f"!kernel.tensor_map<memref<{shape}8xf32>, box [{'1, ' * (rank - 1)}8]>"
    slab = "memref<8xf32, #tile.memory<shared>>"
    text = f"""
    kernel.func @k(%x: {type}, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {{
      %s = kernel.alloc : {slab}
      %full = kernel.mbarrier 1 arrivals 1
      kernel.barrier
      loop.guard where (%thread < 1) {{
        kernel.arrive %full[0] expect 32
        kernel.tma_load %x[{"0, " * (rank - 1)}0] to %s[0] signal %full[0] : {type} to {slab}
      }}
      kernel.wait_phase %full[0], 0
      %v = loop.load %s[%thread] : {slab}
      loop.store %v, %out[%thread] : memref<8xf32>
    }}"""
    (report,) = compile_cubin(print_module(module_of(text)), "sm_90").reports.values()
    assert report.spill_stores == report.spill_loads == 0
