"""Random kernels under random schedules: every rule keeps the meaning, and the kernel is right on the simulator."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

from deplodock.dialects import kernel
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.fuse_multiply_add import FuseMultiplyAddPass
from deplodock.passes.kernel.materialize import MaterializePass
from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.choose_schedule import ChooseSchedulePass
from deplodock.passes.tile.cooperative_reduce import CooperativeReducePass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass

EXTENTS = st.sampled_from([0, 1, 2, 3, 4, 7, 8, 13, 31, 32, 33, 37, 48, 64, 65, 70])
SMALL = st.sampled_from([1, 2, 3, 5, 8, 16])
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
ELEMENTS = st.sampled_from(sorted(DTYPES))
FACTOR = int(os.environ.get("DEPLODOCK_FUZZ_FACTOR", "1"))
"""How many times the usual number of examples to try."""


def cases(examples: int) -> settings:
    """Settings without a time limit; a failing example is printed as drawn, for shrinking it takes minutes."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    checks = list(HealthCheck)
    return settings(
        max_examples=examples * FACTOR,
        derandomize=FACTOR == 1,
        deadline=None,
        suppress_health_check=checks,
        phases=phases,
    )


def context() -> Context:
    return new_context()


CONTEXT = context()


@dataclass(frozen=True)
class Input:
    """An input buffer of integers from `low` below `high`, on which float sums and products are exact in any order."""

    name: str
    shape: tuple[int, ...]
    element: str = "f32"
    low: int = -2
    high: int = 3

    def __str__(self) -> str:
        return f"%{self.name}: {memref(*self.shape, element=self.element)}"

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        return generator.integers(self.low, max(self.high, self.low + 1), self.shape).astype(DTYPES[self.element])


@dataclass(frozen=True)
class Program:
    """A kernel at loop level and its inputs."""

    text: str
    inputs: tuple[Input, ...]

    def draw(self, seed: int) -> list[np.ndarray]:
        generator = np.random.default_rng(seed)
        return [given.draw(generator) for given in self.inputs]


def memref(*shape: int, element: str = "f32") -> str:
    return "memref<" + "".join(f"{n}x" for n in shape) + f"{element}>"


def program(inputs: list[Input], outputs: str, body: str) -> Program:
    """A kernel function; `$name` in the body stands for the type of the buffer `%name`."""
    arguments = ", ".join([*map(str, inputs), outputs])
    for name, type in re.findall(r"%(\w+): (memref<\S+>)", arguments):
        body = body.replace(f"${name}", type)
    return Program(f"func.func @k({arguments}) {{\n{body}\n  func.return\n}}", tuple(inputs))


def arithmetic(element: str) -> dict[str, str]:
    """The operations of an element type and the identity of its maximum."""
    if element == "i32":
        return {"add": "arith.addi", "mul": "arith.muli", "max": "arith.maxsi", "least": "-2147483648"}
    least = "0xff800000" if element == "f32" else "0xfff0000000000000"
    return {"add": "arith.addf", "mul": "arith.mulf", "max": "arith.maximumf", "least": least}


def row_reduce(rows: int, columns: int, e: str) -> Program:
    """out[i, j] = x[i, j] * sum(x[i]^2) + max(x[i] + b)."""
    op = arithmetic(e)
    inputs = [Input("x", (rows, columns), e), Input("b", (columns,), e)]
    text = f"""
      loop.for %i = 0 to {rows} {{
        %sum = loop.reduce {{{op["add"]}}} %k = 0 to {columns} : {e} {{
          %v = loop.load %x[%i, %k] : $x
          %sq = {op["mul"]} %v, %v : {e}
          loop.yield %sq : {e}
        }}
        %max = loop.reduce {{{op["max"]}}} %k = 0 to {columns} : {e} {{
          %v = loop.load %x[%i, %k] : $x
          %c = loop.load %b[%k] : $b
          %s = {op["add"]} %v, %c : {e}
          loop.yield %s : {e}
        }}
        loop.for %j = 0 to {columns} {{
          %v = loop.load %x[%i, %j] : $x
          %p = {op["mul"]} %v, %sum : {e}
          %y = {op["add"]} %p, %max : {e}
          loop.store %y, %out[%i, %j] : $out
        }}
      }}"""
    return program(inputs, f"%out: {memref(rows, columns, element=e)}", text)


