"""The SIMT simulator reports each kind of mistake, says where, and says nothing about the same kernel without it."""

import numpy as np
import pytest

from deplodock.errors import Error
from deplodock.interpreters.simulate import Finding, Simulation, simulate
from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser

SHARED = "#tile.memory<shared>"
REGISTER = "#tile.memory<register>"
X = np.arange(64, dtype=np.float32)


def run(text: str, *inputs: np.ndarray, check: bool = True) -> Simulation:
    context = new_context()
    module = LocatingParser(context, text, "bug.mlir").parse_module()
    module.verify()
    return simulate(module, inputs, check=check)


def kernel(body: str, blocks: int = 1, threads: int = 64) -> str:
    """A kernel from 64 floats %x to %out, one op a line; the first line of the body is line 2."""
    head = f"kernel.func @k(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%b = {blocks}) threads(%t = {threads}) {{"
    return "\n".join([head, *(line.strip() for line in body.strip().splitlines()), "}"])


def only(simulation: Simulation, kind: str, line: int) -> Finding:
    """The one finding, which is of this kind and at this line."""
    assert [(f.kind, f.location.rpartition(":")[0]) for f in simulation.findings] == [(kind, f"bug.mlir:{line}")]
    return simulation.findings[0]


SHIFT = f"""
    %s = kernel.alloc : memref<64xf32, {SHARED}>
    %v = loop.load %x[%t] : memref<64xf32>
    loop.store %v, %s[%t] : memref<64xf32, {SHARED}>
    kernel.barrier
    %w = loop.load %s[(%t + 1) mod 64] : memref<64xf32, {SHARED}>
    loop.store %w, %out[%t] : memref<64xf32>
"""


def test_clean_shift() -> None:
    simulation = run(kernel(SHIFT), X)
    np.testing.assert_array_equal(simulation.outputs[0], np.roll(X, -1))
    assert simulation.findings == []


def test_read_after_write_race_names_both_ops() -> None:
    simulation = run(kernel(SHIFT.replace("kernel.barrier\n", "")), X)
    finding = only(simulation, "data race", 5)
    assert finding.count == 64
    assert str(finding) == (
        "bug.mlir:5:1: data race: kernel @k: `%w = loop.load %s[(%t + 1) mod 64] : memref<64xf32, "
        "#tile.memory<shared>>`: in CTA 0, thread 0 reads %s[1], which thread 1 writes in `loop.store %v, %s[%t] : "
        "memref<64xf32, #tile.memory<shared>>` (bug.mlir:4:1), with no barrier between (64 times)"
    )


def test_a_read_in_flight_names_the_copy() -> None:
    memory = f"memref<64xf32, {SHARED}>"
    copy = f"kernel.move 1 async %x[%t] to %s[%t] : memref<64xf32> to {memory}"
    wait = "kernel.commit_group\nkernel.wait_group 0\n"
    store = f"%v = loop.load %x[%t] : memref<64xf32>\n    loop.store %v, %s[%t] : {memory}"
    assert run(kernel(SHIFT.replace(store, f"{copy}\n{wait}")), X).findings == []
    finding = only(run(kernel(SHIFT.replace(store, copy)), X), "read in flight", 5)
    assert f"thread 0 of CTA 0 reads %s[1] while thread 1 still copies to it in `{copy}` (bug.mlir:3:1)" in str(finding)


def test_unchecked_runs_report_nothing() -> None:
    assert run(kernel(SHIFT.replace("kernel.barrier\n", "")), X, check=False).findings == []


ROTATE = f"""
    %s = kernel.alloc : memref<64xf32, {SHARED}>
    %v = loop.load %x[%t] : memref<64xf32>
    loop.store %v, %s[%t] : memref<64xf32, {SHARED}>
    loop.for %i = 0 to 3 {{
    kernel.barrier
    %w = loop.load %s[(%t + 1) mod 64] : memref<64xf32, {SHARED}>
    kernel.barrier
    loop.store %w, %s[%t] : memref<64xf32, {SHARED}>
    }}
    %r = loop.load %s[%t] : memref<64xf32, {SHARED}>
    loop.store %r, %out[%t] : memref<64xf32>
"""


