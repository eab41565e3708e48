"""Random kernels of eight kinds under random schedules in random legal rule orders.

Every rule keeps the meaning, applied twice equals once, and the kernel is right on the simulator with all its checks.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.utils.exceptions import PassFailedException

from deplodock.fuzz.schedules import draw_rules, legal_order
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.passes.clean_up import Changes, clean_up
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.fuse_multiply_add import FuseMultiplyAddPass
from deplodock.passes.kernel.materialize import MaterializePass
from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.passes.kernel.verify_resources import VerifyResourcesPass
from deplodock.passes.options import Kind
from deplodock.passes.remarks import ExceedsTarget
from deplodock.passes.tile.rule import Rule

DRAWS = 72 * int(os.environ.get("DEPLODOCK_FUZZ_FACTOR", "1"))
FIRST = int(os.environ.get("DEPLODOCK_FUZZ_SEED", "0"))
"""The number of the first draw; each draw is seeded with its own."""

PARTS = 8
"""The tests that share the draws, so that several processes work on them."""

CONTEXT = new_context()


@dataclass(frozen=True)
class Program:
    """A kernel at loop level, its inputs as (type of elements, bound, shape), and whether it is a contraction."""

    text: str
    inputs: tuple[tuple[str, int, tuple[int, ...]], ...]
    is_contraction: bool = False

    def draw(self, seed: int) -> list[np.ndarray]:
        """Small integers, on which float sums are exact; those of i32 are subscripts from 0 below the bound."""
        generator = np.random.default_rng(seed)
        low = {"f32": -2, "i32": 0}
        types = {"f32": np.float32, "i32": np.int32}
        return [generator.integers(low[type], bound, shape).astype(types[type]) for type, bound, shape in self.inputs]


def memref(shape: tuple[int, ...]) -> str:
    return "memref<" + "".join(f"{n}x" for n in shape) + "f32>"


def kernel(body: str, out: tuple[int, ...], *inputs: tuple[str, tuple[int, ...]], rows: int = 0) -> Program:
    """A kernel with f32 inputs, but for `%idx` of subscripts below `rows`; `$x` in the body is the type of `%x`."""
    types = {name: "i32" if name == "idx" else "f32" for name, _ in inputs}
    memrefs = {name: memref(shape).replace("f32", types[name]) for name, shape in inputs} | {"out": memref(out)}
    for name, type in memrefs.items():
        body = body.replace(f"${name}", type)
    parameters = ", ".join(f"%{name}: {type}" for name, type in memrefs.items())
    drawn = tuple((types[name], rows if name == "idx" else 3, shape) for name, shape in inputs)
    return Program(f"func.func @k({parameters}) {{{body}\n  func.return\n}}", drawn)


def row_reduce(draw: random.Random) -> Program:
    """out[i, j] = x[i, j] * sum(x[i]^2) + max(x[i] + b)."""
    rows, columns = draw.randint(1, 70), draw.randint(1, 70)
    body = f"""
      loop.for %i = 0 to {rows} {{
        %sum = loop.reduce {{arith.addf}} %k = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %k] : $x
          %sq = arith.mulf %v, %v : f32
          loop.yield %sq : f32
        }}
        %max = loop.reduce {{arith.maximumf}} %k = 0 to {columns} : f32 {{
          %v = loop.load %x[%i, %k] : $x
          %c = loop.load %b[%k] : $b
          %s = arith.addf %v, %c : f32
          loop.yield %s : f32
        }}
        loop.for %j = 0 to {columns} {{
          %v = loop.load %x[%i, %j] : $x
          %p = arith.mulf %v, %sum : f32
          %y = arith.addf %p, %max : f32
          loop.store %y, %out[%i, %j] : $out
        }}
      }}"""
    return kernel(body, (rows, columns), ("x", (rows, columns)), ("b", (columns,)))


def two_results(draw: random.Random) -> Program:
    """out[i] = the sum and the maximum of b * x[i], from one reduction of two results."""
    rows, columns = draw.randint(1, 70), draw.randint(1, 70)
    body = f"""
      loop.for %i = 0 to {rows} {{
        %s, %m = loop.reduce %k = 0 to {columns} : f32, f32 {{
          %v = loop.load %x[%i, %k] : $x
          %c = loop.load %b[%k] : $b
          %p = arith.mulf %v, %c : f32
          loop.yield %p, %p : f32, f32
        }} combine (%s0: f32, %m0: f32, %s1: f32, %m1: f32) identity [0.0 : f32, 0xff800000 : f32] {{
          %t = arith.addf %s0, %s1 : f32
          %n = arith.maximumf %m1, %m0 : f32
          loop.yield %t, %n : f32, f32
        }}
        loop.store %s, %out[%i, 0] : $out
        loop.store %m, %out[%i, 1] : $out
      }}"""
    return kernel(body, (rows, 2), ("x", (rows, columns)), ("b", (columns,)))


def gather(draw: random.Random) -> Program:
    """out[i, j] = b[j] + sum over k of x[idx[i, k], k]."""
    rows, columns, table, outputs = (draw.randint(1, n) for n in (70, 70, 70, 70))
    body = f"""
      loop.for %i = 0 to {rows} {{
        %sum = loop.reduce {{arith.addf}} %k = 0 to {columns} : f32 {{
          %at = loop.load %idx[%i, %k] : $idx
          %row = arith.index_cast %at : i32 to index
          %v = loop.load %x[%row, %k] : $x
          loop.yield %v : f32
        }}
        loop.for %j = 0 to {outputs} {{
          %c = loop.load %b[%j] : $b
          %y = arith.addf %c, %sum : f32
          loop.store %y, %out[%i, %j] : $out
        }}
      }}"""
    shapes = (("x", (table, columns)), ("idx", (rows, columns)), ("b", (outputs,)))
    return kernel(body, (rows, outputs), *shapes, rows=table)


def causal(draw: random.Random) -> Program:
    """out[i, j] = sum over k below min(i + 1, rows) of x[i, k] * w[k, j]."""
    rows, columns = draw.randint(1, 70), draw.randint(1, 70)
    body = f"""
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
    return replace(kernel(body, (rows, columns), ("x", (rows, rows)), ("w", (rows, columns))), is_contraction=True)


