"""How many steps of its loops a thread has in flight, so that memory moves at its rate while loads wait."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import subscripts_of
from deplodock.analysis.machine.targets import REGISTER_BYTES
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import row_chain
from deplodock.analysis.shape.scans import scans_along
from deplodock.dialects import loop, tile
from deplodock.schedule.choose.sizes import IN_FLIGHT, ROW_VALUES
from deplodock.schedule.steps import Options


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
