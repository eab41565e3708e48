"""Contractions on rings: right, clean in the simulator, one barrier a step, and every planted bug found."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel, loop, tile
from deplodock.errors import Error
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import Simulation, simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.verify_barriers import verify_barriers
from deplodock.passes.pipeline import PASSES
from deplodock.runtime.nvcc import compile_cubin

CONTEXT = new_context()
AVAILABLE = {stage.name: stage.load for stage in PASSES}
LOWER = "materialize,place-barriers,fuse-multiply-add,verify-barriers"


def parse(text: str) -> ModuleOp:
    module = Parser(CONTEXT, text).parse_module()
    module.verify()
    return module


def apply(module: ModuleOp, pipeline: str) -> ModuleOp:
    for spec in parse_pipeline(pipeline):
        AVAILABLE[spec.name]().from_pass_spec(spec).apply(CONTEXT, module)
        module.verify()
    return module


def matmul(m: int, n: int, k: int, *, transposed: bool) -> str:
    """out = x @ w, with w in [n, k] order if `transposed`, else in [k, n] order."""
    w, read = (f"memref<{n}x{k}xf32>", "%w[%n, %k]") if transposed else (f"memref<{k}x{n}xf32>", "%w[%k, %n]")
    x = f"memref<{m}x{k}xf32>"
    return f"""
    func.func @k(%x: {x}, %w: {w}, %out: memref<{m}x{n}xf32>) {{
      loop.for %m = 0 to {m} {{
        loop.for %n = 0 to {n} {{
          %acc = loop.reduce {{arith.addf}} %k = 0 to {k} : f32 {{
            %a = loop.load %x[%m, %k] : {x}
            %c = loop.load {read} : {w}
            %p = arith.mulf %a, %c : f32
            loop.yield %p : f32
          }}
          loop.store %acc, %out[%m, %n] : memref<{m}x{n}xf32>
        }}
      }}
      func.return
    }}"""


def inputs(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Small integers, on which sums are exact."""
    generator = np.random.default_rng(7)
    return [generator.integers(-2, 3, shape).astype(np.float32) for shape in shapes]


def barriers(module: ModuleOp) -> list[kernel.BarrierOp]:
    return [op for op in module.walk() if isinstance(op, kernel.BarrierOp)]


def scheduled(
    depth: int, distance: int, bk: int = 8, tile: int = 16, copies: str = "async-copy{bytes=4},", barrier: str = "cta"
) -> str:
    return (
        f"tileify,chunk-matmul-k{{bk={bk} kv=1}},blockify-launch{{m={tile} n={tile}}},stage-inputs{{memory=shared}},"
        f"double-buffer{{depth={depth}}},{copies}pipeline-k-outer{{distance={distance} barrier={barrier}}}"
    )


RINGS = [(2, 1), (3, 2), (3, 1), (4, 3), (4, 1)]
SHAPES = [(1, 3, 17), (5, 7, 31), (17, 13, 50), (9, 31, 97)]
ASYNC = "async-copy{bytes=4},"
FORMS = [(ASYNC, "mbarrier"), ("", "cta"), (ASYNC, "mbarrier"), (ASYNC, "cta")]
"""How a ring is filled, and what threads wait at: each ring has all, on different shapes."""


@pytest.mark.parametrize(
    ("shape", "depth", "distance", "copies", "barrier"),
    [(shape, *ring, *FORMS[(i + j) % len(FORMS)]) for i, ring in enumerate(RINGS) for j, shape in enumerate(SHAPES)],
)
def test_pipelined_matmul(shape: tuple[int, int, int], depth: int, distance: int, copies: str, barrier: str) -> None:
    m, n, k = shape
    transposed = (m + n) % 2 == 0
    x, w = arrays = inputs((m, k), (n, k) if transposed else (k, n))
    expected = x @ (w.T if transposed else w)
    module = parse(matmul(m, n, k, transposed=transposed))
    for step in parse_pipeline(scheduled(depth, distance, copies=copies, barrier=barrier)):
        try:
            apply(module, str(step))
        except PassFailedException:
            continue
        np.testing.assert_array_equal(evaluate(module, arrays)[0], expected, err_msg=f"after {step}")
    apply(module, "verify-rings")
    assert str(parse(str(module))) == str(module)
    has_phases = "mbarrier" in str(module)
    assert has_phases == (barrier == "mbarrier" and "tile.ring" in str(module))
    apply(module, LOWER)
    assert not has_phases or len(barriers(module)) == 1
    assert str(parse(str(module))) == str(module)
    simulation = simulate(module, arrays)
    assert simulation.findings == []
    np.testing.assert_array_equal(simulation.outputs[0], expected)