def masked(draw: random.Random) -> Program:
    """out[i, j] = sum over n below i floordiv s * s + s of p[i, n] * w[n, j], of whose p nobody stores the rest."""
    rows, keys, columns, step = (draw.randint(1, most) for most in (70, 70, 20, 24))
    x, w, out = memref((rows, keys)), memref((keys, columns)), memref((rows, columns))
    where = f"loop.where %n < %i floordiv {step} * {step} + {step}"
    body = f"""
      func.func @main(%x: {x}, %w: {w}) -> {out} {{
        %p = memref.alloc() : {x}
        func.call @store(%x, %p) : ({x}, {x}) -> ()
        %out = memref.alloc() : {out}
        func.call @sum(%p, %w, %out) : ({x}, {w}, {out}) -> ()
        func.return %out : {out}
      }}
      func.func @store(%x: {x}, %p: {x}) {{
        tile.launch (%i = {rows} : block, %n = {keys} : thread) {{
          {where}
          %v = loop.load %x[%i, %n] : {x}
          loop.store %v, %p[%i, %n] : {x}
        }}
        func.return
      }}
      func.func @sum(%p: {x}, %w: {w}, %out: {out}) {{
        loop.for %i = 0 to {rows} {{
          loop.for %j = 0 to {columns} {{
            %acc = loop.reduce {{arith.addf}} %n = 0 to {keys} : f32 {{
              {where}
              %v = loop.load %p[%i, %n] : {x}
              %u = loop.load %w[%n, %j] : {w}
              %y = arith.mulf %v, %u : f32
              loop.yield %y : f32
            }}
            loop.store %acc, %out[%i, %j] : {out}
          }}
        }}
        func.return
      }}"""
    return Program(body, (("f32", 3, (rows, keys)), ("f32", 3, (keys, columns))), draw.random() < 0.7)


