"""The sizes that schedules start from: threads of a CTA, values of a thread, slabs of a ring. All are choices.

A thread has so many steps of its loops in flight that memory moves at its rate while loads wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import subscripts_of
from deplodock.analysis.machine.targets import REGISTER_BYTES
from deplodock.analysis.shape.nest import Nest, scans_along
from deplodock.analysis.shape.roles import row_chain
from deplodock.dialects import loop, tile
from deplodock.schedule.steps import Options

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


def steps_in_flight(nest: Nest, shared: int = 1, width: int = 1) -> int:
    """The steps of its loops that a thread runs at once, so that their loads take `IN_FLIGHT` bytes; 0: one by one.

    A step of a loop is for `shared` of its elements, of which a thread has `width`, or as many outputs. It is 1 where
    the loops are short enough to be unrolled whole, and 0 where no reduction is in the nest or one that a scan runs
    along, whose steps wait for each other.
    """
    chains = [row_chain(op) for op in nest.row_loops()]
    if not nest.reductions() or any(scans_along(op.iv) for chain in chains for op in chain):
        return 0
    return min(filter(None, (_steps(chain[-1], shared, width) for chain in chains)), default=1)


def cta_rules(threads: int, steps: int, vector: int = 1) -> Mapping[str, Options]:
    """The rules of a CTA of so many threads, each with steps of its loops in flight and neighbouring outputs."""
    schedule: dict[str, Options] = {"blockify-launch": {"threads": threads}}
    if steps > 1:
        schedule["chunk-reduce"] = {"size": steps}
    schedule["stage-inputs"] = {}
    if vector > 1:
        schedule["register-tile"] = {"vector": vector}
    if steps:
        schedule["mark-unroll"] = {}
    return schedule


def is_read_again(nest: Nest) -> bool:
    """Whether several loops over a row read the same buffer, as a softmax does."""
    read = [
        {op.source for op in each.body.walk() if isinstance(op, loop.LoadOp) and _moves(op, each)}
        for each in nest.row_loops()
    ]
    return sum(map(len, read)) > len(set[SSAValue]().union(*read))


def holds_row(nest: Nest, shared: int = 1, width: int = 1) -> bool:
    """Whether a thread has its share of each loop's elements in registers at once: the loops are unrolled whole."""
    return all(_steps(row_chain(op)[-1], shared, width) is None for op in nest.row_loops())


def _moves(load: loop.LoadOp, row: loop.LoopLike) -> bool:
    """Whether a load reads another element in each step of a loop over a row."""
    return any(form.depends_on(row.iv) for form in subscripts_of(load))


def _steps(op: loop.LoopLike, shared: int, width: int) -> int | None:
    """The steps of a loop whose loads take `IN_FLIGHT` bytes, a power of two; None where it has hardly more."""
    if op.trips is None:
        return None
    loads = [one for one in op.body.walk() if isinstance(one, loop.LoadOp) and tile.memory_of(one.source) is None]
    moving = [load for load in loads if _moves(load, op)]
    step = sum(width * element_bytes(loop.memref_of(load.source).element_type) for load in moving)
    trips = -(-op.trips // shared)
    size = 1 << max(IN_FLIGHT // max(step, 1), 1).bit_length() - 1
    return size if trips * step > max(4 * IN_FLIGHT, ROW_VALUES * REGISTER_BYTES) else None
