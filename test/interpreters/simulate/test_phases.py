"""Barriers with phases in the simulator: a ring without CTA barriers is clean, and each mistake is named at its op."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.dialects import kernel
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.verify_barriers import verify_barriers

SHARED = "memref<3x4xf32, #tile.memory<shared>>"
COPY = f"to %s[(%k + 1) mod 3, %thread] : memref<40xf32> to {SHARED}"
EMPTY = "kernel.wait_phase %empty[(%k + 1) mod 3], (%k + 1) floordiv 3 + 1"
FULL = "kernel.wait_phase %full[%k mod 3], %k floordiv 3\n"
READ = "%v = loop.load %s[%k mod 3, 3 - %thread]"
ARRIVE = "kernel.arrive warp %empty[%k mod 3]\n"
RING = f"""
kernel.func @k(%x: memref<40xf32>, %out: memref<40xf32>) blocks(%block = 1) threads(%thread = 4) {{
  %s = kernel.alloc : {SHARED}
  %full = kernel.mbarrier 3 arrivals 4
  %empty = kernel.mbarrier 3 arrivals 1
  kernel.barrier
  kernel.move 1 async %x[%thread] to %s[0, %thread] : memref<40xf32> to {SHARED}
  kernel.arrive_copies %full[0]
  loop.for %k = 0 to 10 {{
    loop.guard where (%k < 9) {{
      {EMPTY}
      kernel.move 1 async %x[%k * 4 + 4 + %thread] {COPY}
      kernel.arrive_copies %full[(%k + 1) mod 3]
    }}
    {FULL}
    {READ} : {SHARED}
    loop.store %v, %out[%k * 4 + %thread] : memref<40xf32>
    {ARRIVE}
  }}
}}"""


def module_of(text: str) -> ModuleOp:
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def findings(text: str) -> list[tuple[str, str]]:
    simulation = simulate(module_of(text), [np.arange(40, dtype=np.float32)])
    return [(finding.kind, finding.op.name) for finding in simulation.findings]


def test_a_ring_without_barriers_is_clean() -> None:
    x = np.arange(40, dtype=np.float32)
    simulation = simulate(module_of(RING), [x])
    assert not simulation.findings
    (function,) = (op for op in module_of(RING).walk() if isinstance(op, kernel.FuncOp))
    verify_barriers(function)
    assert np.array_equal(simulation.outputs[0], x.reshape(10, 4)[:, ::-1].reshape(-1))


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (EMPTY, "", ("data race", "kernel.move")),
        (EMPTY, EMPTY.removesuffix(" + 1"), ("phase never completes", "kernel.wait_phase")),
        (FULL, "", ("read in flight", "loop.load")),
        (
            FULL,
            "kernel.wait_phase %full[%k mod 3], %k floordiv 3 + 1\n",
            ("phase never completes", "kernel.wait_phase"),
        ),
        (ARRIVE, "", ("phase never completes", "kernel.wait_phase")),
        (ARRIVE, "kernel.arrive %empty[%k mod 3]\n", ("phase never completes", "kernel.wait_phase")),
        (
            ARRIVE,
            "loop.guard where (%thread < 2) { kernel.arrive warp %empty[%k mod 3] }",
            ("divergent barrier", "kernel.arrive"),
        ),
        (READ, f"{ARRIVE} {READ}", ("data race", "kernel.move")),
        ("kernel.barrier", "", ("uninitialised barrier", "kernel.arrive_copies")),
        ("%full[0]", "%full[3]", ("out of bounds", "kernel.arrive_copies")),
    ],
    ids=[
        *("missing wait for empty", "wrong parity of empty", "missing wait for full", "wrong parity of full"),
        *("missing arrive", "too many arrivals", "divergent arrive", "slot released early", "no barrier", "no slot"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, finding: tuple[str, str]) -> None:
    text = RING.replace(old, new, 1)
    if new.endswith(READ):
        text = text.replace(f"memref<40xf32>\n    {ARRIVE}", "memref<40xf32>\n")
    assert finding in findings(text)
    (function,) = (op for op in module_of(text).walk() if isinstance(op, kernel.FuncOp))
    with pytest.raises(DiagnosticException, match=r"waits forever|no phase between|subscript|leaves open how many"):
        verify_barriers(function)


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        (
            {"%full[0]": "%full[3]"},
            "kernel.arrive_copies must have a subscript that loops determine, of a barrier that was made before",
        ),
        (
            {ARRIVE: f"loop.guard where (%thread < 2) {{ {ARRIVE} }}"},
            "kernel.arrive stands under a condition that leaves open how many threads reach it",
        ),
        (
            {EMPTY: EMPTY.replace("floordiv 3", "floordiv 3 + %block")},
            "kernel.wait_phase must have a parity that loops determine",
        ),
        (
            {FULL: f"loop.for %again = 0 to 2 {{ {FULL} }}"},
            "has the wrong parity: it does not wait for phase 1 of its barrier, as it has met the phases before",
        ),
        (
            {READ: f"{ARRIVE} {READ}", f"memref<40xf32>\n    {ARRIVE}": "memref<40xf32>\n"},
            "%s is read by loop.load and then overwritten by kernel.move with no phase between them; the slot is "
            "released early, arrive after the first and wait for that phase before the second",
        ),
    ],
)
def test_a_mistake_is_refused(edits: dict[str, str], reason: str) -> None:
    text = RING
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new, 1)
    (function,) = (op for op in module_of(text).walk() if isinstance(op, kernel.FuncOp))
    with pytest.raises(DiagnosticException) as error:
        verify_barriers(function)
    assert reason in str(error.value)


def test_barriers_made_again_start_again_after_a_barrier() -> None:
    head, tail = RING.split("  %full", 1)
    body = "%full" + tail.removesuffix("}")
    again = f"{head} loop.for %again = 0 to 2 {{ {{}} {body} }} }}"
    kinds = findings(again.replace("{}", ""))
    assert [kind for kind, _ in kinds if kind != "data race"] == ["uninitialised barrier"] * 2
    assert {kind for kind, _ in findings(again.replace("{}", "kernel.barrier"))} <= {"data race"}


HANDED_OVER = """
kernel.func @k(%x: memref<40xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %s = kernel.alloc : memref<4xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 4
  kernel.barrier
  %v = loop.load %x[%thread] : memref<40xf32>
  STORE
  kernel.arrive %full[0]
  LATE
  kernel.wait_phase %full[0], 0
  %w = loop.load %s[3 - %thread] : memref<4xf32, #tile.memory<shared>>
  loop.store %w, %out[%thread] : memref<4xf32>
}"""


def test_an_arrival_hands_over_what_came_before_it_alone() -> None:
    store = "loop.store %v, %s[%thread] : memref<4xf32, #tile.memory<shared>>"
    assert findings(HANDED_OVER.replace("STORE", store).replace("LATE", "")) == []
    late = findings(HANDED_OVER.replace("STORE", "").replace("LATE", store))
    assert late == [("data race", "loop.load")]


def test_ctas_may_differ() -> None:
    store = "loop.store %v, %s[%thread] : memref<4xf32, #tile.memory<shared>>"
    two = HANDED_OVER.replace("%block = 1", "%block = 2").replace("STORE", store).replace("LATE", "")
    two = two.replace("%out: memref<4xf32>", "%out: memref<2x4xf32>")
    two = two.replace("%out[%thread] : memref<4xf32>", "%out[%block, %thread] : memref<2x4xf32>")
    assert findings(two) == []
    arrive = "kernel.arrive %full[0]"
    first = findings(two.replace(arrive, f"loop.guard where (%block < 1) {{ {arrive} }}"))
    assert first == [("phase never completes", "kernel.wait_phase"), ("data race", "loop.load")]


GUARD = "loop.guard where (%k < %block * 2 + 2)"
VARYING = (
    RING.replace("%block = 1", "%block = 4")
    .replace("%out: memref<40xf32>", "%out: memref<4x40xf32>")
    .replace("%out[%k * 4 + %thread] : memref<40xf32>", "%out[%block, %k * 4 + %thread] : memref<4x40xf32>")
    .replace("%k = 0 to 10", "%k = 0 to %block * 2 + 3")
    .replace("loop.guard where (%k < 9)", GUARD)
)


def refusal(text: str) -> str | None:
    (function,) = (op for op in module_of(text).walk() if isinstance(op, kernel.FuncOp))
    try:
        verify_barriers(function)
    except DiagnosticException as error:
        return str(error)
    return None


def test_a_ring_may_end_where_the_block_says() -> None:
    assert not [kind for kind, _ in findings(VARYING) if kind != "unwritten output"]
    assert refusal(VARYING) is None
    long = VARYING.replace("%block * 2 + 3", "%block * 2 + 4001").replace("%block * 2 + 2", "%block * 2 + 4000")
    assert refusal(long) is None


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (GUARD, "loop.guard where (%k < %block * 2 + 1)", "waits forever"),
        (GUARD, "loop.guard where (%k < %block * 2 + 2, %k < 7)", "waits forever"),
        (GUARD, "loop.guard where (%k < %block + 2)", "leaves open how many threads reach it"),
        (EMPTY, EMPTY.removesuffix(" + 1"), "waits forever"),
        (EMPTY, "", "no phase between"),
        (ARRIVE, "", "waits forever"),
        ("\n  }\n}", "\n  }\n  kernel.wait_phase %full[0], 0\n}", "of a barrier that was made before"),
    ],
    ids=["copies end early", "some end early", "another end", "wrong parity", "no wait", "no arrival", "used after"],
)
def test_a_mistake_at_some_length_is_refused(old: str, new: str, reason: str) -> None:
    assert old in VARYING
    text = VARYING.replace(old, new)
    assert reason in (refusal(text) or "")
    kinds = {kind for kind, _ in findings(text)} - {"unwritten output"}
    assert kinds or reason in ("leaves open how many threads reach it", "of a barrier that was made before")
