"""A contraction under a schedule of register tiles: right on the simulator at a ragged shape, no spills in nvcc."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.universe import Universe

from deplodock.codegen.cuda import print_module
from deplodock.interpreters.simulator import simulate
from deplodock.passes.kernel.fuse_multiply_add import FuseMultiplyAddPass
from deplodock.passes.kernel.materialize import MaterializePass
from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.chunk_matmul_k import ChunkMatmulKPass
from deplodock.passes.tile.mark_unroll import MarkUnrollPass
from deplodock.passes.tile.permute_register_tile import PermuteRegisterTilePass
from deplodock.passes.tile.register_tile import RegisterTilePass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.runtime.nvcc import compile_cubin, find_nvcc


def linear(m: int, n: int, k: int) -> str:
    """out = x @ w.T + r."""
    x, w, out = f"memref<{m}x{k}xf32>", f"memref<{n}x{k}xf32>", f"memref<{m}x{n}xf32>"
    return f"""
    func.func @k(%x: {x}, %w: {w}, %r: {out}, %out: {out}) {{
      loop.for %m = 0 to {m} {{
        loop.for %n = 0 to {n} {{
          %acc = loop.reduce {{arith.addf}} %k = 0 to {k} : f32 {{
            %a = loop.load %x[%m, %k] : {x}
            %b = loop.load %w[%n, %k] : {w}
            %p = arith.mulf %a, %b : f32
            loop.yield %p : f32
          }}
          %e = loop.load %r[%m, %n] : {out}
          %y = arith.addf %acc, %e : f32
          loop.store %y, %out[%m, %n] : {out}
        }}
      }}
      func.return
    }}"""


def lower(text: str, columns: int) -> ModuleOp:
    """128 rows a CTA, 16 x 8 outputs a thread, k in chunks of 32, both operands transposed on the way in."""
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    module = Parser(ctx, text).parse_module()
    rules: tuple[ModulePass, ...] = (
        TileifyPass(),
        ChunkMatmulKPass(bk=32),
        BlockifyLaunchPass(m=128, n=columns, occupancy=2),
        StageInputsPass(transpose="auto"),
        RegisterTilePass(m=16, n=8),
        PermuteRegisterTilePass(m="strips", n="strips", lanes="nmnnm"),
        MarkUnrollPass(limit=1100),
        MaterializePass(),
        PlaceBarriersPass(),
        FuseMultiplyAddPass(),
    )
    for rule in rules:
        rule.apply(ctx, module)
        module.verify()
        CanonicalizePass().apply(ctx, module)
        CommonSubexpressionElimination().apply(ctx, module)
    return module


def test_ragged_shape_is_right() -> None:
    module, generator = lower(linear(250, 96, 130), 64), np.random.default_rng(0)
    x, w, r = (generator.integers(-2, 3, shape).astype(np.float32) for shape in ((250, 130), (96, 130), (250, 96)))
    result = simulate(module, [x, w, r])
    assert not result.findings, result.findings[0]
    assert np.array_equal(result.outputs[0], x @ w.T + r)


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_registers_of_the_tile_do_not_spill() -> None:
    report = compile_cubin(print_module(lower(linear(512, 3584, 3584), 128)), "sm_90a").reports["k"]
    assert (report.stack_frame, report.spill_stores, report.spill_loads) == (0, 0, 0)
    assert report.registers <= 65536 // (128 * 2)
