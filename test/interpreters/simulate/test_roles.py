"""Roles in the simulator: each at its own pace, results beside numpy in float64, and mistakes as findings."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ring_roles import EXPECT, RELEASE, WAIT_EMPTY, WAIT_FULL, WAIT_PRODUCTS, planted, printed, swapped

from deplodock.interpreters.simulate import Simulation, simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser

LOOP = "        loop.for %ko_1 = 0 to 7 {\n"
END = "        loop.for %n_j_1 = 0 to 8 unroll {\n"


def _inputs() -> list[Array]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((128, 448), (64, 448))]


def _run(text: str) -> Simulation:
    module = LocatingParser(new_context(), text, "k.mlir").parse_module()
    module.verify()
    return simulate(module, _inputs())


@pytest.mark.parametrize(
    "text",
    [
        printed(),
        swapped(),
        planted((LOOP, f"        kernel.barrier\n{LOOP}")),
        planted((END, f"        kernel.cluster_barrier\n{END}")),
    ],
)
def test_a_ring_with_a_producer_is_right(text: str) -> None:
    """Whichever role has the first threads; the consumers may meet alone, and with those of the cluster at the end."""
    x, w = (values.astype(np.float64) for values in _inputs())
    run = _run(text)
    assert not run.findings, run.findings
    assert np.abs(run.outputs[0] - x @ w.T).max() < 1e-4


@pytest.mark.parametrize(
    ("changes", "kind", "place", "message"),
    [
        (
            [(WAIT_PRODUCTS, "<>"), (RELEASE, WAIT_PRODUCTS), ("<>", RELEASE)],
            "data race",
            "kernel.tma_load %x_map",
            "the slot is released early",
        ),
        ([(WAIT_EMPTY, "")], "data race", "kernel.tma_load %x_map", "with no phase between"),
        ([(WAIT_FULL, "")], "read in flight", "kernel.wgmma ", "still copies to it"),
        (
            [(WAIT_FULL, f"loop.guard where (%reader < 128) {{\n{WAIT_FULL}\n}}")],
            "data race",
            "kernel.wgmma ",
            "with no phase between that the first arrives at and the second waits for",
        ),
        (
            [(RELEASE, "")],
            "phase never completes",
            WAIT_EMPTY,
            "deadlock in CTA 0: phase 0 of %empty[0] has 0 of 8 arrivals; an arrival is missing, or the parity is "
            "wrong; role consumers waits at `kernel.wait_phase %full",
        ),
        ([("arrivals 8", "arrivals 9")], "phase never completes", WAIT_EMPTY, "has 8 of 9 arrivals"),
        (
            [(LOOP, f"        kernel.cluster_barrier\n{LOOP}")],
            "phase never completes",
            WAIT_EMPTY,
            "role consumers waits at `kernel.cluster_barrier",
        ),
        (
            [(WAIT_EMPTY, WAIT_EMPTY.replace(" + 1", ""))],
            "phase never completes",
            "kernel.wait_phase %empty",
            "deadlock in CTA 0: phase 0 of %empty[0]",
        ),
        (
            [("= 0 to 7 {\n          kernel.wait_phase %full", "= 0 to 8 {\n          kernel.wait_phase %full")],
            "phase never completes",
            WAIT_FULL,
            "role producer has ended",
        ),
        ([(EXPECT, EXPECT.replace("24576", "24580"))], "wrong byte count", WAIT_FULL, "deadlock in CTA 0"),
        (
            [(WAIT_PRODUCTS, "loop.guard where (%reader < 64) {\n kernel.wgmma_wait 0\n }")],
            "divergent warpgroup",
            "kernel.wgmma_wait",
            "only 64 of the 128 threads of warpgroup 1",
        ),
        (
            [(LOOP, f"loop.guard where (%reader < 128) {{\n kernel.barrier\n }}\n{LOOP}")],
            "divergent barrier",
            " kernel.barrier\n }",
            "only 128 of the 256 threads of the consumers of CTA 0 reach it: thread 128 does, thread 256 does not",
        ),
        (
            [("where (%copier < 1)", "where (%copier < 2)")],
            "repeated issue",
            "kernel.tma_load %x_map",
            "guard it with `%copier < 1`",
        ),
    ],
)
def test_mistakes_are_findings_with_their_place(
    changes: list[tuple[str, str]], kind: str, place: str, message: str
) -> None:
    text = planted(*changes)
    line = text[: text.index(place)].count("\n") + 1
    found = [str(finding) for finding in _run(text).findings]
    assert any(kind in one and message in one and f"k.mlir:{line}:" in one for one in found), found
