"""verify-barriers on roles: each has a program counter of its own, and mistakes are named with their place."""

from __future__ import annotations

import re

import pytest
from ring_roles import EXPECT, RELEASE, WAIT_EMPTY, WAIT_FULL, WAIT_PRODUCTS, planted, printed, swapped
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.order.facts import KernelFacts
from deplodock.analysis.order.hazards import first_hazard
from deplodock.dialects import kernel
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.tools.source import LocatingParser

LOOP = "        loop.for %ko_1 = 0 to 7 {\n"
END = "        loop.for %n_j_1 = 0 to 8 unroll {\n"
PRODUCER = "        loop.guard where (%copier < 1) {\n"


def _verify(text: str) -> None:
    context = new_context()
    module = LocatingParser(context, text, "k.mlir").parse_module()
    module.verify()
    VerifyBarriersPass().apply(context, module)


@pytest.mark.parametrize("text", [printed(), swapped()])
def test_a_producer_may_stand_first_or_last(text: str) -> None:
    _verify(text)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 296, 20011])
def test_of_many_steps_only_those_are_walked_that_differ(steps: int) -> None:
    module = Parser(new_context(), planted(("= 0 to 7 {", f"= 0 to {steps} {{"))).parse_module()
    assert first_hazard(KernelFacts(kernel.functions(module)[0])) is None


def test_a_barrier_of_a_role_is_one_of_its_threads() -> None:
    _verify(planted((LOOP, f"        kernel.barrier\n{LOOP}")))


def test_a_barrier_of_the_cluster_waits_until_other_roles_have_ended() -> None:
    _verify(planted((END, f"kernel.cluster_barrier\n{END}")))


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        (
            [(WAIT_PRODUCTS, "<>"), (RELEASE, WAIT_PRODUCTS), ("<>", RELEASE)],
            "kernel.tma_load %x_map",
            "%xs is read by kernel.wgmma and then overwritten by kernel.tma_load with no phase between them; the slot "
            "is released early",
        ),
        ([(WAIT_EMPTY, "")], "kernel.tma_load %x_map", "the slot is released early"),
        ([(WAIT_FULL, "")], "kernel.wgmma ", "%xs is read by kernel.wgmma while an async kernel.tma_load to it is in"),
        (
            [(WAIT_FULL, f"loop.guard where (%reader < 128) {{\n{WAIT_FULL}\n}}")],
            "kernel.wgmma ",
            "%xs is read by kernel.wgmma while an async kernel.tma_load to it is in flight",
        ),
        (
            [(RELEASE, "")],
            WAIT_EMPTY,
            "of role producer waits forever for phase 0 of its barrier, which never completes: 0 of 8 arrivals come "
            "before; an arrival is missing, or the parity is wrong; role consumers waits at kernel.wait_phase .k.mlir:",
        ),
        ([("arrivals 8", "arrivals 9")], WAIT_EMPTY, "of role producer waits forever for phase 0 .*: 8 of 9 arrivals"),
        ([("arrivals 8", "arrivals 4")], WAIT_EMPTY, "of role producer waits forever for phase 2 .*: 0 of 4 arrivals"),
        ([("arrivals 1\n", "arrivals 2\n")], WAIT_EMPTY, "of role producer waits forever for phase 0"),
        ([(WAIT_EMPTY, WAIT_EMPTY.replace(" + 1", ""))], "kernel.wait_phase %empty", "of role producer waits forever"),
        ([(WAIT_FULL, "kernel.wait_phase %full[%ko_1 mod 3], 0")], WAIT_EMPTY, "waits forever for phase 1"),
        (
            [("= 0 to 7 {\n          kernel.wait_phase %full", "= 0 to 8 {\n          kernel.wait_phase %full")],
            WAIT_FULL,
            "of role consumers waits forever for phase 2 .*; role producer has ended",
        ),
        ([(EXPECT, EXPECT.replace("24576", "24580"))], WAIT_FULL, "of role consumers waits forever, wrong byte count"),
        (
            [(WAIT_PRODUCTS, "loop.guard where (%reader < 64) {\n kernel.wgmma_wait 0\n }")],
            "kernel.wgmma_wait",
            "kernel.wgmma_wait stands in a loop.guard that not all threads run alike",
        ),
        (
            [(LOOP, f"loop.guard where (%reader < 128) {{\n kernel.barrier\n }}\n{LOOP}")],
            " kernel.barrier\n }",
            "kernel.barrier stands in a loop.guard that not all threads run alike",
        ),
        (
            [(LOOP, f"kernel.cluster_barrier\n{LOOP}"), (PRODUCER, f"kernel.cluster_barrier\n{PRODUCER}")],
            "kernel.cluster_barrier",
            "kernel.cluster_barrier stands in a kernel.role that not all threads run alike",
        ),
        (
            [(LOOP, f"kernel.cluster_barrier\n{LOOP}")],
            WAIT_EMPTY,
            "of role producer waits forever for phase 0 .*; role consumers waits at kernel.cluster_barrier",
        ),
        (
            [("where (%copier < 1)", "where (%copier < 2)")],
            "kernel.tma_load %x_map",
            "is issued by 2 threads; guard it with `%copier < 1`",
        ),
        (
            [("    kernel.barrier\n    kernel.roles", "    kernel.roles")],
            WAIT_EMPTY,
            "%empty is written by kernel.mbarrier and then read by kernel.wait_phase with no phase between them",
        ),
        (
            [("loop.for %ko = 0 to 7", "%n = loop.index [%block + 7]\nloop.for %ko = 0 to %n")],
            WAIT_EMPTY,
            "stands in a loop of a role whose length varies",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(changes: list[tuple[str, str]], place: str, message: str) -> None:
    text = planted(*changes)
    with pytest.raises(DiagnosticException) as raised:
        _verify(text)
    assert re.search(message, str(raised.value)), str(raised.value)
    line = text[: text.index(place)].count("\n") + 1
    assert f"k.mlir:{line}:" in str(raised.value)
