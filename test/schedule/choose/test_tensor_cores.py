"""Which contractions tensor cores take, in which tiles, and that what is chosen applies and computes the same."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.analysis.affine.linear import extent_or_one
from deplodock.analysis.machine.atoms import narrow_factors
from deplodock.analysis.machine.targets import target_of
from deplodock.analysis.shape.nest import kernels, loop_nest
from deplodock.analysis.shape.roles import contraction
from deplodock.dialects import kernel
from deplodock.dialects.engines import MMA, WGMMA
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context, set_target
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.choose.sizes import READS
from deplodock.schedule.choose.tensor_tiles import CHUNKS, TILES, TensorGrid, TensorProblem, best_grid, tensor_grids
from deplodock.schedule.choose.tiling import MASK_STEP, TOLERANCE
from deplodock.schedule.steps import Options

LINEAR = """
func.func @k(%x: memref<{m}x{k}x{type}>, %w: memref<{n}x{k}x{type}>, %out: memref<{m}x{n}xf32>) {{
  loop.for %i = 0 to {m} {{
    loop.for %j = 0 to {n} {{
      %acc = loop.reduce {{arith.addf}} %q = 0 to {k} : f32 {{
        %a = loop.load %x[%i, %q] : memref<{m}x{k}x{type}>
        %af = arith.extf %a : {type} to f32
        %b = loop.load %w[%j, %q] : memref<{n}x{k}x{type}>
        %bf = arith.extf %b : {type} to f32
        %p = arith.mulf %af, %bf : f32
        loop.yield %p : f32
      }}
      loop.store %acc, %out[%i, %j] : memref<{m}x{n}xf32>
    }}
  }}
  func.return
}}
"""


def linear(m: int, n: int, k: int, type: str = "bf16", target: str = "sm_90") -> ModuleOp:
    """A product of x[m, k] and w[n, k]."""
    module = Parser(new_context(), LINEAR.format(m=m, n=n, k=k, type=type)).parse_module()
    set_target(module, target)
    return module


def chosen(module: ModuleOp) -> dict[str, Options]:
    (function,) = kernels(module)
    assert isinstance(function, func.FuncOp)
    return {step.rule: step.options for step in choose(function)}


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((4096, 4096, 4096), {"m": 128, "n": 256, "occupancy": 1, "raster": 16}),
        ((2048, 3584, 18944), {"m": 128, "n": 224, "occupancy": 1, "raster": 16}),
        ((512, 3584, 18944), {"m": 128, "n": 112, "occupancy": 1, "raster": 16}),
        ((128, 18944, 3584), {"m": 128, "n": 144, "occupancy": 1}),
        ((40, 3584, 3584), {"m": 32, "n": 64, "occupancy": 1, "raster": 16}),
    ],
)
def test_the_tile_is_that_of_the_grid_that_ends_first(shape: tuple[int, int, int], tile: Mapping[str, int]) -> None:
    schedule = chosen(linear(*shape))
    assert schedule["blockify-launch"] == tile
    assert "tensor-tile" in schedule
    assert "register-tile" not in schedule


PERSISTENT = {"ctas": 132, "unit": "tile"}


@pytest.mark.parametrize(
    ("shape", "rules"),
    [
        ((512, 18944, 3584), {"stream-matmul-k": PERSISTENT}),
        ((2048, 5632, 2048), {"stream-matmul-k": PERSISTENT}),
        ((2048, 3584, 18944), {}),
        ((512, 3584, 3584), {}),
    ],
    ids=str,
)
def test_ctas_take_tiles_in_turn_where_they_have_more_than_two(
    shape: tuple[int, int, int], rules: Mapping[str, Options]
) -> None:
    schedule = chosen(linear(*shape))
    assert {rule: schedule[rule] for rule in ("stream-matmul-k", "tma-store") if rule in schedule} == rules


def test_results_are_stored_in_boxes_where_the_ring_leaves_room() -> None:
    half = linear(512, 18944, 3584)
    text = str(half).replace("memref<512x18944xf32>", "memref<512x18944xbf16>")
    text = text.replace("loop.store %acc", "%half = arith.truncf %acc : f32 to bf16\nloop.store %half")
    module = Parser(new_context(), text).parse_module()
    assert "tma-store" in chosen(module)
    assert "tma-store" not in chosen(half)


@pytest.mark.parametrize(
    ("shape", "tile", "parts", "slabs"),
    [
        ((128, 3584, 3584), (128, 128), 4, 5),
        ((128, 3584, 18944), (128, 128), 4, 5),
        ((128, 18944, 3584), (128, 144), 1, 5),
        ((64, 2048, 2048), (64, 48), 3, 8),
        ((2048, 2048, 2048), (128, 256), 1, 4),
    ],
)
def test_every_sm_has_work(shape: tuple[int, int, int], tile: tuple[int, int], parts: int, slabs: int) -> None:
    """Few tiles have fewer columns, parts of k and deep rings, so that most of the 132 SMs read and multiply."""
    schedule = chosen(linear(*shape, target="h200"))
    cta = schedule["blockify-launch"]
    assert (cta["m"], cta["n"]) == tile
    assert schedule.get("split-matmul-k", {"s": 1})["s"] == parts
    assert schedule["double-buffer"]["depth"] == slabs
    ctas = -(-shape[0] // tile[0]) * -(-shape[1] // tile[1]) * parts
    assert 0.84 * 132 <= ctas <= 132


PRODUCER = {"distance": "producer"}


@pytest.mark.parametrize(
    ("shape", "target", "options"),
    [
        ((4096, 4096, 4096), "h200", PRODUCER),
        ((512, 3584, 18944), "h200", PRODUCER),
        # Parts that a launch of its own adds.
        ((128, 3584, 18944), "h200", PRODUCER),
        # One warpgroup.
        ((64, 2048, 2048), "h200", PRODUCER),
        ((512, 2048, 2048), "h200", PRODUCER),
    ],
)
def test_a_producer_copies_for_warpgroups_that_have_an_sm(
    shape: tuple[int, int, int], target: str, options: Mapping[str, int | str]
) -> None:
    assert chosen(linear(*shape, target=target))["pipeline-k-outer"] == options


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((8, 3584, 3584), {"m": 8, "n": 16, "slices": 8}),
        ((20, 4608, 3584), {"m": 24, "n": 16, "slices": 4}),
        ((32, 2048, 2048), {"m": 32, "n": 16, "slices": 16}),
        ((8, 256, 2048), {"m": 8, "n": 16, "slices": 16}),
    ],
)
def test_few_rows_are_the_columns_of_the_instruction(
    shape: tuple[int, int, int], options: Mapping[str, int | str]
) -> None:
    schedule = chosen(linear(*shape, target="h200"))
    assert schedule["tensor-tile"] == {"engine": "mma", "rows": "n", **options}
    assert "stage-inputs" not in schedule


@pytest.mark.parametrize(
    ("shape", "parts", "occupancy"),
    [((32, 18944, 3584), 1, 3), ((32, 5632, 2048), 1, 1), ((16, 3584, 18944), 4, 2), ((32, 3584, 3584), 4, 2)],
)
def test_warpgroups_read_the_weights_of_more_rows_than_an_instruction_has(
    shape: tuple[int, int, int], parts: int, occupancy: int
) -> None:
    """Their slabs hold what the latency of DRAM asks for, and k has parts where a CTA would take longer."""
    schedule = chosen(linear(*shape, target="h200"))
    assert schedule["tensor-tile"] == {"engine": "wgmma", "m": shape[0], "n": 64, "rows": "n", "slices": 1}
    assert schedule.get("split-matmul-k", {"s": 1})["s"] == parts
    assert schedule["blockify-launch"]["occupancy"] == occupancy
    ctas = min(-(-shape[1] // 64) * parts, 132 * occupancy)
    assert ctas * (int(schedule["double-buffer"]["depth"]) - 2) * 64 * 128 / 132 >= 36e3


@pytest.mark.parametrize(("m", "n", "k"), [(8, 3584, 3584), (8, 4608, 3584), (20, 18944, 3584), (20, 3584, 18944)])
def test_enough_bytes_of_the_weights_are_on_their_way(m: int, n: int, k: int) -> None:
    """What the latency of DRAM asks for, 36 KB of each SM less 5 percent, in no more warps than an SM holds."""
    schedule = chosen(linear(m, n, k, target="h200"))
    tile, cta = schedule["tensor-tile"], schedule["blockify-launch"]
    warps = int(tile["slices"]) * int(cta["n"]) // int(tile["n"])
    assert warps * int(cta["occupancy"]) <= 16
    resident = min(-(-n // int(cta["n"])), 132 * int(cta["occupancy"]))
    assert resident * warps * 32 * READS * 16 / 132 >= 0.95 * 36e3


@pytest.mark.parametrize(("m", "n", "k", "type"), [(8, 8, 64, "bf16"), (64, 4, 64, "f16"), (64, 64, 8, "f16")])
def test_other_contractions_are_not_for_tensor_cores(m: int, n: int, k: int, type: str) -> None:
    assert "tensor-tile" not in chosen(linear(m, n, k, type))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(40, 24, 40), (72, 136, 130), (16, 8, 16), (130, 66, 192), (2, 40, 320), (70, 58, 520)]
)
def test_what_is_chosen_applies_and_computes_the_same(m: int, n: int, k: int, target: str) -> None:
    check(linear(m, n, k, target=target), m, n, k)


@pytest.mark.parametrize(
    ("n", "k", "target", "parts"),
    [
        (58, 1040, "sm_80", {"s": 4, "over": "ticket"}),
        (128, 1040, "sm_90", {"s": 4, "over": "cluster"}),
    ],
)
def test_parts_of_k(n: int, k: int, target: str, parts: Mapping[str, int | str]) -> None:
    """The last CTA of a tile adds a few parts, or the CTAs of a cluster do."""
    module = linear(70, n, k, target=target)
    assert chosen(module)["split-matmul-k"] == parts
    check(module, 70, n, k)


def test_warps_of_a_cluster_copy_all_steps_of_a_part_ahead() -> None:
    """A ring that is copied as far ahead as a part has steps, 5 here, would be none."""
    schedule = chosen(linear(48, 1280, 1280, target="h200"))
    assert schedule["tensor-tile"]["engine"] == MMA
    assert schedule["split-matmul-k"] == {"s": 4, "over": "cluster"}
    assert schedule["pipeline-k-outer"] == {"distance": 4, "barrier": "mbarrier"}


def test_many_parts_are_added_by_another_launch() -> None:
    assert chosen(linear(70, 128, 8192, target="sm_80"))["split-matmul-k"] == {"s": 15, "over": "block"}


@pytest.mark.parametrize(
    ("shape", "ctas", "parts"),
    [((128, 2048, 2048), 128, 2), ((128, 3584, 3584), 112, 4), ((128, 256, 2048), 64, 8)],
)
def test_clusters_run_at_once(shape: tuple[int, int, int], ctas: int, parts: int) -> None:
    """Two CTAs share a TPC, of which all SMs are; the CTAs of larger clusters share a GPC, and leave some SMs idle."""
    problem = problem_of(linear(*shape, target="h200"))
    grids = [
        grid
        for tile in TILES[WGMMA]
        for narrow in problem.narrowed(WGMMA, tile, parts, "cluster")
        if (grid := problem.grid(WGMMA, narrow, parts, "cluster")) is not None
    ]
    assert grids
    assert max(problem.ctas(grid.tile, parts) for grid in grids) == ctas
    assert all(grid.tile.n % (8 * parts) == 0 for grid in grids)


def check(module: ModuleOp, m: int, n: int, k: int) -> None:
    """The kernel that the heuristic makes of a product has tensor cores, no finding, and the right results."""
    lower(module, new_context(), Level.KERNEL)
    assert any(isinstance(op, kernel.MmaOp | kernel.WgmmaOp) for op in module.walk())
    rng = np.random.default_rng(m)
    x, w = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    result = simulate(module, [x, w], entry="run_k")
    assert not result.findings
    np.testing.assert_allclose(result.outputs[0], x.astype(np.float64) @ w.astype(np.float64).T, rtol=1e-4, atol=1e-4)


def test_what_is_chosen_with_a_producer_computes_the_same() -> None:
    """Tiles are ragged, and few SMs make a small product one of whole waves."""
    text = str(linear(150, 88, 200)).replace("sms = 132", "sms = 2")
    module = Parser(new_context(), text).parse_module()
    assert chosen(module)["pipeline-k-outer"] == PRODUCER
    check(module, 150, 88, 200)


@pytest.mark.parametrize("m", [3, 8, 13, 24, 32])
@pytest.mark.parametrize(("n", "k"), [(33, 323), (50, 264)])
def test_few_rows_of_any_extents(m: int, n: int, k: int) -> None:
    """Rows, columns and k that are no multiples of an instruction, nor of what is read at once."""
    check(linear(m, n, k), m, n, k)


BATCHED = """
func.func @k(%x: memref<{b}x{x}xbf16>, %w: memref<{b}x{w}xbf16>, %out: memref<{b}x{m}x{n}xf32>) {{
  loop.for %h = 0 to {b} {{
    loop.for %i = 0 to {m} {{
      loop.for %j = 0 to {n} {{
        %acc = loop.reduce {{arith.addf}} %q = 0 to {k} : f32 {{
          %a = loop.load %x[%h, {left}] : memref<{b}x{x}xbf16>
          %af = arith.extf %a : bf16 to f32
          %b = loop.load %w[%h, {right}] : memref<{b}x{w}xbf16>
          %bf = arith.extf %b : bf16 to f32
          %p = arith.mulf %af, %bf : f32
          loop.yield %p : f32
        }}
        loop.store %acc, %out[%h, %i, %j] : memref<{b}x{m}x{n}xf32>
      }}
    }}
  }}
  func.return
}}
"""


def batched(m: int, n: int, k: int, left: str, right: str, target: str = "sm_90") -> ModuleOp:
    """Two products whose factors lie in memory as their letters say, such as mk and kn."""
    extents, indices = {"m": m, "n": n, "k": k}, {"m": "%i", "n": "%j", "k": "%q"}
    shapes = ("x".join(str(extents[letter]) for letter in side) for side in (left, right))
    at = {name: ", ".join(indices[letter] for letter in side) for name, side in (("left", left), ("right", right))}
    x, w = shapes
    module = Parser(new_context(), BATCHED.format(b=2, m=m, n=n, k=k, x=x, w=w, **at)).parse_module()
    set_target(module, target)
    return module


@pytest.mark.parametrize("sides", [("mk", "kn"), ("km", "nk"), ("km", "kn")])
def test_warpgroups_take_factors_as_they_lie(sides: tuple[str, str]) -> None:
    """Where rows or columns walk memory, boxes fill the lines of a slab with 64 of them, and no copy transposes."""
    schedule = chosen(batched(512, 2048, 2048, *sides))
    assert schedule["tensor-tile"]["engine"] == "wgmma"
    assert int(schedule["blockify-launch"]["n"]) % 64 == 0
    assert schedule["stage-inputs"]["transpose"] == "never"
    assert "tma-copy" in schedule


@pytest.mark.parametrize(
    ("m", "n", "k", "target"), [(130, 72, 136, "sm_90"), (66, 136, 70, "sm_90"), (130, 72, 136, "sm_80")]
)
@pytest.mark.parametrize(("left", "right"), [("mk", "kn"), ("km", "nk"), ("km", "kn")])
def test_batches_and_transposed_factors(m: int, n: int, k: int, target: str, left: str, right: str) -> None:
    module = batched(m, n, k, left, right, target)
    lower(module, new_context(), Level.KERNEL)
    assert any(isinstance(op, kernel.MmaOp | kernel.WgmmaOp) for op in module.walk())
    rng = np.random.default_rng(m)
    x, w = (rng.standard_normal((2, rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    given = [value if side[1] == "k" else value.transpose(0, 2, 1).copy() for value, side in ((x, left), (w, right))]
    result = simulate(module, given, entry="run_k")
    assert not result.findings
    wanted = x.astype(np.float64) @ w.astype(np.float64).transpose(0, 2, 1)
    np.testing.assert_allclose(result.outputs[0], wanted, rtol=1e-4, atol=1e-4)


GATED = """
func.func @k(%x: memref<{m}x{k}xbf16>, %g: memref<{n}x{k}xbf16>, %u: memref<{n}x{k}xbf16>, %out: memref<{m}x{n}xf32>) {{
  loop.for %i = 0 to {m} {{
    loop.for %j = 0 to {n} {{
      %s, %t = loop.reduce {{arith.addf, arith.addf}} %q = 0 to {k} : f32, f32 {{
        %a = loop.load %x[%i, %q] : memref<{m}x{k}xbf16>
        %af = arith.extf %a : bf16 to f32
        %b = loop.load %g[%j, %q] : memref<{n}x{k}xbf16>
        %bf = arith.extf %b : bf16 to f32
        %p = arith.mulf %af, %bf : f32
        %c = loop.load %u[%j, %q] : memref<{n}x{k}xbf16>
        %cf = arith.extf %c : bf16 to f32
        %r = arith.mulf %af, %cf : f32
        loop.yield %p, %r : f32, f32
      }}
      %y = arith.mulf %s, %t : f32
      loop.store %y, %out[%i, %j] : memref<{m}x{n}xf32>
    }}
  }}
  func.return
}}
"""


def gated(m: int, n: int, k: int, target: str = "sm_90") -> ModuleOp:
    """The product of two products of x[m, k], with g[n, k] and u[n, k]."""
    module = Parser(new_context(), GATED.format(m=m, n=n, k=k)).parse_module()
    set_target(module, target)
    return module


def test_two_products_share_the_registers_of_one_tile() -> None:
    """Both take half the columns, so that a step multiplies and copies as much as that of one product."""
    assert chosen(linear(4096, 4096, 4096))["blockify-launch"] == {"m": 128, "n": 256, "occupancy": 1, "raster": 16}
    schedule = chosen(gated(4096, 2048, 4096))
    assert schedule["blockify-launch"] == {"m": 128, "n": 128, "occupancy": 1, "raster": 16}
    assert schedule["tensor-tile"] == {"engine": "wgmma", "m": 64, "n": 128}
    assert schedule["pipeline-k-outer"] == PRODUCER


def problem_of(module: ModuleOp) -> TensorProblem:
    (function,) = kernels(module)
    found = contraction(loop_nest(function.body.block))
    assert found is not None
    row, _ = narrow_factors(found, MMA)
    sides = extent_or_one(found.m[-1]), extent_or_one(found.n[-1])
    return TensorProblem.of(found, row, sides, CHUNKS[0] // 2, target_of(module))


def grid(module: ModuleOp) -> TensorGrid:
    return best_grid(tensor_grids(problem_of(module), True))


@pytest.mark.parametrize("m", [64, 128, 512, 2048])
@pytest.mark.parametrize(("n", "k"), [(5632, 2048), (18944, 3584)])
def test_two_products_of_one_kernel_end_no_later_than_two_kernels(m: int, n: int, k: int) -> None:
    """So gates and what they let through are joined: the launch and the bytes between them are saved."""
    assert grid(gated(m, n, k)).time <= 2 * TOLERANCE * grid(linear(m, n, k)).time


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("m", "n", "k"), [(40, 24, 40), (130, 72, 200), (5, 40, 300)])
def test_two_products_of_one_loop_compute_the_same(m: int, n: int, k: int, target: str) -> None:
    module = gated(m, n, k, target)
    lower(module, new_context(), Level.KERNEL)
    rng = np.random.default_rng(m)
    x, g, u = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n, n))
    result = simulate(module, [x, g, u], entry="run_k")
    assert not result.findings
    wide = x.astype(np.float64)
    wanted = (wide @ g.astype(np.float64).T) * (wide @ u.astype(np.float64).T)
    np.testing.assert_allclose(result.outputs[0], wanted, rtol=1e-4, atol=1e-3)


SCORES = """
func.func @k(%q: memref<28x512x128xbf16>, %k: memref<28x512x128xbf16>, %out: memref<28x512x512xf32>) {
  loop.for %h = 0 to 28 {
    loop.for %i = 0 to 512 {
      loop.for %j = 0 to 512 {
        loop.where %j < %i floordiv 128 * 128 + 128
        %acc = loop.reduce {arith.addf} %d = 0 to 128 : f32 {
          %a = loop.load %q[%h, %i, %d] : memref<28x512x128xbf16>
          %af = arith.extf %a : bf16 to f32
          %b = loop.load %k[%h, %j, %d] : memref<28x512x128xbf16>
          %bf = arith.extf %b : bf16 to f32
          %p = arith.mulf %af, %bf : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%h, %i, %j] : memref<28x512x512xf32>
      }
    }
  }
  func.return
}
"""


def test_a_mask_leaves_out_whole_tiles() -> None:
    """So its condition is that of a CTA; a producer would have to know it, too."""
    module = Parser(new_context(), SCORES).parse_module()
    set_target(module, "h200")
    rules = chosen(module)
    assert MASK_STEP % int(rules["blockify-launch"]["m"]) == MASK_STEP % int(rules["blockify-launch"]["n"]) == 0
    assert rules["pipeline-k-outer"] != PRODUCER
    lower(module, new_context(), Level.KERNEL)
