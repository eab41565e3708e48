"""The schedule of a kernel: which rules to apply with which options, as text and as chosen by heuristics.

A schedule is a pass pipeline, `tileify,cooperative-reduce{threads=256 vector=4},stage-inputs`, kept on the kernel
function in `deplodock.schedule`. There is one heuristic for each class of kernel; the rules hold none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, VerifyException

from deplodock.analysis.access.alignment import address, aligned_width, element_bytes
from deplodock.analysis.affine.linear import Linear, extent_of, extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import WARP, target_at, target_of
from deplodock.analysis.shape.dependence import varying_bound, wheres
from deplodock.analysis.shape.footprint import shared_footprint
from deplodock.analysis.shape.nest import Nest, nests, side_by_side
from deplodock.analysis.shape.roles import contraction, row_chain
from deplodock.dialects import loop, tile
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.contraction import contraction_options

ATTRIBUTE = "deplodock.schedule"

LEFT_OUT = "the kernel's schedule leaves it out"
"""Why a rule skips a kernel whose schedule does not name it."""

Options = Mapping[str, int | str]
Schedule = Mapping[str, Options]

CTA_THREADS = 256
"""Threads of a CTA: 8 warps hide latency and leave every GPU several CTAs per SM."""

THREAD_VALUES = 8
"""Values of a row for each thread, two 16-byte accesses of f32, while more threads are to be had."""

COLUMN_LOADS = 8
"""Rows of a column that a thread loads at once: with CTAs of 1,024 threads on 132 SMs, 4 MB in flight, above the 2 MB
that the latency of DRAM asks for at 3 TB/s. Measured on an H200 on the sum of 8192 rows of 4096: 33 us, 120 without."""

ROW_VALUES = 32
"""The most 4-byte values of a row that a thread keeps in registers."""

CONTRACTION_TILE = 16
"""The tile of a contraction's output, m and n, before register tiling."""

PIPELINE_DEPTH = 3
"""Slabs of a reduction that are in shared memory at once: one read, one landed, one on its way."""

CELLS = 4
"""Outputs along m and n that one thread of a contraction computes."""

VECTOR = 4
"""Neighbouring outputs of a thread in other kernels: f32 moves 16 bytes at once."""

LOOP_BODY = 1100
"""The most instructions of an unrolled loop; above about 17 KB the instruction cache starves (measured on an H100)."""


def schedule_of(function: func.FuncOp) -> Schedule:
    """The schedule on a kernel function, or the one the heuristics choose.

    Raises VerifyException if the attribute is malformed.
    """
    attribute = function.attributes.get(ATTRIBUTE)
    if attribute is None:
        return choose(function)
    if not isinstance(attribute, StringAttr):
        raise VerifyException(f"{ATTRIBUTE} must be a string that holds a pass pipeline, got {attribute}")
    return parse_schedule(attribute.data)


@lru_cache(maxsize=64)
def parse_schedule(text: str) -> Schedule:
    """Read a pass pipeline of rules with scalar options. Raises VerifyException with the text where it is malformed."""
    schedule: dict[str, dict[str, int | str]] = {}
    try:
        specs = [spec.normalize_parameter_names() for spec in parse_pipeline(text)]
    except ArgSpecParseError as error:
        raise VerifyException(f"malformed schedule {text!r}: {error}") from error
    for spec in specs:
        options: dict[str, int | str] = {}
        for name, values in spec.parameters.items():
            if len(values) != 1 or not isinstance(values[0], int | str):
                raise VerifyException(f"schedule {text!r}: the option {name} of {spec.name} takes one integer or word")
            options[name] = values[0]
        if spec.name in schedule:
            raise VerifyException(f"schedule {text!r} names {spec.name} twice")
        schedule[spec.name] = options
    return schedule


def format_schedule(schedule: Schedule) -> str:
    """The schedule as a pass pipeline."""
    return ",".join(
        name + ("{" + " ".join(f"{key}={value}" for key, value in options.items()) + "}" if options else "")
        for name, options in schedule.items()
    )


def completed(given: Options, chosen: Options) -> Options:
    """The given options of a rule, with those that they leave out as chosen.

    But for the occupancy: how many CTAs fit on an SM depends on all rules together.
    """
    merged = {**chosen, **given}
    return {name: value for name, value in merged.items() if name != "occupancy" or name in given}