def pipelined(depth: int = 3, distance: int = 2, *, copies: str = "async-copy{bytes=4},", k: int = 50) -> ModuleOp:
    """A product of 20 x k by k x 24 on a ring, at kernel level."""
    return _lowered(f"{scheduled(depth, distance, copies=copies)},{LOWER}", k).clone()


@cache
def _lowered(pipeline: str, k: int) -> ModuleOp:
    """Nobody changes it."""
    return apply(parse(matmul(20, 24, k, transposed=True)), pipeline)


def check(module: ModuleOp, k: int = 50) -> Simulation:
    x, w = inputs((20, k), (24, k))
    simulation = simulate(module, [x, w])
    if not simulation.findings:
        np.testing.assert_array_equal(simulation.outputs[0], x @ w.T)
    return simulation


@pytest.mark.parametrize("copies", ["async-copy{bytes=4},", ""], ids=["async", "sync"])
@pytest.mark.parametrize(("depth", "distance"), [(2, 1), (3, 2), (4, 3), (5, 4)])
def test_one_barrier_a_step_and_none_too_many(depth: int, distance: int, copies: str) -> None:
    module = pipelined(depth, distance, copies=copies)
    assert check(module).findings == []
    placed = barriers(module)
    assert len([op for op in placed if isinstance(op.parent_op(), loop.ForOp)]) == 1
    for barrier in placed:
        block, following = barrier.parent, barrier.next_op
        assert block is not None
        assert following is not None
        barrier.detach()
        assert {finding.kind for finding in check(module).findings} == {"data race"}
        with pytest.raises(DiagnosticException, match=r"no kernel\.barrier between them"):
            verify_barriers(next(op for op in module.walk() if isinstance(op, kernel.FuncOp)))
        block.insert_op_before(barrier, following)


def test_a_slab_outside_a_ring_is_waited_for_at_once() -> None:
    pipeline = scheduled(2, 1).rpartition(",")[0].replace("double-buffer{depth=2},", "")
    module = apply(parse(matmul(20, 24, 50, transposed=True)), f"{pipeline},{LOWER}")
    text = str(module)
    assert text.count("kernel.commit_group") == text.count("kernel.wait_group 0") == 1
    assert check(module).findings == []


@pytest.mark.parametrize("options", ["distance=2", "distance=1 barrier=mbarrier"])
def test_a_ring_is_entered_again_by_a_loop_around(options: str) -> None:
    x, w = arrays = inputs((3, 20, 50), (24, 50))
    expected = x @ w.T
    module = parse(SERIAL)
    np.testing.assert_array_equal(evaluate(module, arrays)[0], expected)
    apply(module, f"double-buffer{{depth=3}},async-copy{{bytes=4}},pipeline-k-outer{{{options}}},verify-rings")
    np.testing.assert_array_equal(evaluate(module, arrays)[0], expected)
    apply(module, LOWER)
    simulation = simulate(module, arrays)
    assert simulation.findings == []
    np.testing.assert_array_equal(simulation.outputs[0], expected)
    for barrier in barriers(module):
        block, following = barrier.parent, barrier.next_op
        assert block is not None
        assert following is not None
        barrier.detach()
        assert simulate(module, arrays).findings
        block.insert_op_before(barrier, following)