def test_clean_rotation() -> None:
    simulation = run(kernel(ROTATE), X)
    np.testing.assert_array_equal(simulation.outputs[0], np.roll(X, -3))
    assert simulation.findings == []


@pytest.mark.parametrize(("barrier", "line", "verbs"), [(0, 6, ("reads", "writes")), (1, 8, ("writes", "reads"))])
def test_each_barrier_of_a_loop_is_needed(barrier: int, line: int, verbs: tuple[str, str]) -> None:
    lines = ROTATE.splitlines()
    del lines[[i for i, text in enumerate(lines) if "barrier" in text][barrier]]
    finding = next(f for f in run(kernel("\n".join(lines)), X).findings if f.location.startswith(f"bug.mlir:{line}:"))
    assert finding.kind == "data race"
    assert f" {verbs[0]} %s[" in finding.message
    assert f" {verbs[1]} in `" in finding.message


def test_writes_of_one_element_race_even_if_the_value_is_the_same() -> None:
    body = f"""
        %s = kernel.alloc : memref<1xf32, {SHARED}>
        %c = arith.constant 1.0 : f32
        loop.guard where (%t < 2) {{
        loop.store %c, %s[0] : memref<1xf32, {SHARED}>
        }}
        kernel.barrier
        %w = loop.load %s[0] : memref<1xf32, {SHARED}>
        loop.store %w, %out[%t] : memref<64xf32>
    """
    finding = only(run(kernel(body), X), "data race", 5)
    assert "writes %s[0], which thread 1 writes" in finding.message
    assert run(kernel(body.replace("%t < 2", "%t < 1")), X).findings == []


def test_a_thread_does_not_race_with_itself() -> None:
    body = f"""
        %s = kernel.alloc : memref<64xf32, {SHARED}>
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %s[%t] : memref<64xf32, {SHARED}>
        %w = loop.load %s[%t] : memref<64xf32, {SHARED}>
        loop.store %w, %s[%t] : memref<64xf32, {SHARED}>
        loop.store %w, %out[%t] : memref<64xf32>
    """
    assert run(kernel(body), X).findings == []


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize(
    "reads", ["(%t < 2)", "(%t < 1) #(0 < %t, %t < 2)", "(0 < %t, %t < 2) #(%t < 1)", "(%t < 2) #(%t < 1)"]
)
def test_every_earlier_reader_counts(writer: int, reads: str) -> None:
    """Threads 0 and 1 read, at once or in turn, then one of them writes: a race with the other one."""
    load = f"{{\n%w = loop.load %s[0] : memref<1xf32, {SHARED}>\n}}"
    loads = [f"loop.guard where {condition} {load}" for condition in reads.split(" #")]
    body = f"""
        %s = kernel.alloc : memref<1xf32, {SHARED}>
        %c = arith.constant 1.0 : f32
        loop.store %c, %out[%t] : memref<64xf32>
        loop.guard where (%t < 1) {{
        loop.store %c, %s[0] : memref<1xf32, {SHARED}>
        }}
        kernel.barrier
        {chr(10).join(loads)}
        loop.guard where ({writer} - 1 < %t, %t < {writer} + 1) {{
        loop.store %c, %s[0] : memref<1xf32, {SHARED}>
        }}
    """
    finding = only(run(kernel(body), X), "data race", 10 + 3 * len(loads))
    assert f"thread {writer} writes %s[0], which thread {1 - writer} reads" in finding.message


def test_shared_memory_of_an_allocation_in_a_loop_is_the_same_each_time() -> None:
    def body(barrier: str) -> str:
        return f"""
            loop.for %i = 0 to 2 {{
            %s = kernel.alloc : memref<64xf32, {SHARED}>
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %s[%t] : memref<64xf32, {SHARED}>
            kernel.barrier
            %w = loop.load %s[63 - %t] : memref<64xf32, {SHARED}>
            loop.store %w, %out[%t] : memref<64xf32>
            {barrier}
            }}
        """

    only(run(kernel(body("")), X), "data race", 5)
    assert run(kernel(body("kernel.barrier")), X).findings == []