def choose(function: func.FuncOp, given: Schedule | None = None) -> Schedule:
    """The heuristic schedule of a kernel at loop level or just after tileify, as far as it suits one given in part."""
    several = side_by_side(function)
    for nest in several:
        if (found := contraction(nest)) is not None:
            schedule = contraction_options(found, target_at(function), given is None or "register-tile" in given)
            split = schedule.get("split-matmul-k", {})
            if given is not None:
                split = {**split, **given["split-matmul-k"]} if "split-matmul-k" in given else {}
            is_mixed = len(several) > 1 or split.get("over") == "block"
            return _with_others(schedule, nest, target_at(function).fact("sms")) if is_mixed else schedule
    nest, *_ = nests(function)
    if (rows := _row_options(nest, target_at(function))) is not None:
        return {
            "tileify": {},
            "cooperative-reduce": rows,
            **_cta(max(CTA_THREADS, int(rows["threads"]) * int(rows.get("outer", 1)))),
        }
    if (columns := _column_options(nest, target_at(function).fact("sms"))) is not None:
        return _column_schedule(nest, columns)
    if (vector := _free_width(nest, target_at(function).fact("sms"))) > 1:
        return {"tileify": {}, **_cta(CTA_THREADS * vector), "register-tile": {"vector": vector}}
    return {"tileify": {}, **_cta(CTA_THREADS)}


