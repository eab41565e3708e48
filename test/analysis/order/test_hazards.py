"""Which accesses of shared memory need a barrier: slots of rings, guards, and copies in flight."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.order.facts import KernelFacts
from deplodock.analysis.order.hazards import first_hazard
from deplodock.dialects import kernel
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.verify_barriers import verify_barriers

CONTEXT = new_context()

S = "memref<3x64xf32, #tile.memory<shared>>"
X = "memref<640xf32>"


def hazard(body: str, trips: str = "10") -> str | None:
    """The first hazard of a loop over %k in a kernel of 64 threads %t, as text."""
    text = f"""
    kernel.func @k(%x: {X}, %n: index) blocks(%b = 1) threads(%t = 64) {{
      %s = kernel.alloc : {S}
      %v = loop.load %x[%t] : {X}
      loop.for %k = 0 to {trips} {{
        {body}
      }}
    }}"""
    module = Parser(CONTEXT, text).parse_module()
    module.verify()
    (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    found = first_hazard(KernelFacts(function))
    return None if found is None else str(found)


def store(slot: str, at: str = "%t") -> str:
    return f"loop.store %v, %s[{slot}, {at}] : {S}"


def load(slot: str, at: str = "63 - %t") -> str:
    return f"%{len(slot)}r = loop.load %s[{slot}, {at}] : {S}".replace(f"%{len(slot)}r", "%r")


def copy(slot: str) -> str:
    return f"kernel.move 1 async %x[%k * 64 + %t] to %s[{slot}, %t] : {X} to {S}"


def test_a_barrier_that_some_threads_miss_is_refused() -> None:
    text = f"""
    kernel.func @k(%x: {X}) blocks(%b = 1) threads(%t = 64) {{
      loop.guard where (%t < 32) {{ kernel.barrier }}
    }}"""
    (function,) = Parser(CONTEXT, text).parse_module().ops
    assert isinstance(function, kernel.FuncOp)
    with pytest.raises(DiagnosticException) as error:
        verify_barriers(function)
    assert "kernel.barrier stands in a loop.guard that not all threads run alike; move it out" in str(error.value)


@pytest.mark.parametrize(("condition", "is_refused"), [("%b < 1", True), ("%b floordiv 2 < 1", False)])
def test_a_cluster_barrier_that_some_ctas_miss_is_refused(condition: str, is_refused: bool) -> None:
    text = f"""
    kernel.func @k() blocks(%b = 4) threads(%t = 64) cluster 2 {{
      loop.guard where ({condition}) {{ kernel.cluster_barrier }}
    }}"""
    (function,) = Parser(CONTEXT, text).parse_module().ops
    assert isinstance(function, kernel.FuncOp)
    if not is_refused:
        verify_barriers(function)
        return
    with pytest.raises(DiagnosticException, match=r"kernel\.cluster_barrier stands in a loop\.guard that not all"):
        verify_barriers(function)


BARRIER, COMMIT, WAIT = "kernel.barrier", "kernel.commit_group", "kernel.wait_group"
READ_AFTER_WRITE = "%s is written by loop.store and then read by loop.load"
WRITE_AFTER_READ = "%s is read by loop.load and then overwritten by loop.store"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # The slot written is read one barrier later, and written again two barriers later.
        ([store("%k mod 3"), BARRIER, load("%k mod 3")], None),
        ([store("%k mod 2"), BARRIER, load("%k mod 2")], None),
        # With one slot, a slow thread still reads when a fast one writes the next step.
        ([store("%k mod 1"), BARRIER, load("%k mod 1")], WRITE_AFTER_READ),
        ([store("0"), BARRIER, load("0")], WRITE_AFTER_READ),
        ([store("0"), BARRIER, load("0"), BARRIER], None),
        # Different slots of one step do not meet.
        ([BARRIER, store("(%k + 2) mod 3"), load("%k mod 3")], None),
        ([BARRIER, store("(%k + 3) mod 3"), load("%k mod 3")], READ_AFTER_WRITE),
        # Nothing orders a step with the later one that has its slot.
        ([store("(%k + 2) mod 3"), load("%k mod 3")], WRITE_AFTER_READ),
        ([store("(%k + 1) mod 3"), load("%k mod 3")], READ_AFTER_WRITE),
        # Steps 4 and 5 of six have slot 2.
        ([store("%k floordiv 2 mod 3"), load("2"), BARRIER], READ_AFTER_WRITE),
        # A thread's own elements need nothing.
        ([store("%k mod 3"), load("%k mod 3", "%t")], None),
    ],
)
def test_slots(lines: list[str], expected: str | None) -> None:
    assert hazard("\n".join(lines)) == expected
    assert hazard("\n".join(lines), trips="%n") == expected


IN_FLIGHT = "%s is read by loop.load while an async kernel.move to it is in flight"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([copy("%k mod 3"), COMMIT, f"{WAIT} 0", BARRIER, load("%k mod 3")], None),
        ([copy("%k mod 3"), COMMIT, f"{WAIT} 0", load("%k mod 3", "%t")], None),
        (
            [copy("%k mod 3"), COMMIT, f"{WAIT} 0", load("%k mod 3")],
            "%s is written by kernel.move and then read by loop.load",
        ),
        ([copy("%k mod 3"), COMMIT, f"{WAIT} 1", BARRIER, load("%k mod 3")], IN_FLIGHT),
        ([copy("%k mod 3"), COMMIT, BARRIER, load("%k mod 3", "%t")], IN_FLIGHT),
        ([copy("%k mod 3"), f"{WAIT} 0", COMMIT, BARRIER, load("%k mod 3")], IN_FLIGHT),
        # What landed one step ago was published by this step's barrier, and its slot was read before it.
        ([copy("%k mod 3"), COMMIT, f"{WAIT} 1", BARRIER, load("(%k + 2) mod 3")], None),
        (
            [copy("%k mod 2"), COMMIT, f"{WAIT} 1", BARRIER, load("(%k + 1) mod 2")],
            "%s is read by loop.load and then overwritten by kernel.move",
        ),
        # Two steps in flight may not fill one slot.
        (
            [copy("%k mod 1"), COMMIT, f"{WAIT} 1"],
            "%s is overwritten by kernel.move while an async kernel.move to it is in flight",
        ),
    ],
)
def test_copies_in_flight(lines: list[str], expected: str | None) -> None:
    assert hazard("\n".join(lines)) == expected


def guarded(condition: str, *lines: str) -> str:
    return "\n".join([f"loop.guard where ({condition}) {{", *lines, "}"])


def test_a_guard_that_fails_in_the_last_steps() -> None:
    """The commit must not be skipped: the waits of the last steps would leave the last copies in flight."""
    read = [BARRIER, load("(%k + 2) mod 3")]
    inside = [guarded("%k < 90", copy("%k mod 3")), COMMIT, f"{WAIT} 1", *read]
    assert hazard("\n".join(inside), trips="100") is None
    skipped = [guarded("%k < 90", copy("%k mod 3"), COMMIT), f"{WAIT} 1", *read]
    assert hazard("\n".join(skipped), trips="90") is None
    assert hazard("\n".join(skipped), trips="100") == IN_FLIGHT


@pytest.mark.parametrize("trips", ["3", "min(3, %n)"])
def test_as_many_slots_as_steps(trips: str) -> None:
    """The slot is the step itself then, also where the loop may end before."""
    lines = [f"{WAIT} 0", guarded("%k < 2", copy("(%k + 1) mod 3")), COMMIT, BARRIER, load("%k")]
    assert hazard("\n".join(lines), trips) is None
    lines[0] = f"{WAIT} 1"
    assert hazard("\n".join(lines), trips) == IN_FLIGHT


def test_a_hazard_in_one_late_step() -> None:
    lines = [COMMIT, guarded("%k < 70", BARRIER), guarded("%k + 1 < 70", store("0")), guarded("68 < %k", load("0"))]
    assert hazard("\n".join(lines), trips="70") is None
    assert hazard("\n".join(lines), trips="71") is None
    late = [COMMIT, guarded("%k < 69", BARRIER), *lines[2:]]
    assert hazard("\n".join(late), trips="69") is None
    assert hazard("\n".join(late), trips="70") == READ_AFTER_WRITE


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("%t mod 8 < 1", None),
        ("%t < 64, %t mod 8 < 1", None),
        ("%t mod 8 < 2", "%s is written by loop.store and then overwritten by loop.store"),
        ("%t mod 4 < 1", "%s is written by loop.store and then overwritten by loop.store"),
    ],
)
def test_a_guard_leaves_one_thread_for_an_element(condition: str, expected: str | None) -> None:
    """The first thread of each eight writes their element again; a barrier could not stand between."""
    assert hazard(guarded(condition, store("0", "%t floordiv 8"))) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("%t < 16", None),
        ("%t < 17", "%s is written by loop.store and then overwritten by loop.store"),
    ],
)
def test_the_threads_that_a_guard_leaves_write_rows(condition: str, expected: str | None) -> None:
    """An element tells which of them wrote it, and in which iteration."""
    assert hazard(guarded(condition, store("0", "%k * 16 + %t")), trips="3") == expected
