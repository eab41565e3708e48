"""A kernel of products of warpgroups, as IR text, in which tests plant mistakes."""

from __future__ import annotations

X = "memref<3x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>"
W = "memref<3x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>"
SUMS = "memref<8x2x2xf32, #tile.memory<register>>"
X_MAP = "!kernel.tensor_map<memref<256x384xbf16>, box [128, 64], swizzle 128>"
W_MAP = "!kernel.tensor_map<memref<128x384xbf16>, box [64, 64], swizzle 128>"
OUT = "memref<256x128xf32>"


def _copies(step: str, slot: str) -> str:
    return f"""loop.guard where (%thread < 1) {{
          kernel.arrive %full[{slot}] expect 24576
          kernel.tma_load %x[%m * 128, ({step}) * 64] to %xs[{slot}, 0, 0] signal %full[{slot}] : {X_MAP} to {X}
          kernel.tma_load %w[%n * 64, ({step}) * 64] to %ws[{slot}, 0, 0] signal %full[{slot}] : {W_MAP} to {W}
        }}"""


RING = f"""
kernel.func @k(%x: {X_MAP}, %w: {W_MAP}, %out: {OUT}) blocks(%block = 4) threads(%thread = 256) {{
  %m = loop.index [%block floordiv 2]
  %n = loop.index [%block mod 2]
  %full = kernel.mbarrier 3 arrivals 1
  kernel.fence_proxy_async
  %empty = kernel.mbarrier 3 arrivals 8
  %xs = kernel.alloc : {X}
  %ws = kernel.alloc : {W}
  %sums = kernel.alloc : {SUMS}
  kernel.barrier
  loop.for %p = 0 to 2 unroll {{
    {_copies("%p", "%p")}
  }}
  %zero = arith.constant 0.0 : f32
  loop.for %j = 0 to 8 unroll {{
    loop.for %h = 0 to 2 unroll {{
      loop.for %r = 0 to 2 unroll {{
        loop.store %zero, %sums[%j, %h, %r] : {SUMS}
      }}
    }}
  }}
  loop.for %k = 0 to 6 {{
    loop.guard where (%k < 4) {{
      kernel.wait_phase %empty[(%k + 2) mod 3], ((%k + 2) floordiv 3 + 1) mod 2
      {_copies("%k + 2", "(%k + 2) mod 3")}
    }}
    kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2
    kernel.wgmma_fence
    loop.for %s = 0 to 4 unroll {{
      kernel.wgmma m64n64k16 %xs[%k mod 3, %thread floordiv 128 * 64 + d0, %s * 16 + d1]
        * %ws[%k mod 3, d0, %s * 16 + d1] into %sums[0, 0, 0] : {X} * {W} into {SUMS}
    }}
    kernel.wgmma_commit
    kernel.wgmma_wait 0
    kernel.arrive warp %empty[%k mod 3]
  }}
  // The sums are read from here on.
  loop.for %j = 0 to 8 unroll {{
    loop.for %h = 0 to 2 unroll {{
      loop.for %r = 0 to 2 unroll {{
        %v = loop.load %sums[%j, %h, %r] : {SUMS}
        loop.store %v, %out[%m * 128 + %thread floordiv 32 * 16 + %thread mod 32 floordiv 4 + %h * 8,
          %n * 64 + %thread mod 4 * 2 + %j * 8 + %r] : {OUT}
      }}
    }}
  }}
}}
func.func @main(%x: memref<256x384xbf16>, %w: memref<128x384xbf16>, %out: {OUT}) {{
  %x_map = kernel.tensor_map %x : {X_MAP}
  %w_map = kernel.tensor_map %w : {W_MAP}
  kernel.launch @k(%x_map, %w_map, %out) : {X_MAP}, {W_MAP}, {OUT}
  func.return
}}
"""
"""`out = x @ w.T` of 256x384 and 128x384 bf16: two warpgroups of a CTA multiply [64, 64] tiles, of a ring of 3."""


def planted(*changes: tuple[str, str]) -> str:
    """The kernel with pieces of its text exchanged, each of which must be there."""
    text = RING
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


HELD = "memref<2x2x2xbf16, #tile.memory<register>>"


def _held_ring() -> str:
    """The ring with a read of left factors, and a group for each product."""
    read = f"""
      loop.for %j = 0 to 2 unroll {{
        loop.for %h = 0 to 2 unroll {{
          loop.for %r = 0 to 2 unroll {{
            %a = loop.load %xs[%k mod 3, %thread floordiv 32 * 16 + %thread mod 32 floordiv 4 + %h * 8,
              %s * 16 + %j * 8 + %thread mod 4 * 2 + %r] : {X}
            loop.store %a, %held[%j, %h, %r] : {HELD}
          }}
        }}
      }}
      kernel.wgmma_fence
"""
    factor = "%xs[%k mod 3, %thread floordiv 128 * 64 + d0, %s * 16 + d1]"
    return planted(
        ("    kernel.wgmma_fence\n", ""),
        (f"      kernel.wgmma m64n64k16 {factor}", f"{read}      kernel.wgmma m64n64k16 %held[0, 0, 0]"),
        (f"into %sums[0, 0, 0] : {X}", f"into %sums[0, 0, 0] : {HELD}"),
        (f"into {SUMS}\n", f"into {SUMS}\n      kernel.wgmma_commit\n      kernel.wgmma_wait 0\n"),
        ("    }\n    kernel.wgmma_commit\n    kernel.wgmma_wait 0\n", "    }\n"),
        ("  %sums = kernel.alloc", f"  %held = kernel.alloc : {HELD}\n  %sums = kernel.alloc"),
    )


HELD_RING = _held_ring()
"""The same, whose left factors threads read from their tiles to registers first."""