def test_ctas_that_do_different_things_to_their_shared_memory() -> None:
    def body(barrier: str, offset: str) -> str:
        return f"""
            %s = kernel.alloc : memref<64xf32, {SHARED}>
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %s[(%t + {offset}) mod 64] : memref<64xf32, {SHARED}>
            loop.guard where ({barrier}) {{
            kernel.barrier
            }}
            %w = loop.load %s[(%t + {offset} + 1) mod 64] : memref<64xf32, {SHARED}>
            loop.guard where (2 < %b) {{
            loop.store %w, %out[%t] : memref<64xf32>
            }}
        """

    for offset in ("0", "%b"):
        finding = only(run(kernel(body("1 < %b", offset), blocks=4), X), "data race", 8)
        assert "in CTA 0, thread 0 reads" in finding.message
        assert finding.count == 2 * 64
        finding = only(run(kernel(body("%b < 3", offset), blocks=4), X), "data race", 8)
        assert "in CTA 3, thread 0 reads" in finding.message
        assert finding.count == 64
        simulation = run(kernel(body("%b < 4", offset), blocks=4), X)
        assert simulation.findings == []
        np.testing.assert_array_equal(simulation.outputs[0], np.roll(X, -1))


def test_ctas_race_on_global_memory() -> None:
    def body(subscript: str) -> str:
        return f"""
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %out[{subscript}] : memref<64xf32>
        """

    findings = run(kernel(body("%b * 31 + %t"), blocks=2, threads=32), X).findings
    assert [f.kind for f in findings] == ["data race", "unwritten output"]
    assert findings[0].count == 1
    assert "thread 31 of CTA 0 writes %out[31], which thread 0 of CTA 1 writes" in findings[0].message
    assert run(kernel(body("%b * 32 + %t"), blocks=2, threads=32), X).findings == []


def test_barriers_do_not_order_global_memory() -> None:
    text = kernel(
        """
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %out[%t] : memref<64xf32>
        kernel.barrier
        %w = loop.load %out[63 - %t] : memref<64xf32>
        loop.store %w, %out[63 - %t] : memref<64xf32>
        """
    )
    findings = run(text, X, X).findings
    assert {f.kind for f in findings} == {"data race"}
    assert "nothing orders the threads of a launch" in findings[0].message


def test_one_buffer_under_two_names_is_refused() -> None:
    text = """
        kernel.func @shift(%a: memref<64xf32>, %b: memref<64xf32>) blocks(%b0 = 1) threads(%t = 63) {
          %v = loop.load %a[%t + 1] : memref<64xf32>
          loop.store %v, %b[%t] : memref<64xf32>
        }
        func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
          kernel.launch @shift(%x, %x) : memref<64xf32>, memref<64xf32>
          func.return %x : memref<64xf32>
        }
    """
    with pytest.raises(Error, match="@shift: an argument that it writes is passed twice"):
        run(text, X)


def test_barrier_in_divergent_code() -> None:
    def body(conditions: str) -> str:
        return f"""
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %out[%t] : memref<64xf32>
            loop.guard where ({conditions}) {{
            kernel.barrier
            }}
        """

    finding = only(run(kernel(body("%t < 40")), X), "divergent barrier", 5)
    assert "only 40 of the 64 threads of CTA 0 reach it: thread 0 does, thread 40 does not" in finding.message
    assert run(kernel(body("%b < 1")), X).findings == []
    assert run(kernel(body("%b < 0")), X).findings == []


def test_barrier_in_a_loop_that_some_threads_leave_early() -> None:
    def body(bound: str) -> str:
        return f"""
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %out[%t] : memref<64xf32>
            loop.for %i = 0 to {bound} {{
            kernel.barrier
            }}
        """

    assert only(run(kernel(body("%t floordiv 32 + 1")), X), "divergent barrier", 5).count == 1
    assert run(kernel(body("%b + 2")), X).findings == []


@pytest.mark.parametrize(("condition", "lanes"), [("%t < 16", 16), ("31 < %t + %t", 16), ("%t mod 2 < 1", 16)])
def test_shuffle_in_divergent_code(condition: str, lanes: int) -> None:
    def body(condition: str) -> str:
        return f"""
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %out[%t] : memref<64xf32>
            loop.guard where ({condition}) {{
            %w = kernel.shuffle_xor %v, 1 : f32
            }}
        """

    finding = only(run(kernel(body(condition)), X), "divergent shuffle", 5)
    assert f"only {lanes} of the 32 lanes of warp 0 of CTA 0 take part" in finding.message
    assert run(kernel(body("%t < 32")), X).findings == []