def deep_rows(outer: int, rows: int, columns: int) -> Program:
    """out[j, i, k] = x[i, j, k] - b[i, k] * sum(x[i, j]), and mean[i, j], over two free axes."""
    inputs = [Input("x", (outer, rows, columns)), Input("b", (outer, columns))]
    text = f"""
      loop.for %i = 0 to {outer} {{
        loop.for %j = 0 to {rows} {{
          %sum = loop.reduce {{arith.addf}} %k = 0 to {columns} : f32 {{
            %v = loop.load %x[%i, %j, %k] : $x
            loop.yield %v : f32
          }}
          loop.store %sum, %mean[%i, %j] : $mean
          loop.for %k = 0 to {columns} {{
            %v = loop.load %x[%i, %j, %k] : $x
            %c = loop.load %b[%i, %k] : $b
            %p = arith.mulf %c, %sum : f32
            %y = arith.subf %v, %p : f32
            loop.store %y, %out[%j, %i, %k] : $out
          }}
        }}
      }}"""
    return program(inputs, f"%out: {memref(rows, outer, columns)}, %mean: {memref(outer, rows)}", text)


def row_statistics(rows: int, columns: int) -> Program:
    """The sum and the maximum of each row, in one loop with a combiner region."""
    out = memref(rows)
    text = f"""
      loop.for %i = 0 to {rows} {{
        %s, %m = loop.reduce %k = 0 to {columns} : f32, f32 {{
          %v = loop.load %x[%i, %k] : $x
          loop.yield %v, %v : f32, f32
        }} combine (%s0: f32, %m0: f32, %s1: f32, %m1: f32) identity [0.0 : f32, 0xff800000 : f32] {{
          %t = arith.addf %s0, %s1 : f32
          %n = arith.maximumf %m1, %m0 : f32
          loop.yield %t, %n : f32, f32
        }}
        loop.store %s, %sums[%i] : $sums
        loop.store %m, %maxima[%i] : $maxima
      }}"""
    return program([Input("x", (rows, columns))], f"%sums: {out}, %maxima: {out}", text)


def matmul(m: int, n: int, k: int, transposed: bool, e: str) -> Program:
    """out = (x + b) @ w, or with w transposed, plus a residual."""
    op, read = arithmetic(e), "%w[%n, %k]" if transposed else "%w[%k, %n]"
    w = Input("w", (n, k) if transposed else (k, n), e)
    text = f"""
      loop.for %m = 0 to {m} {{
        loop.for %n = 0 to {n} {{
          %acc = loop.reduce {{{op["add"]}}} %k = 0 to {k} : {e} {{
            %v = loop.load %x[%m, %k] : $x
            %c = loop.load %b[%k] : $b
            %s = {op["add"]} %v, %c : {e}
            %u = loop.load {read} : $w
            %p = {op["mul"]} %s, %u : {e}
            loop.yield %p : {e}
          }}
          %e = loop.load %r[%m, %n] : $r
          %y = {op["add"]} %acc, %e : {e}
          loop.store %y, %out[%m, %n] : $out
        }}
      }}"""
    return program(
        [Input("x", (m, k), e), Input("b", (k,), e), w, Input("r", (m, n), e)], f"%out: {memref(m, n, element=e)}", text
    )


def batched(b: int, m: int, n: int, k: int) -> Program:
    """out[b] = x[b] @ w[b]."""
    text = f"""
      loop.for %b = 0 to {b} {{
        loop.for %m = 0 to {m} {{
          loop.for %n = 0 to {n} {{
            %acc = loop.reduce {{arith.addf}} %k = 0 to {k} : f32 {{
              %v = loop.load %x[%b, %m, %k] : $x
              %u = loop.load %w[%b, %k, %n] : $w
              %p = arith.mulf %v, %u : f32
              loop.yield %p : f32
            }}
            loop.store %acc, %out[%b, %m, %n] : $out
          }}
        }}
      }}"""
    return program([Input("x", (b, m, k)), Input("w", (b, k, n))], f"%out: {memref(b, m, n)}", text)


