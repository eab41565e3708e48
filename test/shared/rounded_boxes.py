"""A kernel that rounds numbers to TF32, as the tensor memory accelerator and as a thread does, and numbers to round."""

import numpy as np

MAP = "!kernel.tensor_map<memref<8x32xf32>, box [8, 32], tf32>"
SLAB = "memref<8x32xf32, #tile.memory<shared>>"
ROUNDED = f"""
kernel.func @k(%map: {MAP}, %x: memref<8x32xf32>, %boxes: memref<8x32xf32>, %threads: memref<8x32xf32>)
  blocks(%block = 1) threads(%thread = 32) {{
  %s = kernel.alloc : {SLAB}
  %full = kernel.mbarrier 1 arrivals 1
  kernel.fence_proxy_async
  kernel.barrier
  loop.guard where (%thread < 1) {{
    kernel.arrive %full[0] expect 1024
    kernel.tma_load %map[0, 0] to %s[0, 0] signal %full[0] : {MAP} to {SLAB}
  }}
  kernel.wait_phase %full[0], 0
  loop.for %i = 0 to 8 {{
    %v = loop.load %s[%i, %thread] : {SLAB}
    loop.store %v, %boxes[%i, %thread] : memref<8x32xf32>
    %w = loop.load %x[%i, %thread] : memref<8x32xf32>
    %r = math_ext.round_tf32 %w : f32
    loop.store %r, %threads[%i, %thread] : memref<8x32xf32>
  }}
}}
func.func @main(%x: memref<8x32xf32>) -> (memref<8x32xf32>, memref<8x32xf32>) {{
  %boxes = memref.alloc() : memref<8x32xf32>
  %threads = memref.alloc() : memref<8x32xf32>
  %map = kernel.tensor_map %x : {MAP}
  kernel.launch @k(%map, %x, %boxes, %threads) : {MAP}, memref<8x32xf32>, memref<8x32xf32>, memref<8x32xf32>
  func.return %boxes, %threads : memref<8x32xf32>, memref<8x32xf32>
}}"""

_TIES = [0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001, 0x3F802FFF, 0x3F803001, 0x3FFFF000, 0x00801000, 0x00803000]
_LARGEST = [0x7F7FFFFF, 0x7F7FF000, 0x7F7FEFFF, 0x7F7FE000, 0x7F7FD000]
_SUBNORMAL = [0x00000000, 0x00000001, 0x00001000, 0x00001001, 0x00003000, 0x007FF000, 0x007FFFFF]
_SPECIAL = [0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x7FC01000]
CHOSEN = np.array([*_TIES, *_LARGEST, *_SUBNORMAL, *_SPECIAL], np.uint32)
"""The bits of numbers between two of TF32, some in the middle, of the largest and the smallest, of infinity and NaN."""


def numbers() -> np.ndarray:
    """8 x 32 numbers: the chosen ones with both signs, and random ones."""
    drawn = np.random.default_rng(0).integers(0, 0x7F000000, 256, np.uint32)
    drawn[: 2 * len(CHOSEN)] = [*CHOSEN, *(CHOSEN | 1 << 31)]
    return drawn.view(np.float32).reshape(8, 32)
