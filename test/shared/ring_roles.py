"""A kernel whose ring has a producer, lowered from a tile program and printed; tests plant mistakes in its text."""

from __future__ import annotations

from functools import cache

from xdsl.parser import Parser

from deplodock.passes.driver import Level, lower, new_context

X = "memref<3x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>"
W = "memref<3x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>"

TILE = f"""
func.func @k(%x: memref<128x448xbf16>, %w: memref<64x448xbf16>, %out: memref<128x64xf32>) {{
  tile.launch (%m_w = 2 : thread, %m_q = 4 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %n_j = 8 : register,
               %m_h = 2 : register, %n_r = 2 : register, %k_e = 64 : engine, %n_e = 64 : engine) {{
    %m_c = loop.index [%m_w * 64 + %m_q * 16 + %m_h * 8 + %m_g]
    %n_c = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
    %ring = tile.ring 3 mbarrier producer
    %xs = tile.alloc : {X}
    %ws = tile.alloc : {W}
    %acc = loop.reduce {{arith.addf}} %ko = 0 to 7 : f32 {{
      tile.copy %x[d0, %ko * 64 + d1] to %xs at %ring[%ko] tma : memref<128x448xbf16> to {X}
      tile.copy %w[d0, %ko * 64 + d1] to %ws at %ring[%ko] tma : memref<64x448xbf16> to {W}
      tile.wait %ring[%ko]
      %a = loop.load %xs[%ko mod 3, %m_c, %k_e] : {X}
      %b = loop.load %ws[%ko mod 3, %n_e, %k_e] : {W}
      %c = tile.contract wgmma %a * %b over (%k_e) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
      tile.release %ring[%ko]
      loop.yield %c : f32
    }}
    loop.store %acc, %out[%m_c, %n_c] : memref<128x64xf32>
  }}
  func.return
}}
"""
"""`out = x @ w.T` of 128x448 and 64x448 bf16 by one CTA: seven steps on a ring of three."""

WAIT_EMPTY = "kernel.wait_phase %empty[%ko mod 3], (%ko floordiv 3 + 1) mod 2"
WAIT_FULL = "kernel.wait_phase %full[%ko_1 mod 3], %ko_1 floordiv 3 mod 2"
EXPECT = "kernel.arrive %full[%ko mod 3] expect 24576"
WAIT_PRODUCTS = "kernel.wgmma_wait 0"
RELEASE = "kernel.arrive warp %empty[%ko_1 mod 3]"


@cache
def printed() -> str:
    """The text of the kernel and of its host function, in which a step still waits for its own products."""
    context, texts = new_context(), dict[str, str]()
    module = Parser(context, TILE).parse_module()
    lower(module, context, Level.KERNEL, observer=lambda run, made: texts.update({run.stage.name: str(made)}))
    return texts["merge-products"]


def planted(*changes: tuple[str, str]) -> str:
    """The text with pieces of it exchanged, each of which must be there."""
    text = printed()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def swapped() -> str:
    """The text with the consumers first, so that they have the first threads."""
    head, _, rest = printed().partition("      kernel.role producer")
    producer, _, consumers = rest.partition("      kernel.role consumers")
    end = consumers.rindex("    }\n  }")
    return f"{head}      kernel.role consumers{consumers[:end]}      kernel.role producer{producer}{consumers[end:]}"