def transpose_add(rows: int, columns: int, e: str) -> Program:
    """out[j, i] = x[i, j] + b[i]."""
    text = f"""
      loop.for %j = 0 to {columns} {{
        loop.for %i = 0 to {rows} {{
          %v = loop.load %x[%i, %j] : $x
          %c = loop.load %b[%i] : $b
          %y = {arithmetic(e)["add"]} %v, %c : {e}
          loop.store %y, %out[%j, %i] : $out
        }}
      }}"""
    return program(
        [Input("x", (rows, columns), e), Input("b", (rows,), e)], f"%out: {memref(columns, rows, element=e)}", text
    )


def column_sum(rows: int, columns: int) -> Program:
    """out[j] = sum over i of x[i, j]."""
    text = f"""
      loop.for %j = 0 to {columns} {{
        %acc = loop.reduce {{arith.addf}} %i = 0 to {rows} : f32 {{
          %v = loop.load %x[%i, %j] : $x
          loop.yield %v : f32
        }}
        loop.store %acc, %out[%j] : $out
      }}"""
    return program([Input("x", (rows, columns))], f"%out: {memref(columns)}", text)


def whole_sum(rows: int, columns: int) -> Program:
    """out[] = sum over i and j of x[i, j]."""
    text = f"""
      %acc = loop.reduce {{arith.addf}} %i = 0 to {rows} : f32 {{
        %row = loop.reduce {{arith.addf}} %j = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %j] : $x
          loop.yield %v : f32
        }}
        loop.yield %row : f32
      }}
      loop.store %acc, %out[] : $out"""
    return program([Input("x", (rows, columns))], f"%out: {memref()}", text)


def gather(rows: int, columns: int, table: int) -> Program:
    """out[i, j] = x[idx[i, j] + 1, j] + sum over k of x[idx[i, k], k], with subscripts that are data."""
    text = f"""
      loop.for %i = 0 to {rows} {{
        %sum = loop.reduce {{arith.addf}} %k = 0 to {columns} : f32 {{
          %at = loop.load %idx[%i, %k] : $idx
          %row = arith.index_cast %at : i32 to index
          %v = loop.load %x[%row, %k] : $x
          loop.yield %v : f32
        }}
        loop.for %j = 0 to {columns} {{
          %at = loop.load %idx[%i, %j] : $idx
          %row = arith.index_cast %at : i32 to index
          %next = loop.index [%row + 1]
          %v = loop.load %x[%next, %j] : $x
          %y = arith.addf %v, %sum : f32
          loop.store %y, %out[%i, %j] : $out
        }}
      }}"""
    return program(
        [Input("x", (table + 1, columns)), Input("idx", (rows, columns), "i32", 0, table)],
        f"%out: {memref(rows, columns)}",
        text,
    )


def causal(rows: int, columns: int) -> Program:
    """out[i, j] = sum over k below min(i + 1, rows) of x[i, k] * w[k, j]."""
    text = f"""
      loop.for %i = 0 to {rows} {{
        loop.for %j = 0 to {columns} {{
          %acc = loop.reduce {{arith.addf}} %k = 0 to min(%i + 1, {rows}) : f32 {{
            %v = loop.load %x[%i, %k] : $x
            %u = loop.load %w[%k, %j] : $w
            %p = arith.mulf %v, %u : f32
            loop.yield %p : f32
          }}
          loop.store %acc, %out[%i, %j] : $out
        }}
      }}"""
    return program([Input("x", (rows, rows)), Input("w", (rows, columns))], f"%out: {memref(rows, columns)}", text)


def prefix(rows: int, columns: int) -> Program:
    """out[i, j] = sum over k up to j of x[i, k], plus max(x[i]): a loop inside a row whose bound depends on the row."""
    text = f"""
      loop.for %i = 0 to {rows} {{
        %max = loop.reduce {{arith.maximumf}} %k = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %k] : $x
          loop.yield %v : f32
        }}
        loop.for %j = 0 to {columns} {{
          %acc = loop.reduce {{arith.addf}} %k = 0 to %j + 1 : f32 {{
            %v = loop.load %x[%i, %k] : $x
            loop.yield %v : f32
          }}
          %y = arith.addf %acc, %max : f32
          loop.store %y, %out[%i, %j] : $out
        }}
      }}"""
    return program([Input("x", (rows, columns))], f"%out: {memref(rows, columns)}", text)


