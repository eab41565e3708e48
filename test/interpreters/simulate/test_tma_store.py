"""Stores of boxes: what lies outside of the buffer is left out, each mistake is named, and the CUDA text.

The simulator finds the mistakes of a run, verify-barriers those of all runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.place_barriers import place_barriers
from deplodock.passes.kernel.verify_barriers import verify_barriers
from deplodock.runtime.nvcc import compile_cubin, find_nvcc

MAP = "!kernel.tensor_map<memref<40x20xf32>, box [16, 8]>"
SLAB = "memref<32x8xf32, #tile.memory<shared>>"
READ = "    kernel.tma_wait 0\n"
FREE = f"{READ}    kernel.barrier\n"
WRITE = f"loop.store %v, %s[%i * 4 + %thread floordiv 8, %thread mod 8] : {SLAB}"
FENCE = "    kernel.fence_proxy_async\n"
GIVEN = f"{FENCE}    kernel.barrier\n"
COMMIT = "    kernel.tma_commit\n"
END = "  kernel.tma_wait 0\n}"
TILES = f"""
kernel.func @k(%y: {MAP}, %x: memref<3x48x8xf32>) blocks(%block = 3) threads(%thread = 32) {{
  %s = kernel.alloc : {SLAB}
  loop.for %k = 0 to 3 {{
{FREE}    loop.for %i = 0 to 4 unroll {{
      %v = loop.load %x[%block, %k * 16 + %i * 4 + %thread floordiv 8, %thread mod 8] : memref<3x48x8xf32>
      {WRITE}
    }}
{GIVEN}    loop.guard where (%thread < 1) {{
      kernel.tma_store %s[0, 0] to %y[%k * 16, %block * 8] : {SLAB} to {MAP}
    }}
{COMMIT}  }}
{END}
func.func @main(%x: memref<3x48x8xf32>) -> memref<40x20xf32> {{
  %y = memref.alloc() : memref<40x20xf32>
  %map = kernel.tensor_map %y : {MAP}
  kernel.launch @k(%map, %x) : {MAP}, memref<3x48x8xf32>
  func.return %y : memref<40x20xf32>
}}"""
X = np.arange(3 * 48 * 8, dtype=np.float32).reshape(3, 48, 8)

UNFINISHED = (
    "unfinished store: the kernel may end while kernel.tma_store still reads %s"
    ", with no kernel.tma_wait between; wait for its group"
)
MISTAKES = {
    "no wait": (READ, "", "data race", "%s is overwritten by loop.store while kernel.tma_store of it is in flight"),
    "wait for too few": (READ, READ.replace("0", "1"), "data race", "with no kernel.tma_wait between them"),
    "no barrier after the wait": (FREE, READ, "data race", "%s is read by kernel.tma_store and then overwritten by"),
    "no barrier before the store": (GIVEN, FENCE, "data race", "%s is written by loop.store and then read by"),
    "no fence": (FENCE, "", "missing proxy fence", "%s is written by loop.store and then used by kernel.tma_store"),
    "late fence": (GIVEN, "    kernel.barrier\n" + FENCE, "missing proxy fence", "before it hands it over"),
    "no group": (COMMIT, "", "unfinished store", "while kernel.tma_store of it is in flight"),
    "no wait at the end": (END, "}", "unfinished store", UNFINISHED),
    "misaligned": ("%s[0, 0]", "%s[1, 0]", "misaligned slot", "%s that is not known to start at a multiple of 128"),
}


def module_of(text: str) -> ModuleOp:
    module = Parser(new_context(), text).parse_module()
    module.verify()
    return module


def kernel_of(module: ModuleOp) -> kernel.FuncOp:
    (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    return function


def test_boxes_are_stored_where_they_are_inside() -> None:
    module = module_of(TILES)
    simulation = simulate(module, [X])
    assert not simulation.findings
    assert np.array_equal(simulation.outputs[0], X.transpose(1, 0, 2).reshape(48, 24)[:40, :20])
    assert simulation.counters["k"].global_bytes_written == 40 * 20 * 4
    assert simulation.counters["k"].shared_bytes_read == 9 * 512
    verify_barriers(kernel_of(module))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name: str) -> None:
    old, new, kind, reason = MISTAKES[name]
    assert old in TILES
    module = module_of(TILES.replace(old, new, 1))
    assert kind in [found.kind for found in simulate(module, [X]).findings]
    with pytest.raises(DiagnosticException) as error:
        verify_barriers(kernel_of(module))
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("%s[0, 0]", "%s[20, 0]", "out of bounds"),
        ("%thread < 1", "%thread < 2", "repeated issue"),
        (WRITE, "", "unwritten read"),
    ],
    ids=["outside", "several issue", "nobody wrote"],
)
def test_a_mistake_of_a_run_is_named(old: str, new: str, kind: str) -> None:
    assert old in TILES
    findings = simulate(module_of(TILES.replace(old, new, 1)), [X]).findings
    assert (kind, "kernel.tma_store") in [(found.kind, found.op.name) for found in findings]


def test_barriers_and_a_fence_behind_the_writes_are_placed() -> None:
    placed = module_of(TILES.replace(FREE, READ).replace(GIVEN, ""))
    place_barriers(kernel_of(placed))
    assert str(placed) == str(module_of(TILES))


def test_the_text() -> None:
    text = print_module(module_of(TILES))
    assert "tma_store_2(&y, block * 8, k * 16, &s[0]);" in text
    assert '"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"' in text
    assert '" [%0, {%2, %3}], [%1];" ::"l"(map), "r"(at), "r"(c0), "r"(c1) : "memory");' in text
    assert 'asm volatile("cp.async.bulk.commit_group;" ::: "memory");' in text
    assert 'asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");' in text


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_stores_of_each_rank_compile(rank: int) -> None:
    map = f"!kernel.tensor_map<memref<{'2x' * (rank - 1)}64xf32>, box [{'1, ' * (rank - 1)}32]>"
    text = f"""
    kernel.func @k(%y: {map}) blocks(%block = 1) threads(%thread = 32) {{
      %s = kernel.alloc : memref<32xf32, #tile.memory<shared>>
      %z = arith.constant 0.0 : f32
      loop.store %z, %s[%thread] : memref<32xf32, #tile.memory<shared>>
      kernel.fence_proxy_async
      kernel.barrier
      loop.guard where (%thread < 1) {{
        kernel.tma_store %s[0] to %y[{"0, " * (rank - 1)}0] : memref<32xf32, #tile.memory<shared>> to {map}
      }}
      kernel.tma_commit
      kernel.tma_wait 0
    }}"""
    (report,) = compile_cubin(print_module(module_of(text)), "sm_90").reports.values()
    assert report.spill_stores == report.spill_loads == 0