def concatenation(draw: random.Random) -> Program:
    """out[i] = x[i] followed by w[i], scaled by the sum of x[i]."""
    rows, left, right = draw.randint(1, 70), draw.randint(1, 70), draw.randint(1, 70)
    body = f"""
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
    return kernel(body, (rows, left + right), ("x", (rows, left)), ("w", (rows, right)))


def contraction(draw: random.Random, *, is_batched: bool) -> Program:
    """out[b, m, n] = epilogue(sum over k of prologue(x[b, m, k]) * w[b, k, n]), x and w in any layout."""
    extents = {
        "%b": draw.randint(1, 3),
        "%m": draw.randint(1, 70),
        "%n": draw.randint(1, 70),
        "%k": draw.choice([draw.randint(1, 70), draw.randint(30, 70)]),
    }
    if draw.random() < 0.5:
        extents |= {axis: 8 * draw.randint(1, 8) for axis in ("%m", "%n", "%k")}
    batch = ["%b"] if is_batched else []

    def buffer(*axes: str) -> tuple[str, str, tuple[int, ...]]:
        shape = tuple(extents[axis] for axis in axes)
        return ", ".join(axes), memref(shape), shape

    x = buffer(*batch, *draw.choice([("%m", "%k"), ("%k", "%m")]))
    w = buffer(*(batch if draw.random() < 0.5 else []), *draw.choice([("%k", "%n"), ("%n", "%k")]))
    c, e, out = buffer("%k"), buffer(*draw.choice([("%n",), ("%m", "%n"), ("%m",)])), buffer(*batch, "%m", "%n")
    prologue = ["%s = arith.addf %v, %c : f32"] if draw.random() < 0.3 else ["%s = arith.addf %v, %v : f32"]
    factor = draw.choice(["%v", "%s"])
    stored = draw.choice(["%acc", "%y"])
    loops = [*batch, "%m", "%n"]
    lines = [
        f"func.func @k(%x: {x[1]}, %w: {w[1]}, %cs: {c[1]}, %es: {e[1]}, %out: {out[1]}) {{",
        *(f"loop.for {axis} = 0 to {extents[axis]} {{" for axis in loops),
        f"%acc = loop.reduce {{arith.addf}} %k = 0 to {extents['%k']} : f32 {{",
        f"%v = loop.load %x[{x[0]}] : {x[1]}",
        f"%c = loop.load %cs[{c[0]}] : {c[1]}",
        *prologue,
        f"%u = loop.load %w[{w[0]}] : {w[1]}",
        f"%p = arith.mulf {factor}, %u : f32",
        "loop.yield %p : f32",
        "}",
        f"%e = loop.load %es[{e[0]}] : {e[1]}",
        "%y = arith.addf %acc, %e : f32",
        f"loop.store {stored}, %out[{out[0]}] : {out[1]}",
        *("}" for _ in loops),
        "func.return",
        "}",
    ]
    return Program(
        "\n".join(lines), tuple(("f32", 3, shape) for shape in (x[2], w[2], c[2], e[2])), is_contraction=True
    )


KINDS: dict[str, tuple[int, Callable[[random.Random], Program]]] = {
    "matmul": (12, partial(contraction, is_batched=False)),
    "batched": (6, partial(contraction, is_batched=True)),
    "row reduce": (2, row_reduce),
    "two-result reduce": (2, two_results),
    "gather": (1, gather),
    "causal bound": (2, causal),
    "masked": (3, masked),
    "cat": (1, concatenation),
}
"""The kinds of kernels: how often each is drawn, and from what."""
TURNS = [kind for kind, (weight, _) in KINDS.items() for _ in range(weight)]
"""The kinds take turns, so that few draws have all."""


def rules(draw: random.Random, program: Program) -> list[Rule[Any]]:
    """A random schedule in a random legal order."""
    return legal_order(draw, draw_rules(draw, Kind.CONTRACTION if program.is_contraction else Kind.OTHER))


def rewritten(rule: Rule[Any], module: ModuleOp) -> list[Operation] | None:
    """The functions that a rule says it has changed; None where it refuses."""
    try:
        return rule.rewritten(module)
    except PassFailedException:
        return None


def check(module: ModuleOp, inputs: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    module.verify()
    for got, wanted in zip(evaluate(module, inputs), expected, strict=True):
        assert np.array_equal(got, wanted), f"after {what}:\n{module}"


def check_kernel(module: ModuleOp, inputs: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    for rule in (
        MaterializePass(),
        VerifyResourcesPass(),
        PlaceBarriersPass(),
        FuseMultiplyAddPass(),
        VerifyBarriersPass(),
    ):
        rule.apply(CONTEXT, module)
        module.verify()
    result = simulate(module, inputs, counts=False, order=len(what))
    assert not result.findings, f"{what}: {result.findings[0]}\n{module}"
    for got, wanted in zip(result.outputs, expected, strict=True):
        assert np.array_equal(got, wanted), f"{what}:\n{module}"


def run(number: int, fired: Counter[str]) -> None:
    """One draw: a program, its inputs and its schedule."""
    draw = random.Random(number)
    kind = TURNS[number % len(TURNS)]
    program = KINDS[kind][1](draw)
    module, inputs = Parser(CONTEXT, program.text).parse_module(), program.draw(number)
    expected = evaluate(module, inputs)
    fired[kind] += 1
    what = f"draw {number}, {kind}"
    changes = Changes(module)
    changes.take()
    for rule in rules(draw, program):
        said, found = rewritten(rule, module), changes.take()
        if said is None:
            assert not found, f"{what}: {rule} refused after changing the kernel"
            continue
        what += f", {rule.pipeline_pass_spec()}"
        assert said == found, f"{what}: the rewriter knows of changes of {said}, and {found} have changed"
        if found:
            fired[rule.name] += 1
            check(module, inputs, expected, what)
            assert not rewritten(rule, module), f"{what}: twice differs from once"
            assert not changes.take(), f"{what}: twice differs from once"
        if draw.random() < 0.5:
            cleaned = module.clone()
            CanonicalizePass().apply(CONTEXT, cleaned)
            CommonSubexpressionElimination().apply(CONTEXT, cleaned)
            clean_up(CONTEXT, module)
            assert str(module) == str(cleaned), f"{what}: clean_up differs from canonicalize and cse"
            if changes.take():
                check(module, inputs, expected, f"{what} and its cleanup")
    text = str(module)
    fired["ragged"] += "loop.where" in text
    fired["transposed"] += "d1, %" in text
    fired["ring of phases"] += "mbarrier" in text
    fired["parts in a cluster"] += " : cluster" in text
    fired["parts by ticket"] += "over (%s" in text and " : cluster" not in text
    fired["ring of 3 or more"] += "tile.ring 3" in text or "tile.ring 4" in text
    try:
        check_kernel(module, inputs, expected, what)
    except ExceedsTarget:
        fired["too large"] += 1


@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules(part: int, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any options that the rules accept, in any legal order, give a right kernel."""
    fired: Counter[str] = Counter()
    for number in range(FIRST + part, FIRST + DRAWS, PARTS):
        run(number, fired)
    unfinished = run_folder / f"schedules_{part}.part"
    unfinished.write_text(json.dumps(fired))
    unfinished.rename(unfinished.with_suffix(".json"))
    counts = [Counter[str](json.loads(path.read_text())) for path in run_folder.glob("schedules_*.json")]
    if len(counts) == PARTS:
        with capsys.disabled():
            check_counts(sum(counts, Counter[str]()))


def check_counts(fired: Counter[str]) -> None:
    """The draws of all parts, which the last one to end sees, reach every kind of kernel and rule often enough."""
    print(f"\n{DRAWS} draws from {FIRST}: " + ", ".join(f"{name} {count}" for name, count in sorted(fired.items())))
    assert all(fired[kind] for kind in KINDS)
    assert fired["too large"] <= DRAWS / 50
    assert fired["stage-inputs"] >= DRAWS / 2
    for name in ("ragged", "register-tile", "permute-register-tile", "mark-unroll"):
        assert fired[name] >= DRAWS / 4, f"{name}: {fired[name]} of {DRAWS} draws"
    assert fired["ring of 3 or more"] >= DRAWS / 5
    assert fired["flatten-contraction"] >= DRAWS / 16
    assert fired["split-matmul-k"] >= DRAWS / 8
    assert fired["tma-copy"] >= DRAWS / 16
    assert fired["split-inner-for-swizzle"] >= DRAWS / 64
    assert fired["stream-matmul-k"] >= DRAWS / 64
    assert fired["tma-store"] >= DRAWS / 64
