"""Candidates that hang, fault, are wrong or seem too fast: each is caught and named, and costs its limit at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import planted_runs as planted
import pytest

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import CompileError
from deplodock.passes.driver import new_context, set_target
from deplodock.runtime.planned import PlannedProgram
from deplodock.tune import compiling
from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.compiling import beginning
from deplodock.tune.lowerers import Lowerers
from deplodock.tune.measuring import Limits, Measurer
from deplodock.tune.task import Task, tasks

KERNELS = """
func.func @k_twice(%x: memref<4096xf32>, %out: memref<4096xf32>) {
  loop.for %i = 0 to 4096 {
    %v = loop.load %x[%i] : memref<4096xf32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %out[%i] : memref<4096xf32>
  }
  func.return
}
func.func @k_square(%x: memref<4096xf32>, %out: memref<4096xf32>) {
  loop.for %i = 0 to 4096 {
    %v = loop.load %x[%i] : memref<4096xf32>
    %w = arith.mulf %v, %v : f32
    loop.store %w, %out[%i] : memref<4096xf32>
  }
  func.return
}
"""
SPILLS, REJECTED, TOO_LARGE, USUAL = 224, 480, 2048, 512
LIMITS = Limits(measure=0.5)


def schedule(threads: int) -> str:
    return f"tileify,blockify-launch{{threads={threads}}},stage-inputs"


@pytest.fixture(scope="module")
def kernels() -> list[Task]:
    """A kernel that adds its input to itself, and one that squares it."""
    module = FloatLiteralsParser(new_context(), KERNELS).parse_module()
    set_target(module, "h200")
    return tasks(module)


@pytest.fixture(scope="module")
def lowerers() -> Iterator[Lowerers]:
    """One process that lowers."""
    found = Lowerers(jobs=1)
    yield found
    found.close()


@pytest.fixture(scope="module")
def measurer(kernels: list[Task], lowerers: Lowerers) -> Iterator[Measurer]:
    """Measures without nvcc: one text spills, another one is rejected."""

    def machine_code(program: PlannedProgram, limit: float) -> tuple[PlannedProgram, int]:
        threads = program.plan.launches[0].threads
        if threads == REJECTED:
            raise CompileError("nvcc rejected @k_twice\nand more")
        return replace(program, cubin=b""), 128 if threads == SPILLS else 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "machine_code", machine_code)
        found = Measurer(lowerers, limits=LIMITS, serve=planted.serve)
        for task in kernels:
            found.add(task)
        yield found
        found.close()


def test_what_is_equal_at_tile_level_is_lowered_once(kernels: list[Task], lowerers: Lowerers) -> None:
    first, second, other = (
        lowerers.lowered(kernels[0], text) for text in (schedule(512), schedule(512) + ",pad-smem", schedule(256))
    )
    assert first[1] is second[1] is not other[1]
    assert (first[0].candidate.schedule, second[0].candidate.schedule) == (schedule(512), schedule(512) + ",pad-smem")
    assert first[0].candidate.code == second[0].candidate.code != other[0].candidate.code


def measure(measurer: Measurer, task: Task, *threads: int) -> dict[int, Measurement]:
    candidates = [Candidate(task.key, schedule(each), str(each)) for each in threads]
    found = {each.schedule: each for each in measurer.measure(candidates)}
    return {each: found[schedule(each)] for each in threads}


def test_planted_candidates_are_named_and_cost_their_limit_at_most(kernels: list[Task], measurer: Measurer) -> None:
    found = measure(measurer, kernels[0], 128)
    assert (found[128].status, found[128].us) == ("ok", planted.USUAL_US)
    threads = (planted.HANGS, planted.FAULTS, planted.WRONG, planted.RIGHT_ONCE, planted.TOO_FAST, planted.DIES)
    found = measure(measurer, kernels[0], *threads, planted.FASTER, planted.SLOW, USUAL, SPILLS, REJECTED, TOO_LARGE)
    assert {each: (one.status, one.us, one.detail) for each, one in found.items()} == {
        planted.HANGS: ("hang", None, "no end of the measurement in 0.5 s"),
        planted.FAULTS: ("fault", None, "an illegal memory access was encountered"),
        planted.WRONG: ("wrong", None, "element [0] is 1.0, should be 2.0"),
        planted.RIGHT_ONCE: ("unstable", None, "right at first, then element [0] is 1.0, should be 2.0"),
        planted.TOO_FAST: ("fault", None, "4.00 us are below the floor of 5.00 us: the measurement is wrong"),
        planted.DIES: ("fault", None, "the process ended with exit status 3"),
        planted.FASTER: ("ok", 50.0, ""),
        planted.SLOW: ("ok", 9000.0, "the time is that of a single run, as it is far from the best"),
        USUAL: ("ok", 100.0, ""),
        SPILLS: ("refused", None, "spills 128 bytes"),
        REJECTED: ("refused", None, "nvcc rejected @k_twice"),
        TOO_LARGE: ("refused", None, found[TOO_LARGE].detail),
    }
    assert "2048 threads" in found[TOO_LARGE].detail


def test_times_are_on_the_scale_of_what_was_measured_before(kernels: list[Task], measurer: Measurer) -> None:
    key = kernels[1].key
    measurer.anchor(Measurement(key, schedule(128), "", "ok", 110.0))
    (found,) = measurer.measure([Candidate(key, schedule(USUAL), "")])
    assert found.us == pytest.approx(110.0)


def test_what_a_device_needs_to_know_of_a_kernel(kernels: list[Task]) -> None:
    begin = beginning(kernels[0])
    assert [(each.shape, each.dtype.name) for each in (*begin.inputs, *begin.outputs)] == [((4096,), "float32")] * 2
    assert [each.dtype.name for each in begin.reference.plan.buffers] == ["float64", "float64"]
    assert (begin.rounded.sums, begin.moved_bytes) == (1, 32768)
