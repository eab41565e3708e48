"""Padding removes bank conflicts that the simulator counts, and leaves results alone."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.machine.targets import RESERVED, target
from deplodock.dialects import loop, tile
from deplodock.interpreters.simulate import Counters, simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.fuse_multiply_add import FuseMultiplyAddPass
from deplodock.passes.kernel.materialize import MaterializePass
from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.chunk_matmul_k import ChunkMatmulKPass
from deplodock.passes.tile.double_buffer import DoubleBufferPass
from deplodock.passes.tile.pad_smem import PadSmemPass
from deplodock.passes.tile.pipeline_k_outer import PipelineKOuterPass
from deplodock.passes.tile.register_tile import RegisterTilePass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass

CONTEXT = new_context()


def contraction(m: int, n: int, k: int) -> ModuleOp:
    """out = x @ w.T for x of m x k, w of n x k."""
    return Parser(
        CONTEXT,
        f"""
        func.func @k_linear(%x: memref<{m}x{k}xf32>, %w: memref<{n}x{k}xf32>, %out: memref<{m}x{n}xf32>)
            attributes {{deplodock.schedule = "tileify,pad-smem,pipeline-k-outer"}} {{
          loop.for %m = 0 to {m} {{
            loop.for %n = 0 to {n} {{
              %acc = loop.reduce {{arith.addf}} %k = 0 to {k} : f32 {{
                %a = loop.load %x[%m, %k] : memref<{m}x{k}xf32>
                %b = loop.load %w[%n, %k] : memref<{n}x{k}xf32>
                %p = arith.mulf %a, %b : f32
                loop.yield %p : f32
              }}
              loop.store %acc, %out[%m, %n] : memref<{m}x{n}xf32>
            }}
          }}
          func.return
        }}
        """,
    ).parse_module()


def schedule(module: ModuleOp, transpose: str, *last: PadSmemPass | PipelineKOuterPass) -> None:
    """CTA tiles of 32 x 64 x 32, thread tiles of 4 x 4, then the last rules."""
    for rule in (
        TileifyPass(),
        ChunkMatmulKPass(bk=32),
        BlockifyLaunchPass(m=32, n=64),
        StageInputsPass(memory="shared", transpose=transpose),  # pyright: ignore[reportArgumentType]
        RegisterTilePass(m=4, n=4),
        DoubleBufferPass(depth=2),
        *last,
    ):
        rule.apply(CONTEXT, module)
    module.verify()


def run(module: ModuleOp, m: int, n: int, k: int) -> Counters:
    """Run a scheduled contraction on the simulator; its output must be right, with no finding."""
    for kernel_pass in (MaterializePass(), PlaceBarriersPass(), FuseMultiplyAddPass(), VerifyBarriersPass()):
        kernel_pass.apply(CONTEXT, module)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    result = simulate(module, [x, w])
    assert not result.findings
    (out,) = result.outputs
    np.testing.assert_array_equal(out, x @ w.T)
    (counters,) = result.counters.values()
    return counters


def slabs(module: ModuleOp) -> list[str]:
    return [str(loop.memref_of(op.slab).layout) for op in module.walk() if isinstance(op, tile.StageOp)]


@pytest.mark.parametrize("transpose", ["auto", "n", "never"])
def test_padding_saves_wavefronts(transpose: str) -> None:
    shape = (64, 64, 96)
    plain, wide = contraction(*shape), contraction(*shape)
    schedule(plain, transpose)
    schedule(wide, transpose, PadSmemPass())
    assert slabs(plain) != slabs(wide)
    before, after = run(plain, *shape), run(wide, *shape)
    assert after.shared_wavefronts < before.shared_wavefronts
    assert after.shared_ideal_wavefronts == before.shared_ideal_wavefronts
    assert after.widest == before.widest
    if transpose == "auto":
        assert after.shared_wavefronts == after.shared_ideal_wavefronts


@pytest.mark.parametrize("transpose", ["auto", "m", "never"])
@pytest.mark.parametrize("shape", [(40, 70, 65), (70, 67, 96)])
def test_padded_slabs_in_a_ring(shape: tuple[int, int, int], transpose: str) -> None:
    module = contraction(*shape)
    schedule(module, transpose, PadSmemPass(), PipelineKOuterPass())
    strides = [loop.memref_of(op.result).get_strides() for op in module.walk() if isinstance(op, tile.AllocOp)]
    assert [32, 1] not in [list(found or ())[1:] for found in strides]
    run(module, *shape)


def test_slabs_with_all_their_buffers_must_fit() -> None:
    module = contraction(64, 64, 96)
    schedule(module, "auto")
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    buffered = 2 * (32 * 32 + 32 * 64) * 4
    ctas = target("sm_90").fact("shared_per_sm") // (buffered + RESERVED)
    for occupancy, pads in ((ctas, False), (ctas - 1, True)):
        launch.properties["occupancy"] = IntegerAttr(occupancy, i64)
        before = slabs(module)
        PadSmemPass().apply(CONTEXT, module)
        assert (slabs(module) != before) is pads


@pytest.mark.parametrize(
    ("pad", "reason"),
    [
        (1, "rows of 32 \\+ 1 elements would narrow its accesses"),
        (60_000, "60000 more elements a row exceed the shared memory of a CTA"),
    ],
)
def test_a_padding_that_no_slab_can_have_is_an_error(pad: int, reason: str) -> None:
    module = contraction(64, 64, 96)
    schedule(module, "auto")
    with pytest.raises(
        PassFailedException, match=f"pad-smem{{pad={pad}}} applies to no kernel: @k_linear: %x: {reason}"
    ):
        PadSmemPass(pad=pad).apply(CONTEXT, module)