def concatenate(rows: int, left: int, right: int) -> Program:
    """out[i] = x[i] followed by w[i], scaled by the sum of x[i]."""
    text = f"""
      loop.for %i = 0 to {rows} {{
        %sum = loop.reduce {{arith.addf}} %k = 0 to {left} : f32 {{
          %v = loop.load %x[%i, %k] : $x
          loop.yield %v : f32
        }}
        loop.for %j = 0 to {left} {{
          %v = loop.load %x[%i, %j] : $x
          %y = arith.mulf %v, %sum : f32
          loop.store %y, %out[%i, %j] : $out
        }}
        loop.for %j = 0 to {right} {{
          %v = loop.load %w[%i, %j] : $w
          %y = arith.mulf %v, %sum : f32
          loop.store %y, %out[%i, %j + {left}] : $out
        }}
      }}"""
    return program([Input("x", (rows, left)), Input("w", (rows, right))], f"%out: {memref(rows, left + right)}", text)


PROGRAMS = st.one_of(
    st.builds(row_reduce, EXTENTS, EXTENTS, ELEMENTS),
    st.builds(deep_rows, SMALL, SMALL, EXTENTS),
    st.builds(row_statistics, EXTENTS, EXTENTS),
    st.builds(matmul, EXTENTS, EXTENTS, EXTENTS, st.booleans(), ELEMENTS),
    st.builds(batched, SMALL, SMALL, SMALL, SMALL),
    st.builds(transpose_add, EXTENTS, EXTENTS, ELEMENTS),
    st.builds(column_sum, EXTENTS, EXTENTS),
    st.builds(whole_sum, EXTENTS, EXTENTS),
    st.builds(gather, SMALL, EXTENTS, SMALL),
    st.builds(causal, EXTENTS, SMALL),
    st.builds(prefix, SMALL, EXTENTS),
    st.builds(concatenate, SMALL, EXTENTS, EXTENTS),
)

RULES = (TileifyPass(), CooperativeReducePass(), BlockifyLaunchPass(), StageInputsPass())

COOPERATIVE = st.one_of(
    st.none(),
    st.builds(
        CooperativeReducePass,
        st.sampled_from([1, 2, 3, 8, 16, 24, 32, 64, 96, 256]),
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from(["loops", "axes"]),
        st.sampled_from([None, None, 2, 3, 16]),
        st.sampled_from([None, "row", "free"]),
    ),
)
TILES = st.sampled_from([1, 2, 3, 5, 8, 16, 32])
THREADS = st.sampled_from([1, 3, 32, 64, 100, 256, 512])
MEMORY = st.sampled_from(["auto", "shared", "register"])


def parse(text: str) -> ModuleOp:
    return Parser(CONTEXT, text).parse_module()


