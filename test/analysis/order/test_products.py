"""verify-barriers on products of warpgroups: a right ring, and mistakes planted in it."""

from __future__ import annotations

import pytest
from products import HELD, HELD_RING, RING, SUMS, X, planted
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.passes.driver import new_context
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass

WAIT = "    kernel.wgmma_wait 0\n"
ARRIVE = "    kernel.arrive warp %empty[%k mod 3]\n"
FENCE = "    kernel.wgmma_fence\n"
LOAD = f"%v = loop.load %sums[%j, %h, %r] : {SUMS}"
WRITE = f"""    %v = loop.load %xs[%k mod 3, 0, 0] : {X}
    kernel.barrier
    loop.store %v, %xs[%k mod 3, %thread floordiv 64, %thread mod 64] : {X}
"""


def _verify(text: str) -> None:
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    VerifyBarriersPass().apply(context, module)


def test_a_right_ring_of_products() -> None:
    _verify(RING)


def test_a_group_that_stays_in_flight_may_be_read_one_step_later() -> None:
    late = "    loop.guard where (0 < %k) {\n      kernel.arrive warp %empty[(%k + 2) mod 3]\n    }\n"
    _verify(
        planted(
            (WAIT + ARRIVE, "    kernel.wgmma_wait 1\n" + late),
            ("kernel.wait_phase %empty[(%k + 2) mod 3], ((%k + 2) floordiv 3 + 1) mod 2", ""),
            ("loop.guard where (%k < 4) {", "loop.guard where (%k < 0) {"),
            ("loop.for %p = 0 to 2 unroll", "loop.for %p = 0 to 3 unroll"),
            ("loop.for %k = 0 to 6 {", "loop.for %k = 0 to 3 {"),
            ("  // The sums are read from here on.", "  kernel.wgmma_wait 0"),
        )
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(WAIT, "")], "%xs is overwritten by kernel.tma_load while kernel.wgmma of it is in flight"),
        ([(WAIT, ""), ("to 6 {", "to 3 {"), ("(%k < 4)", "(%k < 1)")], "%sums is read by loop.load while kernel.wgmma"),
        (
            [(WAIT, "    kernel.wgmma_wait 1\n")],
            "kernel.wgmma of it is in flight with no kernel.wgmma_wait between them; wait for its group",
        ),
        ([(WAIT + ARRIVE, ARRIVE + WAIT)], "%xs is read by kernel.wgmma and then overwritten by kernel.tma_load"),
        ([(ARRIVE, "")], "0 of 8 arrivals come before"),
        (
            [(FENCE, "")],
            "missing fence of products: %sums is written by loop.store and then used by kernel.wgmma with no "
            "kernel.wgmma_fence between",
        ),
        ([(FENCE, WRITE + "    kernel.barrier\n" + FENCE)], "missing proxy fence: %xs is written by loop.store"),
        (
            [("%thread floordiv 128 * 64 + d0, %s * 16 + d1", "%thread floordiv 128 * 64 + d0, %s * 8 + d1")],
            "unreadable tile: the tile is not known to start at a multiple of 32 bytes in a line of %xs",
        ),
        (
            [
                (
                    "    kernel.wgmma_commit\n",
                    "    loop.guard where (%thread < 128) {\n      kernel.wgmma_commit\n    }\n",
                )
            ],
            "kernel.wgmma_commit stands in a loop.guard that not all threads run alike",
        ),
    ],
)
def test_mistakes_are_named(changes: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DiagnosticException) as caught:
        _verify(planted(*changes))
    assert message in str(caught.value)


def test_threads_hold_left_factors() -> None:
    _verify(HELD_RING)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("      kernel.wgmma_fence\n", "missing fence of products: %held is written by loop.store and then used by"),
        ("      kernel.wgmma_wait 0\n", "%held is overwritten by loop.store while kernel.wgmma of it is in flight"),
    ],
)
def test_left_factors_that_threads_hold_are_in_flight(gone: str, message: str) -> None:
    assert gone in HELD_RING
    with pytest.raises(DiagnosticException) as caught:
        _verify(HELD_RING.replace(gone, ""))
    assert message in str(caught.value)


def test_left_factors_in_flight_may_be_read() -> None:
    read = f"      %again = loop.load %held[0, 0, 0] : {HELD}\n"
    _verify(HELD_RING.replace("      kernel.wgmma_wait 0\n", f"{read}      kernel.wgmma_wait 0\n"))


def test_accumulators_are_not_taken_for_slots_of_the_same_subscripts() -> None:
    _verify(planted(("%s * 16 + d1", "d1")))
