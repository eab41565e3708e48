"""Products with a residual and an activation, as IR text: what follows a contraction must run once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context

GATED = """
func.func @k(%x: memref<20x77xf32>, %g: memref<24x77xf32>, %u: memref<24x77xf32>, %out: memref<20x24xf32>) {
  loop.for %m = 0 to 20 {
    loop.for %n = 0 to 24 {
      %s, %t = loop.reduce {arith.addf, arith.addf} %k = 0 to 77 : f32, f32 {
        %a = loop.load %x[%m, %k] : memref<20x77xf32>
        %b = loop.load %g[%n, %k] : memref<24x77xf32>
        %p = arith.mulf %a, %b : f32
        %c = loop.load %u[%n, %k] : memref<24x77xf32>
        %q = arith.mulf %a, %c : f32
        loop.yield %p, %q : f32, f32
      }
      %y = arith.subf %s, %t : f32
      loop.store %y, %out[%m, %n] : memref<20x24xf32>
    }
  }
  func.return
}
"""
"""Two products in one loop: out[m, n] = x[m, k] . g[n, k] - x[m, k] . u[n, k]."""


@dataclass(frozen=True)
class ResidualProduct:
    """out[b, m, n] = max(x[b, m, k] . w[n, k] + r[b, m, n], 0)."""

    batch: int
    m: int
    n: int
    k: int

    def text(self) -> str:
        x, w, out = (f"memref<{shape}xf32>" for shape in (self._x, f"{self.n}x{self.k}", self._out))
        return f"""
        func.func @k(%x: {x}, %w: {w}, %r: {out}, %out: {out}) {{
          loop.for %b = 0 to {self.batch} {{
            loop.for %m = 0 to {self.m} {{
              loop.for %n = 0 to {self.n} {{
                %acc = loop.reduce {{arith.addf}} %k = 0 to {self.k} : f32 {{
                  %u = loop.load %x[%b, %m, %k] : {x}
                  %v = loop.load %w[%n, %k] : {w}
                  %p = arith.mulf %u, %v : f32
                  loop.yield %p : f32
                }}
                %zero = arith.constant 0.0 : f32
                %s = loop.load %r[%b, %m, %n] : {out}
                %y = arith.addf %acc, %s : f32
                %o = arith.maximumf %y, %zero : f32
                loop.store %o, %out[%b, %m, %n] : {out}
              }}
            }}
          }}
          func.return
        }}"""

    @property
    def _x(self) -> str:
        return f"{self.batch}x{self.m}x{self.k}"

    @property
    def _out(self) -> str:
        return f"{self.batch}x{self.m}x{self.n}"

    def draw(self, *, integers: bool) -> list[np.ndarray]:
        generator = np.random.default_rng(0)
        shapes = ((self.batch, self.m, self.k), (self.n, self.k), (self.batch, self.m, self.n))
        if integers:
            return [generator.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]

    def scheduled(self, schedule: str) -> ModuleOp:
        """The product at kernel level."""
        return _scheduled(self.text(), schedule).clone()

    def check(self, module: ModuleOp, order: int) -> None:
        """Small integers are exact, so an epilogue that runs twice, or a part that is missing, shows."""
        x, w, r = self.draw(integers=True)
        result = simulate(module, [x, w, r], order=order)
        assert not result.findings, result.findings[0]
        np.testing.assert_array_equal(result.outputs[0], np.maximum(x @ w.T + r, 0))

    def check_bits(self, module: ModuleOp, orders: int) -> None:
        """The same bits in any order of CTAs."""
        x, w, r = self.draw(integers=False)
        outputs = [simulate(module, [x, w, r], order=order).outputs[0] for order in range(orders)]
        expected = np.maximum(x.astype(np.float64) @ w.T.astype(np.float64) + r, 0)
        np.testing.assert_allclose(outputs[0], expected, rtol=1e-4, atol=1e-4)
        for other in outputs[1:]:
            assert np.array_equal(outputs[0].view(np.int32), other.view(np.int32))


def check_two_products(schedule: str) -> None:
    """Each sum has parts of its own, of small integers that add exactly; the epilogue has both."""
    generator = np.random.default_rng(0)
    x, g, u = (generator.integers(-3, 4, (rows, 77)).astype(np.float32) for rows in (20, 24, 24))
    result = simulate(_scheduled(GATED, schedule), [x, g, u], order=1)
    assert not result.findings, result.findings[0]
    np.testing.assert_array_equal(result.outputs[0], x @ g.T - x @ u.T)


@cache
def _scheduled(text: str, schedule: str) -> ModuleOp:
    """A text at kernel level; nobody changes it."""
    context = new_context()
    module = Parser(context, text).parse_module()
    lower(module, context, Level.KERNEL, target="sm_90", schedule=schedule)
    return module