def test_shuffle_without_a_whole_warp() -> None:
    def text(threads: int) -> str:
        return f"""
            kernel.func @k(%x: memref<64xf32>, %out: memref<{threads}xf32>) blocks(%b = 1) threads(%t = {threads}) {{
              %v = loop.load %x[%t] : memref<64xf32>
              %w = kernel.shuffle_xor %v, 16 : f32
              loop.store %w, %out[%t] : memref<{threads}xf32>
            }}
        """

    finding = only(run(text(40), X), "divergent shuffle", 4)
    assert "only 8 of the 32 lanes of warp 1" in finding.message
    simulation = run(text(64), X)
    assert simulation.findings == []
    np.testing.assert_array_equal(simulation.outputs[0], X.reshape(2, 2, 16)[:, ::-1].reshape(64))


@pytest.mark.parametrize(("subscript", "first"), [("%t + 60", "[64] in thread 4"), ("%t - 60", "[-60] in thread 0")])
def test_load_out_of_bounds(subscript: str, first: str) -> None:
    body = f"""
        %v = loop.load %x[{subscript}] : memref<64xf32>
        loop.store %v, %out[%t] : memref<64xf32>
    """
    simulation = run(kernel(body), X)
    finding = only(simulation, "out of bounds", 2)
    assert f"%x{first} of CTA 0, outside of memref<64xf32>" in finding.message
    assert finding.count == 60
    assert np.isnan(simulation.outputs[0]).sum() == 60


def test_guarded_accesses_are_in_bounds() -> None:
    body = """
        loop.guard where (%t < 64) {
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %out[%t] : memref<64xf32>
        }
    """
    assert run(kernel(body, threads=96), X).findings == []
    findings = run(kernel(body.replace("%t < 64", "%t < 65"), threads=96), X).findings
    assert [(f.kind, f.count) for f in findings] == [("out of bounds", 1)] * 2


def test_a_move_may_not_cross_the_end_of_a_row() -> None:
    def text(subscript: str) -> str:
        return f"""
            kernel.func @k(%x: memref<8x6xf32>, %out: memref<8xf32>) blocks(%b = 1) threads(%t = 8) {{
              %r = kernel.alloc : memref<2xf32, {REGISTER}>
              kernel.move 2 %x[%t, {subscript}] to %r[0] : memref<8x6xf32> to memref<2xf32, {REGISTER}>
              %v = loop.load %r[1] : memref<2xf32, {REGISTER}>
              loop.store %v, %out[%t] : memref<8xf32>
            }}
        """

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    assert [f.kind for f in run(text("6"), x).findings] == ["out of bounds"]
    simulation = run(text("4"), x)
    assert simulation.findings == []
    np.testing.assert_array_equal(simulation.outputs[0], x[:, 5])


@pytest.mark.parametrize("memory", [SHARED, REGISTER])
def test_read_of_memory_that_nobody_wrote(memory: str) -> None:
    def body(written: str) -> str:
        return f"""
            %s = kernel.alloc : memref<64xf32, {memory}>
            %v = loop.load %x[%t] : memref<64xf32>
            loop.guard where ({written}) {{
            loop.store %v, %s[0] : memref<64xf32, {memory}>
            }}
            kernel.barrier
            %w = loop.load %s[0] : memref<64xf32, {memory}>
            loop.store %w, %out[%t] : memref<64xf32>
        """.replace("%s[0]", "%s[%t]" if memory == SHARED else "%s[0]")

    simulation = run(kernel(body("%t < 62")), X)
    finding = only(simulation, "unwritten read", 8)
    assert f"%s[{62 if memory == SHARED else 0}] holds no value yet, and `loop.store %w" in finding.message
    assert "in thread 62 of CTA 0 depends on it" in finding.message
    assert finding.count == 2
    assert np.isnan(simulation.outputs[0][62:]).all()
    assert run(kernel(body("%t < 64")), X).findings == []


def test_wide_read_of_half_written_registers() -> None:
    body = f"""
        %r = kernel.alloc : memref<2xf32, {REGISTER}>
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %r[0] : memref<2xf32, {REGISTER}>
        kernel.move 2 %r[0] to %out[%t * 2] : memref<2xf32, {REGISTER}> to memref<64xf32>
    """
    finding = only(run(kernel(body, threads=32), X), "unwritten read", 5)
    assert "%r[1] holds no value yet" in finding.message


