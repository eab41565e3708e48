"""Which tiles products of FP32 in parts have, that their launches start early, and that what is chosen computes it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.shape.nest import kernels
from deplodock.dialects.engines import MMA, WGMMA
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context, set_target
from deplodock.schedule.choose.few_rows import MOST_SPLIT
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.choose.sizes import PRODUCER
from deplodock.schedule.steps import Options

STORED = """
func.func @k_low(%x: memref<{m}x{k}xf32>, %out: memref<{m}x{k}xf32>) {{
  loop.for %i = 0 to {m} {{
    loop.for %q = 0 to {k} {{
      %a = loop.load %x[%i, %q] : memref<{m}x{k}xf32>
      %low = math_ext.low_part %a : f32
      loop.store %low, %out[%i, %q] : memref<{m}x{k}xf32>
    }}
  }}
  func.return
}}
func.func @main(%x: memref<{m}x{k}xf32>, %w: memref<{n}x{k}xf32>) -> memref<{m}x{n}xf32> {{
  %low = memref.alloc() : memref<{m}x{k}xf32>
  func.call @k_low(%x, %low) : (memref<{m}x{k}xf32>, memref<{m}x{k}xf32>) -> ()
  %out = memref.alloc() : memref<{m}x{n}xf32>
  func.call @k(%x, %low, %w, %out)
    : (memref<{m}x{k}xf32>, memref<{m}x{k}xf32>, memref<{n}x{k}xf32>, memref<{m}x{n}xf32>) -> ()
  func.return %out : memref<{m}x{n}xf32>
}}
"""
PRODUCT = """
func.func @k(%x: memref<{m}x{k}xf32>, {argument}%w: memref<{n}x{k}xf32>, %out: memref<{m}x{n}xf32>) {{
  loop.for %i = 0 to {m} {{
    loop.for %j = 0 to {n} {{
      %acc = loop.reduce {{arith.addf}} %q = 0 to {k} : f32 {{
        %a = loop.load %x[%i, %q] : memref<{m}x{k}xf32>
        {known}
        %b = loop.load %w[%j, %q] : memref<{n}x{k}xf32>
        %p = arith.mulf %{left}, %b {{deplodock.precision = "high"}} : f32
        loop.yield %p : f32
      }}
      loop.store %acc, %out[%i, %j] : memref<{m}x{n}xf32>
    }}
  }}
  func.return
}}
"""
KNOWN = """%al = loop.load %low[%i, %q] : memref<{m}x{k}xf32>
        %both = math_ext.with_low_part %a, %al : f32"""


def program(m: int, n: int, k: int, *, is_stored: bool = True, target: str = "h200") -> ModuleOp:
    """A product of x[m, k] and w[n, k], of whose left factor a kernel stores the low part, or none does."""
    sizes = {"m": m, "n": n, "k": k}
    argument = f"%low: memref<{m}x{k}xf32>, " if is_stored else ""
    known, left = (KNOWN.format(**sizes), "both") if is_stored else ("", "a")
    product = PRODUCT.format(**sizes, argument=argument, known=known, left=left)
    text = (STORED.format(**sizes) if is_stored else "") + product
    module = FloatLiteralsParser(new_context(), text).parse_module()
    set_target(module, target)
    return module


def chosen(module: ModuleOp, name: str = "k") -> dict[str, Options]:
    """The schedule of a kernel: options by rule."""
    (function,) = (one for one in kernels(module) if isinstance(one, func.FuncOp) and one.sym_name.data == name)
    return {step.rule: step.options for step in choose(function)}


@pytest.mark.parametrize(("m", "n", "k"), [(32, 3584, 3584), (128, 2048, 2048), (512, 256, 2048), (2048, 3584, 3584)])
def test_launches_of_parts_start_early(m: int, n: int, k: int) -> None:
    """The low part, the product of warpgroups, and the launch that adds parts of k."""
    module = program(m, n, k)
    product = chosen(module)
    assert product["tensor-tile"]["engine"] == WGMMA
    assert product["pipeline-k-outer"] == {"distance": PRODUCER}
    assert product.get("split-matmul-k", {"over": "block"})["over"] == "block"
    assert "start-early" in product
    assert "start-early" in chosen(module, "k_low")


def test_nothing_starts_early_before_hopper() -> None:
    module = program(512, 256, 2048, target="sm_80")
    assert "start-early" not in {**chosen(module), **chosen(module, "k_low")}


def test_rows_that_fill_an_instruction_have_narrow_tiles() -> None:
    """As many CTAs on an SM as shared memory holds: 64 columns of the weights by 32 rows."""
    tile = chosen(program(32, 18944, 3584))["blockify-launch"]
    assert (tile["m"], tile["n"], tile["occupancy"]) == (32, 64, 3)


@pytest.mark.parametrize(
    ("m", "n", "k", "rows", "waves"), [(512, 5632, 2048, 176, 1), (2048, 3584, 3584, 152, 3), (700, 2304, 768, 104, 1)]
)
def test_columns_of_an_instruction_along_m_fill_waves(m: int, n: int, k: int, rows: int, waves: int) -> None:
    """The columns run along the stored factor, here x, and are as many as leave all waves of a CTA an SM full."""
    tile = chosen(program(m, n, k))["blockify-launch"]
    assert (tile["m"], tile["n"]) == (rows, 128)
    assert 0.95 < -(-m // rows) * -(-n // 128) / (132 * waves) <= 1


@pytest.mark.parametrize(("m", "n"), [(32, 18944), (24, 3584), (8, 3584)])
def test_warps_keep_both_parts_of_few_rows_in_registers(m: int, n: int) -> None:
    tile = chosen(program(m, n, 3584, is_stored=False))["tensor-tile"]
    assert tile["engine"] == MMA
    assert m * int(tile["n"]) <= MOST_SPLIT


@pytest.mark.parametrize(("m", "n", "k"), [(32, 64, 128), (40, 80, 64), (32, 128, 512)])
def test_what_is_chosen_has_the_error_of_fp32(m: int, n: int, k: int) -> None:
    module = program(m, n, k)
    lower(module, new_context(), Level.KERNEL)
    assert "kernel.wgmma " in str(module)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal((rows, k)).astype(np.float32) for rows in (m, n))
    simulation = simulate(module, [x, w])
    assert not simulation.findings
    right = x.astype(np.float64) @ w.astype(np.float64).T
    assert np.linalg.norm(simulation.outputs[0] - right) <= 1e-6 * np.linalg.norm(right)


@pytest.mark.parametrize(
    ("m", "n", "k", "expected"),
    [
        (2048, 2048, 2048, {"m": 256, "n": 64, "rows": "n"}),
        (1024, 1024, 1024, {"m": 128, "n": 64, "rows": "n"}),
        (16, 3584, 3584, {"m": 16, "n": 64, "rows": "n"}),
        (2048, 2047, 2048, {}),
    ],
)
def test_warpgroups_hold_a_weight_of_tf32_that_lies_along_the_output(m: int, n: int, k: int, expected: Options) -> None:
    """So its columns are the rows of the instruction; rows that no box takes are left to warps."""
    rows = f"memref<{k}x{n}xf32>"
    text = PRODUCT.format(m=m, n=n, k=k, argument="", known="", left="a")
    text = text.replace(f"memref<{n}x{k}xf32>", rows).replace("%w[%j, %q]", "%w[%q, %j]").replace("high", "medium")
    module = FloatLiteralsParser(new_context(), text).parse_module()
    set_target(module, "h200")
    tile = dict(chosen(module)["tensor-tile"])
    engine = tile.pop("engine")
    assert (engine, tile) == (WGMMA, expected) if expected else engine == MMA


def test_rings_of_warps_fit_with_their_padding() -> None:
    """Warps pad the rows of their slabs, in clusters, too: what is chosen fits into shared memory."""
    lower(program(300, 1000, 777, is_stored=False), new_context(), Level.KERNEL)