SERIAL = """
func.func @k(%x: memref<3x20x50xf32>, %w: memref<24x50xf32>, %out: memref<3x20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    loop.for %b = 0 to 3 {
      %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
        %xs = tile.stage %x[%b, d0, %ko * 8 + d1] : memref<3x20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
        %ws = tile.stage %w[d1, %ko * 8 + d0] : memref<24x50xf32> to memref<8x24xf32, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
          %a = loop.load %xs[%m, %ki] : memref<20x8xf32, #tile.memory<shared>>
          %c = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%b, %m, %n] : memref<3x20x24xf32>
    }
  }
  func.return
}
"""


def edited(module: ModuleOp, old: str, new: str) -> ModuleOp:
    """The module with a planted bug: the first occurrence of some text replaced."""
    text = str(module)
    assert old in text
    return parse(text.replace(old, new, 1))


def kinds(module: ModuleOp) -> set[str]:
    return {finding.kind for finding in check(module).findings}


def test_a_wait_for_too_few_groups() -> None:
    bug = edited(pipelined(), "kernel.wait_group 1", "kernel.wait_group 2")
    assert kinds(bug) == {"read in flight"}
    finding = check(bug).findings[0]
    assert "while thread" in finding.message
    assert "kernel.move 1 async" in finding.message or "kernel.move 2 async" in finding.message
    with pytest.raises(
        DiagnosticException, match=r"in flight with no kernel\.wait_group between them; wait for its group"
    ):
        apply(bug, "verify-barriers")


def test_a_wait_for_more_groups_than_needed_is_right() -> None:
    assert kinds(edited(pipelined(), "kernel.wait_group 1", "kernel.wait_group 0")) == set()


def test_a_group_that_is_not_closed() -> None:
    bug = pipelined()
    commits = [op for op in bug.walk() if isinstance(op, kernel.CommitGroupOp)]
    commits[-1].detach()
    assert "read in flight" in kinds(bug)
    with pytest.raises(DiagnosticException, match="in flight"):
        apply(bug, "verify-barriers")


def test_copies_before_the_wait() -> None:
    """The slot of the step before is overwritten while slower threads still read it; the numbers are right."""
    bug = pipelined()
    wait = next(op for op in bug.walk() if isinstance(op, kernel.WaitGroupOp))
    barrier, copy = wait.next_op, wait.next_op.next_op
    assert isinstance(barrier, kernel.BarrierOp)
    assert isinstance(copy, loop.GuardOp)
    copy.detach()
    wait.parent.insert_op_before(copy, wait)
    assert "data race" in kinds(bug)
    with pytest.raises(DiagnosticException, match=r"is read by loop\.load and then overwritten by kernel\.move"):
        apply(bug, "verify-barriers")


def test_a_wrong_slot() -> None:
    bug = edited(pipelined(), "(%ko + 2) mod 3", "(%ko + 1) mod 3")
    assert kinds(bug) & {"data race", "read in flight"}
    with pytest.raises(DiagnosticException, match="x_smem"):
        apply(bug, "verify-barriers")


def test_counters_of_asynchronous_copies() -> None:
    simulation = check(pipelined(k=64), k=64)
    (counters,) = simulation.counters.values()
    assert counters.async_bytes == counters.shared_bytes_written
    assert 0 < counters.async_sectors == counters.global_sectors_read
    assert counters.async_wavefronts >= counters.async_ideal_wavefronts > 0
    plain = check(pipelined(k=64, copies=""), k=64)
    (without,) = plain.counters.values()
    assert without.async_bytes == without.async_sectors == without.async_wavefronts == 0
    assert without.global_bytes_read == counters.global_bytes_read