def test_read_of_a_global_buffer_before_it_is_written() -> None:
    text = """
        kernel.func @k(%a: memref<64xf32>, %b: memref<64xf32>) blocks(%b0 = 1) threads(%t = 64) {
          %v = loop.load %a[%t] : memref<64xf32>
          loop.store %v, %b[%t] : memref<64xf32>
        }
        func.func @main() -> memref<64xf32> {
          %tmp = memref.alloc() : memref<64xf32>
          %out = memref.alloc() : memref<64xf32>
          kernel.launch @k(%tmp, %out) : memref<64xf32>, memref<64xf32>
          func.return %out : memref<64xf32>
        }
    """
    assert [f.kind for f in run(text).findings] == ["unwritten read"]


CARRIED = f"""kernel.func @k(%a: memref<32xf32>, %n: memref<32xi32>, %out: memref<32xf32>)
blocks(%b = 1) threads(%t = 32) {{
%s = kernel.alloc : memref<32xf32, {SHARED}>
%r = kernel.alloc : memref<1xf32, {REGISTER}>
kernel.move 1 async %a[%t] to %s[%t] : memref<32xf32> to memref<32xf32, {SHARED}>
kernel.commit_group
kernel.wait_group 0
kernel.move 1 %s[%t] to %r[0] : memref<32xf32, {SHARED}> to memref<1xf32, {REGISTER}>
%i32 = loop.load %n[%t] : memref<32xi32>
%i = arith.index_cast %i32 : i32 to index
%v = loop.load %r[0] : memref<1xf32, {REGISTER}>
%neighbour = kernel.shuffle_xor %v, 1 : f32
%sum = arith.addf %v, %neighbour : f32
%none = arith.constant 0.0 : f32
%inside = loop.inside where (%t < 0)
%value = arith.select %inside, %sum, %none : f32
loop.store %value, %out[%t] : memref<32xf32>
}}
func.func @main() -> memref<32xf32> {{
%a = memref.alloc() : memref<32xf32>
%n = memref.alloc() : memref<32xi32>
%out = memref.alloc() : memref<32xf32>
kernel.launch @k(%a, %n, %out) : memref<32xf32>, memref<32xi32>, memref<32xf32>
func.return %out : memref<32xf32>
}}"""
"""Values that nobody wrote, on all ways that there are; a select chooses others."""


def test_values_that_nobody_wrote_may_be_carried() -> None:
    simulation = run(CARRIED)
    assert simulation.findings == []
    np.testing.assert_array_equal(simulation.outputs[0], np.zeros(32))


@pytest.mark.parametrize(
    ("old", "new", "line", "element"),
    [
        ("store %value", "store %sum", 5, "%a[1]"),
        ("(%t < 0)", "(%t < 1)", 5, "%a[1]"),
        ("(%t < 0)", "(%i < 0)", 9, "%n[0]"),
        ("%out[%t]", "%out[%i mod 32]", 9, "%n[0]"),
        ("%inside =", "loop.guard where (%i < 5) { }\n%inside =", 9, "%n[0]"),
        ("%inside =", "loop.for %j = 0 to min(%i, 3) { }\n%inside =", 9, "%n[0]"),
    ],
)
def test_values_that_nobody_wrote_must_not_count(old: str, new: str, line: int, element: str) -> None:
    finding = next(found for found in run(CARRIED.replace(old, new)).findings if found.kind == "unwritten read")
    assert finding.location == f"bug.mlir:{line}:1"
    assert f"{element} holds no value yet, and" in finding.message


def test_output_that_is_not_written_completely() -> None:
    body = """
        loop.guard where (%t < 60) {
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %out[%t] : memref<64xf32>
        }
    """
    simulation = run(kernel(body), X)
    finding = only(simulation, "unwritten output", 1)
    assert "4 of the 64 elements of the output %out are never written, the first is [60]" in finding.message
    assert np.isnan(simulation.outputs[0][60:]).all()


