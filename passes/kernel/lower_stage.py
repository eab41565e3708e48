"""Moves of slabs: a thread fills its register slab, in unrolled loops.

Elements of the source outside the buffer become zero. Consecutive elements move together where both sides are
contiguous and aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from deplodock.analysis.access.slabs import Slab, slab_of, stand_in
from deplodock.analysis.affine.linear import Linear, coarsened_condition, implied_condition, value_range
from deplodock.dialects import kernel, loop, tile
from deplodock.passes.kernel.builder import Condition, ThreadBuilder, in_shape
from deplodock.passes.kernel.emit import Emitter


def lower_stage(emitter: Emitter, op: tile.StageOp) -> None:
    """Emit the allocation of a register slab and the moves that fill it."""
    buffer = emitter.alloc(loop.memref_of(op.slab), op.slab.name_hint)
    emitter.values[op.slab] = buffer
    outer = emitter.block
    _fill_registers(emitter, replace(slab_of(op), source=emitter.value(op.source), destination=buffer))
    emitter.block = outer


def _fill_registers(emitter: Emitter, slab: Slab) -> None:
    """One thread copies its slab in unrolled loops over the slab's coordinates."""
    coordinates: list[Linear] = []
    width = 1
    for dim, extent in enumerate(slab.shape):
        if dim == len(slab.shape) - 1:
            width = slab.width_along(dim)
        trips = extent // width
        name = f"d{dim}"
        coordinates.append(Linear.of(emitter.enter_loop(trips, name), width) if trips > 1 else Linear())
    move_slab(emitter, slab, coordinates, width)


def move_slab(
    builder: ThreadBuilder,
    slab: Slab,
    coordinates: Sequence[Linear],
    width: int,
    is_async: bool = False,
    place: Callable[[Linear], Linear] = lambda form: form,
) -> None:
    """Copy `width` elements to these slab coordinates, zeros where they lie outside; `place` places the forms."""
    subscripts = slab.subscripts(coordinates)
    outside = [
        place(form) for form in (*_outside(slab, subscripts), *map(coarsened_condition, slab.conditions(coordinates)))
    ]
    guard = builder.condition_map(outside) if outside else None
    read = (slab.source, *builder.map([place(form) for form in subscripts]))
    written = (slab.destination, *builder.map([place(form) for form in (*slab.at, *coordinates)]))
    builder.run(kernel.MoveOp(width, read, written, guard, is_async))


def _outside(slab: Slab, subscripts: Sequence[Linear]) -> list[Condition]:
    """When subscripts lie inside the source, less what always holds for elements of the slab, under its facts."""
    reach = slab.subscripts([Linear.of(stand_in(extent)) for extent in slab.shape])
    for root, other in _narrowed(slab.facts):
        reach = [form.substitute(root, Linear.of(other)) for form in reach]
    return in_shape(slab.type, subscripts, reach)


def _narrowed(facts: Sequence[Condition]) -> list[tuple[SSAValue, SSAValue]]:
    """Roots that some condition implies to be below a limit, each with a root of the values that are left."""
    found: list[tuple[SSAValue, SSAValue]] = []
    for fact in facts:
        for root, coefficient in fact.terms:
            if not isinstance(root, SSAValue) or coefficient < 1:
                continue
            alone = implied_condition(fact, set(fact.roots()) - {root})
            if alone is None or len(alone.terms) != 1:
                continue
            bounds, limit = value_range(root), (-alone.constant - 1) // coefficient + 1
            if bounds is not None and bounds[0] == 0 and 0 < limit <= bounds[1]:
                found.append((root, stand_in(limit)))
    return found