RING = """
func.func @k(%x: memref<80xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %ring = tile.ring 3
    %xs = tile.alloc : memref<3x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[%p * 8 + d0] to %xs at %ring[%p] async : memref<80xf32> to memref<3x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %i = 0 to 10 : f32 {
      tile.wait %ring[%i]
      tile.copy %x[%i * 8 + 16 + d0] to %xs at %ring[%i + 2] async where (%i + 2 < 10)
        : memref<80xf32> to memref<3x8xf32, #tile.memory<shared>>
      %v = loop.load %xs[%i mod 3, 7 - %t] : memref<3x8xf32, #tile.memory<shared>>
      tile.release %ring[%i]
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<8xf32>
  }
  func.return
}
"""
SLAB = "memref<3x8xf32, #tile.memory<shared>>"
COPY = f"""tile.copy %x[%i * 8 + 16 + d0] to %xs at %ring[%i + 2] async where (%i + 2 < 10)
        : memref<80xf32> to {SLAB}"""
FIRST = f"tile.copy %x[d0] to %xs at %ring[0] async : memref<80xf32> to {SLAB}"
LOAD, RELEASE = f"%v = loop.load %xs[%i mod 3, 7 - %t] : {SLAB}\n", "tile.release %ring[%i]\n"
YIELD, STORE = "loop.yield %v", "loop.store %acc"


def test_a_ring_by_hand() -> None:
    x = np.arange(80, dtype=np.float32)
    module = apply(parse(RING), "verify-rings")
    expected = x.reshape(10, 8).sum(0)[::-1]
    np.testing.assert_array_equal(evaluate(module, [x])[0], expected)
    simulation = simulate(apply(module, LOWER), [x])
    assert simulation.findings == []
    np.testing.assert_array_equal(simulation.outputs[0], expected)


@pytest.mark.parametrize(
    ("old", "new", "evaluated", "verified"),
    [
        ("%xs[%i mod 3,", "%xs[(%i + 1) mod 3,", "slot 1 holds step 1, which is not waited for", "must read the slot"),
        ("%xs[%i mod 3,", "%xs[(%i + 2) mod 3,", "slot 2 holds step 2, which is not waited for", "must read the slot"),
        (
            "0 to 2 unroll",
            "0 to 1 unroll",
            "step 1 was not copied to %xs",
            "it runs 2 steps ahead, so steps 0 to 1 must be copied before the loop",
        ),
        (
            "0 to 2 unroll",
            "0 to 3 unroll",
            "step 2 takes slot 2 of step 2",
            "it runs 2 steps ahead, so steps 0 to 1 must be copied before the loop",
        ),
        (
            "tile.wait %ring[%i]\n",
            "\n",
            "which is not waited for",
            "it is waited for at 0 places; a ring is read in one loop, after one tile.wait",
        ),
        (
            "tile.release %ring[%i]\n",
            "\n",
            "slot 0 of step 0, which is not released",
            "no tile.release of the same step follows it in the loop",
        ),
        (
            "tile.wait %ring[%i]",
            "tile.wait %ring[%i + 1]",
            "which is not waited for",
            "it must stand in a loop and wait for the step of the loop's variable",
        ),
        (
            "%x[%i * 8 + 16 + d0] to %xs at %ring[%i + 2] async where (%i + 2 < 10)",
            "%x[%i * 8 + 24 + d0] to %xs at %ring[%i + 3] async where (%i + 3 < 10)",
            "step 3 takes slot 0 of step 0, which is not released",
            "it overwrites the slot of step +0 from the loop's before that is released: 3 steps ahead need a ring of 4 "
            "slots, or 3 and a copy after the release",
        ),
        (
            " where (%i + 2 < 10)",
            "",
            None,
            "it copies steps from 10 on, which the loop does not reach; add a condition",
        ),
        (
            "where (%i + 2 < 10)",
            "where (%i + 2 < 9)",
            "step 9 was not copied",
            "its condition leaves out a step that the loop reads",
        ),
        (COPY, "", None, "the loop copies to its buffer 0 times a step, it must be once"),
        ("%ring[%i + 2] async", "%ring[%i * 2] async", None, "its step must be that of the loop plus a constant"),
        ("%ring[%i + 2] async", "%ring[%i] async", None, "it comes after the wait for its step"),
        (YIELD, f"loop.store %v, %xs[0, %t] : {SLAB}\n{YIELD}", None, "a slot of a ring is only read by loop.load"),
        (
            LOAD + 6 * " " + RELEASE,
            RELEASE + LOAD,
            None,
            "it reads a slot outside the wait and the release of its step",
        ),
        (
            "10 : f32",
            "min(10, %t + 9) : f32",
            None,
            "its conditions must be that its step is below the bound of the loop",
        ),
        ("(%i + 2 < 10)", "(%t < 10)", None, "its conditions must bound the loop's variable from above"),
        (STORE, f"{FIRST}\n{STORE}", None, "it must stand before the loop that waits for its step, or in it"),
        (
            "%ring[%p] async",
            "%ring[%p * 2] async",
            None,
            "its steps must be those of one loop from 0, or one constant, without conditions",
        ),
    ],
)
def test_broken_rings(old: str, new: str, evaluated: str | None, verified: str) -> None:
    text = RING.replace(old, new, 1)
    assert text != RING
    if evaluated is not None:
        with pytest.raises(Error) as caught:
            evaluate(parse(text), [np.arange(80, dtype=np.float32)])
        assert evaluated in str(caught.value)
    with pytest.raises(PassFailedException) as refused:
        apply(parse(text), "verify-rings")
    assert verified in str(refused.value)