def test_misaligned_wide_moves() -> None:
    def body(shape: str, subscripts: str, width: int = 4) -> str:
        return f"""
            %s = kernel.alloc : memref<{shape}, {SHARED}>
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %s[%t floordiv 8, %t mod 8] : memref<{shape}, {SHARED}>
            loop.store %v, %out[%t] : memref<64xf32>
            kernel.barrier
            %r = kernel.alloc : memref<4xf32, {REGISTER}>
            kernel.move {width} %s[{subscripts}] to %r[0] : memref<{shape}, {SHARED}> to memref<4xf32, {REGISTER}>
        """

    assert run(kernel(body("8x8xf32", "%t mod 8, 4")), X).findings == []
    finding = only(run(kernel(body("8x8xf32", "%t mod 8, 2")), X), "misaligned access", 8)
    assert (
        "4 elements from %s[0, 2] are not 16 aligned bytes (offset 8, stride 1) in thread 0 of CTA 0" in finding.message
    )
    finding = only(run(kernel(body("8x8xf32, strided<[9, 1]>", "%t mod 8, 4")), X), "misaligned access", 8)
    assert "(offset 52, stride 1) in thread 1" in finding.message
    assert run(kernel(body("8x8xf32, strided<[12, 1]>", "%t mod 8, 4")), X).findings == []
    finding = only(run(kernel(body("8x8xf32, strided<[1, 8]>", "%t mod 8, 4")), X), "misaligned access", 8)
    assert "stride 8" in finding.message
    assert run(kernel(body("8x8xf32", "%t mod 8, 2", width=2)), X).findings == []
    finding = only(run(kernel(body("8x8xf32", "%t mod 8, 3", width=2)), X), "misaligned access", 8)
    assert "2 elements from %s[0, 3] are not 8 aligned bytes" in finding.message


@pytest.mark.parametrize(
    ("loop", "subscript", "blamed"),
    [
        ("loop.for %i = 0 to 2", "%i", "%i"),
        ("loop.for %i = 0 to 2 unroll", "(%t + %i) mod 2", "%t"),
        ("loop.for %i = 0 to min(%b + 2, 2) unroll", "%i", "%i"),
        ("loop.for %i = 0 to 2", "%j", "%j"),
    ],
)
def test_dynamic_register_index(loop: str, subscript: str, blamed: str) -> None:
    def body(loop: str, subscript: str) -> str:
        return f"""
            %r = kernel.alloc : memref<2xf32, {REGISTER}>
            %v = loop.load %x[%t] : memref<64xf32>
            loop.store %v, %out[%t] : memref<64xf32>
            {loop} {{
            %j = loop.index [%i mod 2]
            loop.store %v, %r[{subscript}] : memref<2xf32, {REGISTER}>
            }}
        """

    finding = only(run(kernel(body(loop, subscript)), X), "dynamic register index", 7)
    assert f"register array %r depends on {blamed}," in finding.message
    assert run(kernel(body("loop.for %i = 0 to 2 unroll", "%j")), X).findings == []


def test_the_register_is_still_the_lane_s_own() -> None:
    body = f"""
        %r = kernel.alloc : memref<2xf32, {REGISTER}>
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %r[%t mod 2] : memref<2xf32, {REGISTER}>
        %w = loop.load %r[%t mod 2] : memref<2xf32, {REGISTER}>
        loop.store %w, %out[%t] : memref<64xf32>
    """
    simulation = run(kernel(body), X)
    np.testing.assert_array_equal(simulation.outputs[0], X)
    assert [f.kind for f in simulation.findings] == ["dynamic register index"] * 2


def test_loops_run_at_once_report_what_they_would_in_order() -> None:
    """The nest over %i and %j runs as one step; the element and thread of the finding are those of its iterations."""
    body = f"""
        %s = kernel.alloc : memref<4x64xf32, {SHARED}>
        %v = loop.load %x[%t] : memref<64xf32>
        loop.store %v, %out[%t] : memref<64xf32>
        loop.for %i = 0 to 2 unroll {{
        loop.for %j = 0 to 2 unroll {{
        loop.store %v, %s[%i * 2 + %j, %t + %i * 60] : memref<4x64xf32, {SHARED}>
        }}
        }}
    """
    finding = only(run(kernel(body), X), "out of bounds", 7)
    assert "%s[2, 64] in thread 4 of CTA 0" in finding.message
    assert finding.count == 2 * 60
