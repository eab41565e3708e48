"""Occupancy and registers. The expected CTAs are what `cuda_occupancy.h` of CUDA 13.0 computes."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser

from deplodock.analysis.machine.resources import occupancy, register_limit, shared_budget
from deplodock.analysis.machine.targets import ATTRIBUTE, target
from deplodock.dialects import tile
from deplodock.passes.driver import new_context
from deplodock.schedule.choose.tiling import TILES

ARCHITECTURES = ("sm_80", "sm_90", "sm_120")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "ctas"),
    [
        (128, 232, 101376, (1, 2, 1)),
        (128, 255, 0, (2, 2, 2)),
        (128, 168, 0, (3, 3, 3)),
        (256, 32, 0, (8, 8, 6)),
        (256, 33, 0, (6, 6, 6)),
        (256, 64, 0, (4, 4, 4)),
        (256, 128, 0, (2, 2, 2)),
        (256, 40, 16384, (6, 6, 5)),
        (1024, 64, 0, (1, 1, 1)),
        (1024, 65, 0, (0, 0, 0)),
        (96, 100, 0, (5, 5, 5)),
        (224, 40, 9000, (6, 6, 6)),
        (32, 16, 0, (32, 32, 24)),
        (64, 255, 1000, (4, 4, 4)),
        (512, 48, 49152, (2, 2, 2)),
        (384, 168, 200000, (0, 1, 0)),
        (160, 72, 30000, (5, 5, 3)),
        (33, 80, 0, (12, 12, 12)),
    ],
)
def test_ctas_of_an_sm(threads: int, registers: int, shared: int, ctas: tuple[int, ...]) -> None:
    found = tuple(occupancy(target(arch), threads, registers, shared).ctas for arch in ARCHITECTURES)
    assert found == ctas


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "what"),
    [
        (256, 16, 0, "threads"),
        (128, 255, 0, "registers"),
        (128, 64, 100_000, "shared memory"),
        (32, 16, 0, "CTAs"),
        (2048, 16, 0, "threads"),
        (128, 256, 0, "registers"),
        (128, 64, 232_449, "shared memory"),
    ],
)
def test_what_limits_the_ctas(threads: int, registers: int, shared: int, what: str) -> None:
    found = occupancy(target("sm_90"), threads, registers, shared)
    assert found.limited_by == what
    assert str(found) == f"{found.ctas} CTAs on an SM, limited by {what}"


@pytest.mark.parametrize(
    ("threads", "ctas", "limit"),
    [
        (128, 1, 255),
        (128, 2, 255),
        (128, 3, 168),
        (256, 2, 128),
        (256, 3, 80),
        (96, 5, 128),
        (1024, 1, 64),
        (1024, 3, 0),
    ],
)
def test_register_limit(threads: int, ctas: int, limit: int) -> None:
    assert register_limit(target("sm_90"), threads, ctas) == limit


@pytest.mark.parametrize("threads", [32, 96, 128, 160, 288, 512, 1024])
@pytest.mark.parametrize("ctas", range(1, 9))
def test_the_register_limit_is_the_most_that_keeps_the_ctas(threads: int, ctas: int) -> None:
    gpu = target("sm_90")
    limit = register_limit(gpu, threads, ctas)
    if limit:
        assert occupancy(gpu, threads, limit, 0).ctas >= ctas
    if limit < gpu.fact("registers_per_thread"):
        assert occupancy(gpu, threads, limit + 1, 0).ctas < ctas


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("ctas", range(1, 9))
def test_the_shared_budget_is_the_most_that_keeps_the_ctas(arch: str, ctas: int) -> None:
    gpu, launch = target(arch), tile.LaunchOp([], [], Region(Block()), occupancy=ctas)
    ModuleOp([launch], {ATTRIBUTE: gpu})
    budget = shared_budget(launch)
    assert occupancy(gpu, 128, 32, budget).ctas >= ctas
    more = occupancy(gpu, 128, 32, budget + 1)
    assert more.ctas < ctas


def test_what_threads_leave_for_each_other_is_no_room_of_slabs() -> None:
    text = """
    func.func @k(%x: memref<512xf32>, %out: memref<1xf32>) {
      tile.launch (%i = 1 : block, %t = 512 : thread) {
        %v = loop.load %x[%t] : memref<512xf32>
        %sum = tile.combine {arith.addf} %v over (%t) : f32
        loop.store %sum, %out[%i] : memref<1xf32>
      }
      func.return
    }
    """
    module = Parser(new_context(), text).parse_module()
    gpu = target("rtx5090")
    module.attributes[ATTRIBUTE] = gpu
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    assert shared_budget(launch) == gpu.fact("shared_per_block") - 512 * 4


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tiles_are_whole_warps_with_registers_for_their_ctas(arch: str) -> None:
    for found in TILES:
        assert (found.m % found.cells_m, found.n % found.cells_n) == (0, 0)
        cells = found.cells_m * found.cells_n
        threads = found.m * found.n // cells
        assert threads % 32 == 0
        assert cells + found.cells_m + found.cells_n <= register_limit(target(arch), threads, found.occupancy)