def test_the_phases_of_a_ring_need_asynchronous_copies() -> None:
    text = RING.replace("tile.ring 3", "tile.ring 3 mbarrier").replace(" async", "")
    with pytest.raises(PassFailedException, match="only async and tma copies arrive at the phases of an mbarrier ring"):
        apply(parse(text), "verify-rings")


def test_a_copy_ahead_after_the_release_may_take_the_slot_just_read() -> None:
    body = RING.replace("0 to 2 unroll", "0 to 3 unroll")
    lines = body.splitlines()
    first = next(i for i, line in enumerate(lines) if "%i + 2" in line)
    copy = "\n".join(lines[first : first + 2])
    ahead = copy.replace("%i * 8 + 16", "%i * 8 + 24").replace("%i + 2", "%i + 3")
    body = body.replace(copy + "\n", "").replace("tile.release %ring[%i]\n", f"tile.release %ring[%i]\n{ahead}\n")
    x = np.arange(80, dtype=np.float32)
    module = apply(parse(body), "verify-rings")
    np.testing.assert_array_equal(evaluate(module, [x])[0], x.reshape(10, 8).sum(0)[::-1])
    simulation = simulate(apply(module, LOWER), [x])
    assert simulation.findings == []
    assert len([op for op in barriers(module) if isinstance(op.parent_op(), loop.ForOp)]) == 2


def test_tile_copies_need_no_check_of_k_that_the_loop_bounds() -> None:
    module = apply(parse(matmul(32, 32, 64, transposed=False)), f"{scheduled(3, 2)},{LOWER}")
    moves = [op for op in module.walk() if isinstance(op, kernel.MoveOp) and op.is_async]
    assert len(moves) == 4
    assert all(op.where is None for op in moves)


def test_the_ring_is_one_buffer_with_its_slots_first() -> None:
    module = apply(parse(matmul(20, 24, 50, transposed=True)), scheduled(3, 2))
    shapes = [tile.memref_of(op.result).get_shape() for op in module.walk() if isinstance(op, tile.AllocOp)]
    assert shapes == [(3, 16, 8), (3, 16, 8)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("transposed", [False, True])
def test_compiles_without_spills(nvcc: Path, arch: str, transposed: bool) -> None:
    """A ragged product with narrow, wide and zero-filling copies."""
    pipeline = scheduled(3, 2, bk=16, tile=64).replace("double-buffer", "register-tile{m=8 n=4},double-buffer")
    module = apply(parse(matmul(500, 300, 130, transposed=transposed)), f"{pipeline},{LOWER}")
    source = print_module(module)
    assert "cp.async.wait_group 1;" in source
    (report,) = compile_cubin(source, arch, nvcc=nvcc).reports.values()
    assert report.spill_stores == report.spill_loads == 0
