"""Planted candidates on the GPU: one hangs, one faults, two are wrong, and the tuner goes on after each of them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.passes.driver import new_context, set_target
from deplodock.runtime.device import device_target
from deplodock.runtime.planned import PlannedProgram
from deplodock.tune import compiling
from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.lowerers import Lowerers
from deplodock.tune.measuring import Limits, Measurer
from deplodock.tune.task import Task, tasks

COUNT = 1 << 20
SCALED = f"""
func.func @k_scaled(%x: memref<{COUNT}xf32>, %out: memref<{COUNT}xf32>) {{
  %two = arith.constant 2.0 : f32
  loop.for %i = 0 to {COUNT} {{
    %v = loop.load %x[%i] : memref<{COUNT}xf32>
    %w = arith.mulf %v, %two : f32
    loop.store %w, %out[%i] : memref<{COUNT}xf32>
  }}
  func.return
}}
"""
OWN = "const int own = blockIdx.x * blockDim.x + threadIdx.x;"
PLANTED = {
    32: ("hang", "for (;;) __nanosleep(1000);"),
    64: ("fault", "*(volatile int*)8 = 1;"),
    96: ("wrong", "if (blockIdx.x == gridDim.x - 1) return;"),
    160: ("unstable", f"static __device__ bool ran[{2 * COUNT}]; {OWN} if (ran[own]) return; ran[own] = true;"),
}
"""What the first line of a kernel does, and how its candidate is called then, by the threads of a CTA."""


def planted(program: PlannedProgram) -> PlannedProgram:
    """A candidate with what is planted in it."""
    _, line = PLANTED.get(program.plan.launches[0].threads, ("", ""))
    return replace(program, text=program.text.replace("out) {\n", f"out) {{\n  {line}\n"))


@pytest.fixture
def task() -> Task:
    """A kernel that doubles its input."""
    module = FloatLiteralsParser(new_context(), SCALED).parse_module()
    set_target(module, device_target())
    (found,) = tasks(module)
    return found


def test_each_is_named_and_costs_little(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    compile = compiling.machine_code
    monkeypatch.setattr(compiling, "machine_code", lambda program, limit: compile(planted(program), limit))
    lowerers = Lowerers(jobs=2)
    measurer = Measurer(lowerers, limits=Limits(run=1.0))
    measurer.add(task)

    def measure(*threads: int) -> dict[int, Measurement]:
        schedules = {each: f"tileify,blockify-launch{{threads={each}}}" for each in threads}
        candidates = [Candidate(task.key, schedule, str(each)) for each, schedule in schedules.items()]
        found = {each.code: each for each in measurer.measure(candidates)}
        return {each: found[str(each)] for each in threads}

    try:
        assert measure(256)[256].status == "ok"
        start = time.monotonic()
        found = measure(*PLANTED, 512)
        assert time.monotonic() - start < 90
        assert {each: found[each].status for each in PLANTED} == {each: status for each, (status, _) in PLANTED.items()}
        assert found[512].status == "ok"
        assert found[512].us is not None
        assert 0.5 < found[512].us < 50
    finally:
        measurer.close()
        lowerers.close()
