"""Random contractions under random schedules in random legal rule orders.

Every rule keeps the meaning, applied twice equals once, and the kernel is right on the simulator with all its checks.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
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
from deplodock.passes.tile.async_copy import AsyncCopyPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.chunk_matmul_k import ChunkMatmulKPass
from deplodock.passes.tile.double_buffer import DoubleBufferPass
from deplodock.passes.tile.mark_unroll import MarkUnrollPass
from deplodock.passes.tile.permute_register_tile import PermuteRegisterTilePass
from deplodock.passes.tile.pipeline_k_outer import PipelineKOuterPass
from deplodock.passes.tile.register_tile import RegisterTilePass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass

DRAWS = 48 * int(os.environ.get("DEPLODOCK_FUZZ_FACTOR", "1"))

BEFORE = {
    "stage-inputs": ("chunk-matmul-k", "blockify-launch"),
    "register-tile": ("blockify-launch",),
    "permute-register-tile": ("register-tile",),
    "mark-unroll": ("chunk-matmul-k",),
    "double-buffer": ("stage-inputs",),
    "async-copy": ("stage-inputs",),
    "pipeline-k-outer": ("stage-inputs", "double-buffer", "async-copy"),
}
"""The rules that refuse once the rule has fired, so that they come before it."""

CONTEXT = Context()
for _name, _factory in Universe.get_multiverse().all_dialects.items():
    CONTEXT.register_dialect(_name, _factory)


@dataclass(frozen=True)
class Program:
    """A contraction at loop level and the shapes of its inputs."""

    text: str
    shapes: tuple[tuple[int, ...], ...]


def memref(shape: tuple[int, ...]) -> str:
    return "memref<" + "".join(f"{n}x" for n in shape) + "f32>"


def contraction(draw: random.Random) -> Program:
    """out[b, m, n] = epilogue(sum over k of prologue(x[b, m, k]) * w[b, k, n]), x and w in any layout."""
    extents = {
        "%b": draw.randint(1, 3),
        "%m": draw.randint(1, 70),
        "%n": draw.randint(1, 70),
        "%k": draw.choice([draw.randint(1, 70), draw.randint(30, 70)]),
    }
    if draw.random() < 0.3:
        extents |= {axis: 8 * draw.randint(1, 8) for axis in ("%m", "%n", "%k")}
    batch = ["%b"] if draw.random() < 0.3 else []

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
    return Program("\n".join(lines), (x[2], w[2], c[2], e[2]))


def rules(draw: random.Random) -> list[ModulePass]:
    """A random schedule in a random legal order."""
    m, n = draw.choice([1, 2, 2, 3, 4, 8]), draw.choice([1, 2, 2, 4, 5])
    rows, columns = draw.choice(
        [(16, 16), (32, 32), (8, 24)] if m * n < 4 else [(64, 32), (32, 64), (24, 40), (32, 16)]
    )
    vec = draw.choice([v for v in (1, 2, 4, 8) if m % v == n % v == 0] or [4])
    placements = [None, "blocked", "strided", "strips", "strips"]
    kv = draw.choice([1, 1, 2, 4])
    drawn: list[ModulePass] = [
        ChunkMatmulKPass(bk=kv * draw.choice([1, 2, 3, 4, 8]), kv=kv),
        BlockifyLaunchPass(m=rows, n=columns, occupancy=2),
        StageInputsPass(
            memory=draw.choice(["auto", "shared"]), transpose=draw.choice(["auto", "never", "m", "n", "auto"])
        ),
        RegisterTilePass(m=m, n=n),
        PermuteRegisterTilePass(
            m=draw.choice(placements),
            n=draw.choice(placements),
            vec=vec,
            lanes=draw.choice([None, None, None, "nm", "mn", "n", "nmnnm"]),
        ),
        MarkUnrollPass(limit=draw.choice([20, 200, 1100])),
        DoubleBufferPass(depth=draw.choice([2, 3, 3, 4])),
        AsyncCopyPass(bytes=4),
        PipelineKOuterPass(distance=draw.choice([1, 1, 2])),
    ]
    needed = ("blockify-launch", "register-tile", "double-buffer", "pipeline-k-outer")
    drawn = [rule for rule in drawn if rule.name in needed or draw.random() < 0.9]
    draw.shuffle(drawn)
    ordered: list[ModulePass] = []
    while drawn:
        names = {rule.name for rule in drawn}
        free = next(rule for rule in drawn if not names & set(BEFORE.get(rule.name, ())))
        drawn.remove(free)
        ordered.append(free)
    return [TileifyPass(), *ordered]


def applies(rule: ModulePass, module: ModuleOp) -> bool:
    try:
        rule.apply(CONTEXT, module)
    except PassFailedException:
        return False
    return True


def check(module: ModuleOp, inputs: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    module.verify()
    for got, wanted in zip(evaluate(module, inputs), expected, strict=True):
        assert np.array_equal(got, wanted), f"after {what}:\n{module}"


def check_kernel(module: ModuleOp, inputs: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    for rule in (MaterializePass(), PlaceBarriersPass(), FuseMultiplyAddPass(), VerifyBarriersPass()):
        rule.apply(CONTEXT, module)
        module.verify()
    result = simulate(module, inputs)
    assert not result.findings, f"{what}: {result.findings[0]}\n{module}"
    for got, wanted in zip(result.outputs, expected, strict=True):
        assert np.array_equal(got, wanted), f"{what}:\n{module}"


def run(number: int, fired: Counter[str]) -> None:
    """One draw: a program, its inputs (small integers, on which float sums are exact) and its schedule."""
    draw = random.Random(number)
    program, generator = contraction(draw), np.random.default_rng(number)
    module = Parser(CONTEXT, program.text).parse_module()
    inputs = [generator.integers(-2, 3, shape).astype(np.float32) for shape in program.shapes]
    expected = evaluate(module, inputs)
    what = f"draw {number}"
    for rule in rules(draw):
        before = str(module)
        if not applies(rule, module):
            assert str(module) == before, f"draw {number}: {rule} refused after changing the kernel"
            continue
        what += f", {rule.pipeline_pass_spec()}"
        fired[rule.name] += str(module) != before
        check(module, inputs, expected, what)
        once = str(module)
        applies(rule, module)
        assert str(module) == once, f"{what}: twice differs from once"
        if draw.random() < 0.5:
            CanonicalizePass().apply(CONTEXT, module)
            CommonSubexpressionElimination().apply(CONTEXT, module)
            check(module, inputs, expected, f"{what} and its cleanup")
    text = str(module)
    fired["ragged"] += "loop.where" in text
    fired["transposed"] += "d1, %" in text
    fired["deep ring"] += "tile.ring 3" in text or "tile.ring 4" in text
    check_kernel(module, inputs, expected, what)


def test_random_contractions(capsys: pytest.CaptureFixture[str]) -> None:
    """Any options that the rules accept, in any legal order, give a right kernel."""
    fired: Counter[str] = Counter()
    for number in range(DRAWS):
        run(number, fired)
    with capsys.disabled():
        print(f"\n{DRAWS} contractions: " + ", ".join(f"{name} {count}" for name, count in sorted(fired.items())))
    for name in ("stage-inputs", "register-tile", "chunk-matmul-k"):
        assert fired[name] >= DRAWS / 2, f"{name} fired in {fired[name]} of {DRAWS} draws"
    for name in ("permute-register-tile", "mark-unroll", "ragged", "deep ring"):
        assert fired[name] >= DRAWS / 4, f"{name} fired in {fired[name]} of {DRAWS} draws"
