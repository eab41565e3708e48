"""Products with a residual and an activation, as IR text: what follows a contraction must run once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
