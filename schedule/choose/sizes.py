"""The sizes that schedules start from: threads of a CTA, values of a thread, slabs of a ring. All are choices."""

from __future__ import annotations

CTA_THREADS = 256
"""Threads of a CTA: 8 warps hide latency and leave every GPU several CTAs per SM."""

THREAD_VALUES = 8
"""4-byte values of a row for each thread, two accesses of 16 bytes, while more threads are to be had."""

IN_FLIGHT = 32
"""Bytes that a thread of a longer loop loads at once: 2,048 threads have 64 KB in flight then, and 1,024 the 32 KB that
the latency of DRAM, 0.9 us under load, asks of an SM at 4.8 TB/s. Measured on an H200 on the sum of 8192 rows of 4096:
33 us, 120 with one load at a time."""

NEAR = 4
"""Words between the elements that neighbouring threads read of windows, from which on they go through shared memory."""

ROW_VALUES = 32
"""The most 4-byte values of a row that a thread keeps in registers."""

WINDOW_VALUES = 64
"""The most 4-byte values of overlapping windows that a thread keeps in registers, beside the outputs that it folds."""

WINDOW_ROWS = (1, 2, 4, 8)
"""For how many rows of neighbouring outputs with overlapping windows a thread may compute them."""

WINDOW_OUTPUTS = 16
"""The most outputs with overlapping windows of a thread."""

CONTRACTION_TILE = 16
"""The tile of a contraction's output, m and n, before register tiling."""

PIPELINE_DEPTH = 3
"""Slabs of a reduction that are in shared memory at once: one read, one landed, one on its way."""

CELLS = 4
"""Outputs along m and n that one thread of a contraction computes."""

THREADS = "threads"
"""The engine of threads: scalar products."""

CHAIN = 32
"""Elements of k whose products tensor cores add up by themselves, of FP32 factors in parts: on an H100 sums of U[0,1)
over 3584 then have an error of 2.6e-7, without it 3.9e-5, as their sums are rounded toward zero."""

WARP_TILE = 64
"""Rows and columns of the output that the tensor cores of a warp compute: 128 accumulators of a lane."""

READS = 8
"""Accesses of 16 bytes that a lane has in flight for the rows of an instruction, where those come from global memory:
a warp has 4 KB in flight then, and 16 warps the 64 KB of an SM that the latency of DRAM asks for at 4.8 TB/s."""

PRODUCER = "producer"
"""The distance of pipeline-k-outer at which a warpgroup of its own copies."""

VECTOR = 4
"""Neighbouring outputs of a thread in other kernels: f32 moves 16 bytes at once. Narrow elements are moved 8 or 16 at
once, where the grid fills the GPU still."""

LOOP_BODY = 1100
"""The most instructions of an unrolled loop; above about 17 KB the instruction cache starves (measured on an H100)."""

STREAM_LANES = 16
"""Threads that share a row of a streaming reduction of products, and rows that they compute side by side: 256 of a CTA,
in which a row's threads are half a warp."""

STREAM_ROWS = 64
"""Rows of the output that a CTA of a streaming reduction of products computes."""

STREAM_WARP = 16
"""Rows that the tensor cores of a warp compute of it."""

STREAM_KEYS = 32
"""Elements of the row in a step of it."""

RASTER = 16
"""Row tiles that follow each other: the 264 tiles that an H100 runs at once are then as many columns as rows.

Measured there on 2048x3584x3584 in four parts, it saves 9 percent; grids that run at once do not change.
"""
