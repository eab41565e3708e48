"""The longest chain of additions, where one loop has several sums."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from deplodock.analysis.shape.roundings import longest_reduction
from deplodock.passes.driver import new_context

CONTRACTS = """
func.func @k(%x: memref<16x32xbf16>, %g: memref<8x32xbf16>, %u: memref<8x32xbf16>, %out: memref<16x8xf32>) {{
  tile.launch (%m_g = 8 : thread, %n_t = 4 : thread, %m_h = 2 : register, %n_r = 2 : register, %k_v = 8 : register,
               %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {{
    %n = loop.index [%n_t * 2 + %n_r]
    %m = loop.index [%m_h * 8 + %m_g]
    %k = loop.index [%k_t * 8 + %k_v]
    %s, %t = loop.reduce {{arith.addf, arith.addf}} %i = 0 to 3 : f32, f32 {{
      %a = loop.load %x[%m, %k] : memref<16x32xbf16>
      %b = loop.load %g[%n_g, %k] : memref<8x32xbf16>
      %d = loop.load %u[%n_g, %k] : memref<8x32xbf16>
      %p = tile.contract mma {first} over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
      %q = tile.contract mma {second} over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %p, %q : f32, f32
    }}
    %y = arith.mulf %s, %t : f32
    loop.store %y, %out[%m, %n] : memref<16x8xf32>
  }}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "longest"),
    [("%a * %b", "%a * %d", 96), ("%a * %b", "%a * %d + %a * %b", 192), ("%a * %b + %a * %d", "%a * %d", 192)],
)
def test_contracts_of_one_loop_add_side_by_side(first: str, second: str, longest: int) -> None:
    """Each adds its products to a sum of its own: the longest chain counts, not their sum."""
    module = Parser(new_context(), CONTRACTS.format(first=first, second=second)).parse_module()
    assert longest_reduction(module) == longest