def check(module: ModuleOp, inputs: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    module.verify()
    for got, wanted in zip(evaluate(module, inputs), expected, strict=True):
        np.testing.assert_array_equal(got, wanted, err_msg=f"after {what}:\n{module}")


def check_kernel(module: ModuleOp, inputs: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Lower a scheduled module to kernels, and run them on the simulator with all its checks."""
    for rule in (MaterializePass(), PlaceBarriersPass(), FuseMultiplyAddPass(), VerifyBarriersPass()):
        rule.apply(CONTEXT, module)
        module.verify()
    reparsed = parse(str(module))
    assert str(reparsed) == str(module)
    result = simulate(module, inputs)
    assert not result.findings, f"{result.findings[0]}\n{module}"
    for got, wanted in zip(result.outputs, expected, strict=True):
        np.testing.assert_array_equal(got, wanted, err_msg=str(module))


def applies(rule: ModulePass, module: ModuleOp) -> bool:
    """Whether a rule accepts the module with its options."""
    try:
        rule.apply(CONTEXT, module)
    except PassFailedException:
        return False
    return True


def cleanup(module: ModuleOp) -> None:
    CanonicalizePass().apply(CONTEXT, module)
    CommonSubexpressionElimination().apply(CONTEXT, module)


@cases(60)
@given(program=PROGRAMS, cooperative=COOPERATIVE, m=TILES, n=TILES, threads=THREADS, memory=MEMORY, clean=st.booleans())
def test_random_schedule(program, cooperative, m, n, threads, memory, clean) -> None:
    """Any options that the rules accept give a right kernel; what they refuse, they refuse before changing anything."""
    module, inputs = parse(program.text), program.draw(0)
    expected = evaluate(module, inputs)
    tiles = (BlockifyLaunchPass(m=m, n=n), BlockifyLaunchPass(threads=threads))
    for rule in (TileifyPass(), cooperative, *tiles, StageInputsPass(memory=memory)):
        if rule is None:
            continue
        before = str(module)
        if not applies(rule, module):
            assert str(module) == before
            continue
        check(module, inputs, expected, str(rule))
        scheduled = str(module)
        if clean:
            cleanup(module)
            if str(module) != scheduled:
                check(module, inputs, expected, f"{rule} and its cleanup")
            scheduled = str(module)
        applies(rule, module)
        assert str(module) == scheduled, f"{rule} twice differs from once"
    check_kernel(module, inputs, expected)


@cases(40)
@given(program=PROGRAMS)
def test_chosen_schedule(program) -> None:
    """The schedule that the heuristics choose gives a right kernel, within the limits of a CTA."""
    module, inputs = parse(program.text), program.draw(1)
    expected = evaluate(module, inputs)
    text = str(module)
    for rule in (ChooseSchedulePass(), *RULES):
        rule.apply(CONTEXT, module)
        before, text = text, str(module)
        if text != before:
            check(module, inputs, expected, str(rule))
    check_kernel(module, inputs, expected)


BARRIERS = {
    "matmul": (matmul(16, 16, 64, False, "f32"), ()),
    "transposed matmul": (matmul(20, 24, 33, True, "f32"), (BlockifyLaunchPass(m=8, n=16),)),
    "batched": (batched(3, 8, 16, 16), ()),
    "shared row": (
        row_reduce(3, 1024, "f32"),
        (CooperativeReducePass(threads=256, vector=4), StageInputsPass(memory="shared")),
    ),
    "softmax-like rows": (row_reduce(3, 600, "f32"), (CooperativeReducePass(threads=256),)),
    "no loops": (row_reduce(3, 600, "f32"), (CooperativeReducePass(threads=256, vector=4, keep="axes"),)),
    "two warps": (deep_rows(2, 3, 70), (CooperativeReducePass(threads=64),)),
    "odd groups": (row_statistics(8, 33), (CooperativeReducePass(threads=3),)),
    "region combiner": (row_statistics(2, 70), (CooperativeReducePass(threads=64, vector=2, keep="axes"),)),
    "columns": (transpose_add(37, 64, "f64"), (BlockifyLaunchPass(threads=256), StageInputsPass(memory="shared"))),
    "concatenation": (concatenate(3, 70, 33), (CooperativeReducePass(threads=64), StageInputsPass(memory="shared"))),
    "gather": (gather(3, 70, 5), (CooperativeReducePass(threads=96),)),
}


@pytest.mark.parametrize("name", BARRIERS)
def test_every_barrier_is_needed(name) -> None:
    """Without any one of the barriers, the simulator sees a race and verify-barriers refuses the kernel."""
    program, given = BARRIERS[name]
    module, inputs = parse(program.text), program.draw(2)
    chosen = [rule for rule in RULES if not any(isinstance(option, type(rule)) for option in given)]
    for rule in sorted([*chosen, *given], key=lambda rule: [type(r) for r in RULES].index(type(rule))):
        applies(rule, module)
    for rule in (MaterializePass(), PlaceBarriersPass(), VerifyBarriersPass()):
        rule.apply(CONTEXT, module)
    barriers = [op for op in module.walk() if isinstance(op, kernel.BarrierOp)]
    assert barriers
    assert not simulate(module, inputs).findings
    for number in range(len(barriers)):
        edited = module.clone()
        Rewriter.erase_op([op for op in edited.walk() if isinstance(op, kernel.BarrierOp)][number])
        assert any("race" in str(finding) for finding in simulate(edited, inputs).findings), f"{number}\n{module}"
        with pytest.raises(DiagnosticException, match=r"no kernel\.barrier between"):
            VerifyBarriersPass().apply(CONTEXT, edited)