def reduce_chunk(launch: tile.LaunchOp, reduction: loop.ReduceOp) -> int | None:
    """The most iterations of a reduction, a power of two, whose slabs fit in the shared memory of a CTA.

    All iterations where they fit together, or where nothing is known to be read; None where its bound is not constant.
    """
    module = launch.get_toplevel_object()
    if reduction.trips is None or not isinstance(module, ModuleOp):
        return None
    inside = [axis for axis in launch.axes if axis not in launch.ctas]
    per_iteration = 0
    for load in reduction.body.walk():
        if isinstance(load, loop.LoadOp) and tile.memory_of(load.source) is None:
            slab = shared_footprint(load, [reduction.iv, *inside])
            size = element_bytes(loop.memref_of(load.source).element_type)
            per_iteration += 0 if slab is None else -(-slab.elements * size // max(reduction.trips, 1))
    budget = target_of(module).fact("shared_per_block")
    if per_iteration * reduction.trips <= budget:
        return reduction.trips
    return 1 << max(budget // per_iteration, 1).bit_length() - 1


def _cta(threads: int) -> Schedule:
    return {"blockify-launch": {"threads": threads}, "stage-inputs": {}}


def _with_others(schedule: Schedule, nest: Nest, sms: int) -> Schedule:
    """The schedule of a contraction, with what other launches take, such as the one that adds its parts."""
    outputs = known_points(nest.axes)
    is_wide = (extent_of(nest.axes[-1]) or 1) % VECTOR == 0 and outputs >= sms * CTA_THREADS * VECTOR
    vector = VECTOR if is_wide and "register-tile" in schedule else 1
    added: Schedule = {"blockify-launch": {"threads": CTA_THREADS * vector}, "register-tile": {"vector": vector}}
    return {rule: {**options, **added.get(rule, {})} for rule, options in schedule.items()}


def _row_options(nest: Nest, target: TargetAttr) -> dict[str, int | str] | None:
    """Threads and vector for a kernel that reduces rows along contiguous memory, or None if it does not.

    The threads are a power of two from one warp, which reduces without shared memory, to `CTA_THREADS`, so that each
    has about `THREAD_VALUES` values; more only where each would hold over `ROW_VALUES`. Masked rows get the fewest
    threads that can hold one, so that they skip more steps of which the mask leaves nothing. Where a row has
    several loops, the innermost walks memory, and the threads that it leaves of a CTA share the outermost.
    """
    chains = [row_chain(op) for op in nest.reductions()]
    if not chains or any(op.trips is None for chain in chains for op in chain):
        return None
    extent = max(chain[-1].trips or 0 for chain in chains)
    outer = max(chain[0].trips or 0 if len(chain) > 1 else 1 for chain in chains)
    if extent * outer < WARP or not all(_walks_memory(chain[-1]) for chain in chains):
        return None
    vector = min(_row_width(row_chain(op)[-1]) for op in nest.row_loops() if op.trips is not None)
    threads, most = WARP, target.fact("threads_per_block")
    values = ROW_VALUES if any(wheres(op.body.block) for chain in chains for op in chain) else THREAD_VALUES
    while threads < most and extent > threads * (values if threads < CTA_THREADS else ROW_VALUES):
        threads *= 2
    options: dict[str, int | str] = {"threads": threads, "vector": vector}
    if outer == 1:
        return options
    threads = min(threads, _power_above(-(-extent // vector)))
    limit = CTA_THREADS if nest.axes else most
    shared = max(1, min(limit // threads, _power_above(outer)))
    return options | {"threads": threads} | ({"outer": shared} if shared > 1 else {})


def _power_above(count: int) -> int:
    """The least power of two that is not below a positive count."""
    return 1 << (count - 1).bit_length()


def _column_options(nest: Nest, sms: int) -> dict[str, int | str] | None:
    """Threads for each column of a kernel that reduces along strided memory, or None if one will do.

    Neighbouring threads stay on neighbouring columns; each column gets the power of two that gives every SM two CTAs,
    while a thread keeps at least `THREAD_VALUES` elements.
    """
    extents = [op.trips for op in nest.reductions()]
    if not extents or not nest.axes or any(extent is None for extent in extents):
        return None
    outputs = known_points(nest.axes)
    threads = 1
    while threads < WARP and outputs * threads < 2 * sms * CTA_THREADS:
        if min(extent or 0 for extent in extents) < 2 * threads * THREAD_VALUES:
            break
        threads *= 2
    return {"threads": threads, "lanes": "free"} if threads > 1 else None


def _column_schedule(nest: Nest, columns: dict[str, int | str]) -> Schedule:
    """A warp on neighbouring columns, and the loads of `COLUMN_LOADS` rows in flight in each thread at once."""
    threads = int(columns["threads"])
    schedule: Schedule = {
        "tileify": {},
        "cooperative-reduce": columns,
        "blockify-launch": {"threads": max(CTA_THREADS, WARP * threads)},
    }
    if all((op.trips or 0) > COLUMN_LOADS * threads for op in nest.reductions()):
        return schedule | {"chunk-reduce": {"size": COLUMN_LOADS}, "stage-inputs": {}, "mark-unroll": {}}
    return schedule | {"stage-inputs": {}}


def _free_width(nest: Nest, sms: int) -> int:
    """The widest access that suits all accesses of a nest along its last free axis.

    It is 1 where the nest has loops and too few outputs to fill the GPU with a thread for every `VECTOR` of them.
    """
    if not nest.axes:
        return 1
    axis = nest.axes[-1]
    outputs = known_points(nest.axes)
    if nest.row_loops() and outputs < sms * CTA_THREADS * VECTOR:
        return 1
    widths = [VECTOR]
    for op in nest.body.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            buffer = op.source if isinstance(op, loop.LoadOp) else op.destination
            forms = subscripts_of(op)
            if any(form.depends_on(axis) for form in forms):
                widths.append(aligned_width(loop.memref_of(buffer), forms, axis, extent_or_one(axis)))
    return min(widths)


def _accesses(op: loop.LoopLike) -> list[tuple[MemRefType[Attribute], Sequence[Linear]]]:
    """The buffers' types and the subscripts of the accesses in a loop's body that depend on its variable."""
    found: list[tuple[MemRefType[Attribute], Sequence[Linear]]] = []
    for inner in op.body.walk():
        if isinstance(inner, loop.LoadOp | loop.StoreOp):
            buffer = inner.source if isinstance(inner, loop.LoadOp) else inner.destination
            forms = subscripts_of(inner)
            if any(form.depends_on(op.iv) for form in forms):
                found.append((loop.memref_of(buffer), forms))
    return found


def _walks_memory(op: loop.LoopLike) -> bool:
    """Whether a loop's accesses step through contiguous memory, or it has none."""
    return all(address(type, forms).coefficient(op.iv) == 1 for type, forms in _accesses(op))


def _row_width(op: loop.LoopLike) -> int:
    """The widest access that suits all accesses of a loop along its variable; 1 where an inner bound depends on it."""
    if varying_bound(op) is not None:
        return 1
    widths = [4]
    for type, forms in _accesses(op):
        widths.append(aligned_width(type, forms, op.iv, op.trips or 1))
    return min(widths)
