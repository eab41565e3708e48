"""Random kernels under random schedules: every rule keeps the meaning, and the kernel is right on the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulator import simulate
from deplodock.passes.kernel.fuse_multiply_add import FuseMultiplyAddPass
from deplodock.passes.kernel.materialize import MaterializePass
from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.choose_schedule import ChooseSchedulePass
from deplodock.passes.tile.cooperative_reduce import CooperativeReducePass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass

EXTENTS = st.sampled_from([1, 2, 3, 4, 7, 8, 13, 31, 32, 33, 37, 48, 64, 65, 70])
CASES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def context() -> Context:
    result = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        result.register_dialect(name, factory)
    return result


CONTEXT = context()


@dataclass(frozen=True)
class Program:
    """A kernel at loop level and the shapes of its inputs."""

    text: str
    shapes: tuple[tuple[int, ...], ...]


def memref(*shape: int) -> str:
    return "memref<" + "".join(f"{n}x" for n in shape) + "f32>"


def row_reduce(rows: int, columns: int) -> Program:
    """out[i, j] = x[i, j] * sum(x[i]^2) + max(x[i] + b)."""
    x, b = memref(rows, columns), memref(columns)
    text = f"""
    func.func @k(%x: {x}, %b: {b}, %out: {x}) {{
      loop.for %i = 0 to {rows} {{
        %sum = loop.reduce {{arith.addf}} %k = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %k] : {x}
          %sq = arith.mulf %v, %v : f32
          loop.yield %sq : f32
        }}
        %max = loop.reduce {{arith.maximumf}} %k = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %k] : {x}
          %c = loop.load %b[%k] : {b}
          %s = arith.addf %v, %c : f32
          loop.yield %s : f32
        }}
        loop.for %j = 0 to {columns} {{
          %v = loop.load %x[%i, %j] : {x}
          %p = arith.mulf %v, %sum : f32
          %y = arith.addf %p, %max : f32
          loop.store %y, %out[%i, %j] : {x}
        }}
      }}
      func.return
    }}"""
    return Program(text, ((rows, columns), (columns,)))


def row_statistics(rows: int, columns: int) -> Program:
    """The sum and the maximum of each row, in one loop with a combiner region."""
    x, out = memref(rows, columns), memref(rows)
    text = f"""
    func.func @k(%x: {x}, %sums: {out}, %maxima: {out}) {{
      loop.for %i = 0 to {rows} {{
        %s, %m = loop.reduce %k = 0 to {columns} : f32, f32 {{
          %v = loop.load %x[%i, %k] : {x}
          loop.yield %v, %v : f32, f32
        }} combine (%s0: f32, %m0: f32, %s1: f32, %m1: f32) identity [0.0 : f32, 0xff800000 : f32] {{
          %t = arith.addf %s0, %s1 : f32
          %n = arith.maximumf %m1, %m0 : f32
          loop.yield %t, %n : f32, f32
        }}
        loop.store %s, %sums[%i] : {out}
        loop.store %m, %maxima[%i] : {out}
      }}
      func.return
    }}"""
    return Program(text, ((rows, columns),))


def matmul(m: int, n: int, k: int, transposed: bool) -> Program:
    """out = (x + b) @ w, or with w transposed, plus a residual."""
    x, b, out = memref(m, k), memref(k), memref(m, n)
    w, read = (memref(n, k), "%w[%n, %k]") if transposed else (memref(k, n), "%w[%k, %n]")
    text = f"""
    func.func @k(%x: {x}, %b: {b}, %w: {w}, %r: {out}, %out: {out}) {{
      loop.for %m = 0 to {m} {{
        loop.for %n = 0 to {n} {{
          %acc = loop.reduce {{arith.addf}} %k = 0 to {k} : f32 {{
            %v = loop.load %x[%m, %k] : {x}
            %c = loop.load %b[%k] : {b}
            %s = arith.addf %v, %c : f32
            %u = loop.load {read} : {w}
            %p = arith.mulf %s, %u : f32
            loop.yield %p : f32
          }}
          %e = loop.load %r[%m, %n] : {out}
          %y = arith.addf %acc, %e : f32
          loop.store %y, %out[%m, %n] : {out}
        }}
      }}
      func.return
    }}"""
    return Program(text, ((m, k), (k,), (n, k) if transposed else (k, n), (m, n)))


def transpose_add(rows: int, columns: int) -> Program:
    """out[j, i] = x[i, j] + b[i]."""
    x, b, out = memref(rows, columns), memref(rows), memref(columns, rows)
    text = f"""
    func.func @k(%x: {x}, %b: {b}, %out: {out}) {{
      loop.for %j = 0 to {columns} {{
        loop.for %i = 0 to {rows} {{
          %v = loop.load %x[%i, %j] : {x}
          %c = loop.load %b[%i] : {b}
          %y = arith.addf %v, %c : f32
          loop.store %y, %out[%j, %i] : {out}
        }}
      }}
      func.return
    }}"""
    return Program(text, ((rows, columns), (rows,)))


def column_sum(rows: int, columns: int) -> Program:
    """out[j] = sum over i of x[i, j]."""
    x, out = memref(rows, columns), memref(columns)
    text = f"""
    func.func @k(%x: {x}, %out: {out}) {{
      loop.for %j = 0 to {columns} {{
        %acc = loop.reduce {{arith.addf}} %i = 0 to {rows} : f32 {{
          %v = loop.load %x[%i, %j] : {x}
          loop.yield %v : f32
        }}
        loop.store %acc, %out[%j] : {out}
      }}
      func.return
    }}"""
    return Program(text, ((rows, columns),))


def whole_sum(rows: int, columns: int) -> Program:
    """out[] = sum over i and j of x[i, j]."""
    x = memref(rows, columns)
    text = f"""
    func.func @k(%x: {x}, %out: memref<f32>) {{
      %acc = loop.reduce {{arith.addf}} %i = 0 to {rows} : f32 {{
        %row = loop.reduce {{arith.addf}} %j = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %j] : {x}
          loop.yield %v : f32
        }}
        loop.yield %row : f32
      }}
      loop.store %acc, %out[] : memref<f32>
      func.return
    }}"""
    return Program(text, ((rows, columns),))


PROGRAMS = st.one_of(
    st.builds(row_reduce, EXTENTS, EXTENTS),
    st.builds(row_statistics, EXTENTS, EXTENTS),
    st.builds(matmul, EXTENTS, EXTENTS, EXTENTS, st.booleans()),
    st.builds(transpose_add, EXTENTS, EXTENTS),
    st.builds(column_sum, EXTENTS, EXTENTS),
    st.builds(whole_sum, EXTENTS, EXTENTS),
)

COOPERATIVE = st.one_of(
    st.none(),
    st.builds(
        CooperativeReducePass,
        st.sampled_from([1, 2, 3, 8, 16, 24, 32, 64, 96, 256]),
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from(["loops", "axes"]),
    ),
)
TILES = st.sampled_from([1, 2, 3, 5, 8, 16, 32])
THREADS = st.sampled_from([1, 3, 32, 64, 100, 256, 512])
MEMORY = st.sampled_from(["auto", "shared", "register"])


def parse(text: str) -> ModuleOp:
    return Parser(CONTEXT, text).parse_module()


def draw(program: Program, seed: int) -> list[np.ndarray]:
    """Small integers, on which float sums and products are exact in any order."""
    generator = np.random.default_rng(seed)
    return [generator.integers(-2, 3, shape).astype(np.float32) for shape in program.shapes]


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


@CASES
@given(program=PROGRAMS, cooperative=COOPERATIVE, m=TILES, n=TILES, threads=THREADS, memory=MEMORY, clean=st.booleans())
def test_random_schedule(program, cooperative, m, n, threads, memory, clean) -> None:
    """Any options that the rules accept give a right kernel; what they refuse, they refuse before changing anything."""
    module, inputs = parse(program.text), draw(program, 0)
    expected = evaluate(module, inputs)
    tile = BlockifyLaunchPass(m=m, n=n) if program.text.count("%w[") else BlockifyLaunchPass(threads=threads)
    for rule in (TileifyPass(), cooperative, tile, StageInputsPass(memory=memory)):
        if rule is None:
            continue
        before = str(module)
        if not applies(rule, module):
            assert str(module) == before
            continue
        check(module, inputs, expected, str(rule))
        if clean:
            cleanup(module)
            check(module, inputs, expected, f"{rule} and its cleanup")
        scheduled = str(module)
        applies(rule, module)
        assert str(module) == scheduled, f"{rule} twice differs from once"
    check_kernel(module, inputs, expected)


@CASES
@given(program=PROGRAMS)
def test_chosen_schedule(program) -> None:
    """The schedule that the heuristics choose gives a right kernel, within the limits of a CTA."""
    module, inputs = parse(program.text), draw(program, 1)
    expected = evaluate(module, inputs)
    for rule in (ChooseSchedulePass(), TileifyPass(), CooperativeReducePass(), BlockifyLaunchPass(), StageInputsPass()):
        rule.apply(CONTEXT, module)
        check(module, inputs, expected, str(rule))
    check_kernel(module, inputs, expected)
