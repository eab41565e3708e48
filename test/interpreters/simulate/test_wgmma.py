"""Products of warpgroups in the simulator, beside numpy in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from products import HELD, HELD_RING, RING, W, planted
from xdsl.parser import Parser

from deplodock.interpreters.simulate import Simulation, simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import new_context


def _inputs() -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    return tuple(draw.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((256, 384), (128, 384)))  # pyright: ignore


def _run(text: str) -> Simulation:
    module = Parser(new_context(), text).parse_module()
    module.verify()
    return simulate(module, list(_inputs()))


def test_a_ring_of_products_is_right() -> None:
    x, w = (values.astype(np.float64) for values in _inputs())
    run = _run(RING)
    assert not run.findings, run.findings
    assert np.abs(run.outputs[0] - x @ w.T).max() < 1e-4


def test_sums_are_rounded_toward_zero() -> None:
    x, w = (values.astype(np.float64) for values in _inputs())
    error = np.abs(_run(RING).outputs[0]) - np.abs(x @ w.T)
    assert (error[np.abs(x @ w.T) > 1] <= 0).mean() > 0.75


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (("%thread floordiv 128 * 64 + d0, %s", "%thread floordiv 64 * 64 + d0, %s"), "out of bounds", "outside of"),
        (("d0, %s * 16 + d1]\n        * ", "d0, %s * 8 + d1]\n        * "), "unreadable tile", "multiple of 32 bytes"),
        (("    kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2\n", ""), "read in flight", "still copies"),
        (("    kernel.wgmma_wait 0\n", ""), "data race", "which a product of a warpgroup still reads"),
        (("    kernel.wgmma_wait 0\n", ""), "unwritten read", "%sums"),
        (("    kernel.wgmma_wait 0\n", "    kernel.wgmma_wait 1\n"), "unwritten read", "%sums"),
        (
            (
                "    kernel.wgmma_wait 0\n    kernel.arrive warp %empty[%k mod 3]\n",
                "    kernel.arrive warp %empty[%k mod 3]\n    kernel.wgmma_wait 0\n",
            ),
            "data race",
            "the slot is released early",
        ),
        (("    kernel.arrive warp %empty[%k mod 3]\n", ""), "phase never completes", "deadlock"),
    ],
)
def test_mistakes_are_findings(change: tuple[str, str], kind: str, message: str) -> None:
    findings = _run(planted(change)).findings
    assert any(found.kind == kind and message in found.message for found in findings), findings


WAIT = "    kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2\n"
WRITE = f"""
    loop.guard where (%thread < 64) {{
      %y = arith.constant 1.0 : bf16
      loop.store %y, %ws[%k mod 3, %thread, 0] : {W}
    }}
"""


@pytest.mark.parametrize("fence", ["", "kernel.fence_proxy_async\n"])
def test_products_see_what_threads_wrote_and_fenced(fence: str) -> None:
    findings = _run(planted((WAIT, WAIT + WRITE + fence + "kernel.barrier\n"))).findings
    if fence:
        assert not findings
    else:
        assert {(found.kind, found.op.name) for found in findings} == {
            ("missing proxy fence", "kernel.wgmma"),
            ("missing proxy fence", "kernel.tma_load"),
        }
        assert any("reads %ws[0, 0, 0] where threads wrote before" in found.message for found in findings)


def test_threads_hold_left_factors() -> None:
    x, w = (values.astype(np.float64) for values in _inputs())
    run = _run(HELD_RING)
    assert not run.findings, run.findings
    assert np.abs(run.outputs[0] - x @ w.T).max() < 1e-4


def test_a_left_factor_that_nobody_wrote_is_a_finding() -> None:
    store = f"loop.store %a, %held[%j, %h, %r] : {HELD}"
    findings = _run(HELD_RING.replace(store, "")).findings
    assert [(found.kind, "%held[" in found.message) for found in findings] == [("unwritten read", True)]
