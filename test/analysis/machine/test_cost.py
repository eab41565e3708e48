"""What kernels cost on a target."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block

from deplodock.analysis.machine.cost import GridConstants, Rates, Work, element_work
from deplodock.analysis.machine.targets import target
from deplodock.dialects.tensor import ElementwiseOp, IotaOp, ReduceOp

H100 = Rates.of(target("h100"))
GRID = GridConstants()


def test_a_full_card_has_the_rates_of_its_target() -> None:
    nothing = Work()
    assert H100.kernel_ns(3350 * 1000, nothing, 1000) == pytest.approx(H100.launch_ns + 1000)
    assert H100.kernel_ns(0, Work(instructions=66908 * 500), 1000) == pytest.approx(H100.launch_ns + 1000)


def test_floor_is_the_longer_of_bytes_and_operations() -> None:
    assert H100.floor_ns(3350 * 1000, 0, cached=False) == pytest.approx(1000)
    assert H100.floor_ns(3350, 66908 * 500, cached=False) == pytest.approx(500)


def test_floor_in_l2_is_what_all_sms_take_at_the_boost_clock() -> None:
    assert H100.floor_ns(132 * 64 * 1980, 0, cached=True) == pytest.approx(1000, rel=1e-4)


def test_one_cta_has_one_sm() -> None:
    work = Work(instructions=1_000_000)
    whole, part = (H100.kernel_ns(0, work, ctas) - H100.launch_ns for ctas in (132, 1))
    assert part == pytest.approx(132 * whole)
    assert H100.kernel_ns(10**6, Work(), 1) > 20 * (H100.kernel_ns(10**6, Work(), 132) - H100.launch_ns)


def test_threads_that_wait_have_what_is_in_flight_in_a_latency() -> None:
    waiting, copying = (H100.kernel_ns(10**9, Work(), 64, *awaited) for awaited in ((10**9, 4096), ()))
    assert waiting - H100.launch_ns == pytest.approx(10**9 * 700 / (64 * 4096))
    assert copying - H100.launch_ns == pytest.approx(10**9 / 3350)
    assert H100.kernel_ns(10**9, Work(), 10_000, 10**9, 4096) == copying


def test_the_longest_of_the_three_counts() -> None:
    memory, specials = (10**9, Work()), (0, Work(specials=10**9))
    both = H100.kernel_ns(10**9, Work(specials=10**9), 132)
    assert both == max(H100.kernel_ns(*memory, 132), H100.kernel_ns(*specials, 132))


@pytest.mark.parametrize("name", ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_a_special_function_is_an_eighth_of_the_rate_or_a_quarter(name: str) -> None:
    rates = Rates.of(target(name))
    assert rates.instructions / rates.specials == pytest.approx(4 if name == "sm_80" else 8)


def test_a_wave_of_tiles_has_their_share_of_the_peak() -> None:
    tiles, operations = 132 * 2, 10**9
    wave = H100.grid_ns(tiles, operations, 2, 0.5, is_uneven=False) - GRID.start_ns
    assert wave == pytest.approx(tiles * operations / (2 * H100.instructions * GRID.peak_share * 0.5))
    assert H100.grid_ns(2 * tiles, operations, 2, 0.5, is_uneven=False) == pytest.approx(2 * wave + 2 * GRID.start_ns)


def test_tiles_alone_on_an_sm_are_slower_behind_a_wave_than_without_one() -> None:
    one, rest = (H100.grid_ns(tiles, 10**9, 2, 1, is_uneven=False) for tiles in (132, 132 * 3))
    wave = H100.grid_ns(132 * 2, 10**9, 2, 1, is_uneven=False)
    assert wave / 2 < one < wave < rest - one


def test_uneven_tiles_level_out_among_the_sms() -> None:
    even, uneven = (H100.grid_ns(132 * 2 + 1, 10**9, 2, 1, is_uneven=uneven) for uneven in (False, True))
    assert uneven < even


def test_an_empty_kernel_costs_its_launch() -> None:
    assert H100.kernel_ns(0, Work(), 0) == H100.launch_ns


def test_work_of_an_element() -> None:
    block = Block(arg_types=[TensorType(f32, [4, 4])])
    x = block.args[0]
    assert element_work(ElementwiseOp.of(arith.AddfOp, x, x)) == Work(1)
    assert element_work(ElementwiseOp.of(math.ExpOp, x)) == Work(10, 1)
    assert element_work(ReduceOp.of(arith.AddfOp, x, [1])) == Work(1)
    assert element_work(IotaOp(0, x.type)) == Work()
