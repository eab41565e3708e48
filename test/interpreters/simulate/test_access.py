"""What checks of the simulator are told: a new one is a class and an entry in the list."""

import numpy as np
import pytest
from xdsl.parser import Parser

from deplodock.interpreters.simulate import launch, simulate
from deplodock.interpreters.simulate.access import Check, Touch
from deplodock.interpreters.simulate.flight import Copies
from deplodock.interpreters.values import Array
from deplodock.passes.driver import new_context

SHARED = "memref<32xf32, #tile.memory<shared>>"
KERNEL = f"""
kernel.func @k(%x: memref<32xf32>, %out: memref<32xf32>) blocks(%b = 1) threads(%t = 32) {{
  %s = kernel.alloc : {SHARED}
  kernel.move 1 async %x[%t] to %s[%t] : memref<32xf32> to {SHARED}
  kernel.commit_group
  kernel.wait_group 0
  kernel.barrier
  %v = loop.load %s[31 - %t] : {SHARED}
  kernel.fence_proxy_async
  loop.store %v, %out[%t] : memref<32xf32>
}}
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a check that stands in the list writes down."""
    lines: list[str] = []

    class Notes(Check):
        def on_start(self) -> None:
            lines.append("start")

        def on_read(self, touch: Touch, elements: Array) -> None:
            lines.append(f"{touch.access.op.name} reads {self.memory.name(touch.access)}")

        def on_issue(self, touch: Touch, elements: Array) -> None:
            lines.append(f"{touch.access.op.name} copies to {elements.size} elements")

        def on_land(self, copies: Copies, is_same_in_ctas: bool) -> None:
            lines.append(f"{copies.element.size} elements land")

        def on_write(self, touch: Touch, elements: Array) -> None:
            lines.append(f"{touch.access.op.name} writes {self.memory.name(touch.access)}")

        def on_barrier(self, ctas: Array) -> None:
            lines.append("barrier")

        def on_fence_proxy(self, lanes: Array) -> None:
            lines.append("fence")

        def on_finish(self) -> None:
            lines.append("finish")

    monkeypatch.setattr(launch, "CHECKS", (Notes,))
    return lines


TOLD = [
    "start",
    "kernel.move reads %x",
    "kernel.move copies to 32 elements",
    "32 elements land",
    "barrier",
    "loop.load reads %s",
    "fence",
    "loop.store writes %out",
    "finish",
]


@pytest.mark.parametrize("check", [True, False])
def test_a_check_is_told_what_happens(told: list[str], check: bool) -> None:
    """Unless nothing is to be checked; what is computed is the same."""
    x = np.arange(32, dtype=np.float32)
    simulation = simulate(Parser(new_context(), KERNEL).parse_module(), [x], check=check)
    np.testing.assert_array_equal(simulation.outputs[0], x[::-1])
    assert told == (TOLD if check else [])
