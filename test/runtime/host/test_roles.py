"""Roles on the host: threads that go different ways, barriers of some of them, and the waits between them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ring_roles import RELEASE, planted
from xdsl.parser import Parser

from deplodock.passes.driver import new_context
from deplodock.runtime.host.harness import HostFault, build

LOOP = "        loop.for %ko_1 = 0 to 7 {\n"
BARRIER = (LOOP, f"        kernel.barrier\n{LOOP}")


def _error(*changes: tuple[str, str]) -> float:
    """The largest error of the product that the text computes."""
    draw = np.random.default_rng(0)
    x, w = (draw.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((128, 448), (64, 448)))
    module = Parser(new_context(), planted(*changes)).parse_module()
    module.verify()
    (program,) = build([module])
    (out,) = program.run([x, w])
    return float(np.abs(out - x.astype(np.float64) @ w.astype(np.float64).T).max())


def test_a_producer_and_consumers_that_meet_alone() -> None:
    assert _error(BARRIER) < 1e-4


def test_a_slot_that_is_never_released() -> None:
    with pytest.raises(HostFault, match=r"no thread can go on: .* wait for"):
        _error((RELEASE, ""))


def test_a_barrier_that_some_of_the_role_do_not_come_to() -> None:
    with pytest.raises(HostFault, match=r"no thread can go on: .* wait for bar.sync at the barrier 2"):
        _error((LOOP, f"loop.guard where (%reader < 128) {{\n kernel.barrier\n }}\n{LOOP}"))
