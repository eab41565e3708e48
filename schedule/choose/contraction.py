"""The heuristic schedule of a contraction: its CTA tile, the cells of a thread, and the ring of slabs along k."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_of, known_points, subscripts_of
from deplodock.analysis.machine.targets import FIRST_TRY_WAIT, RESERVED, capability
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import Contraction, contraction, read_of, runs_through_windows
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.move import ASYNC_BYTES
from deplodock.dialects.loop import memref_of
from deplodock.schedule.choose.shared_sums import shared_sums
from deplodock.schedule.choose.sizes import CTA_THREADS, RASTER, VECTOR
from deplodock.schedule.choose.tensor_cores import tensor_alternatives, tensor_options
from deplodock.schedule.choose.tiling import (
    CHUNK,
    READ_ALONG_K,
    CtaTile,
    Tiling,
    best_tiling,
    chunk_of,
    elements_of_k,
    ends_together,
    needs_flattening,
    tilings,
)
from deplodock.schedule.steps import Options, Schedule, options_for_all

PAD = 4
"""Elements that pad-smem may add to a row of a slab."""

LATE_RELEASE_CELLS = 128
"""The least outputs of a thread whose steps are long beside the waits for phases."""

STORING_ELEMENTS = 256
"""The most elements of k for which stores matter, so that pairs of columns are swapped where threads can. Stores of 16
bytes save 5 percent of 28 products of 2048 x 2048 outputs and 128 elements of k, and 1.5 percent of 256 elements, but
the other registers cost 1 to 3 percent where k is 2048 or more (measured on an H200)."""

UNSWAPPED = (8, 8)
"""The rows and columns of a thread that are left in order: where pairs are swapped and k has two steps ptxas keeps
their sums twice (182 registers in place of 118, or spills; read off the code for sm_90)."""

HALVED_ROWS = 64
"""The fewest rows of a tile whose slabs hold half as much of k as tilings are weighed with, where k is in parts and
lies along both factors: their copies, of 4 bytes each, are issued at once, and products wait behind them. Chunks of 16
in place of 32 take on an H200 7 percent off 1000 x 1000 x 1000 (59.2 -> 55.2 us) and 128 x 3584 x 3584, 8 off 333 x
1000 x 777, 4 off 128 x 2048 x 5632 and nothing off 512 x 2048 x 5632. Where k is whole they cost 3 percent (2048 x 2048
x 5632), where columns lie along a factor 4 to 5 (squares of 1024 and 2048), and boxes lose 10."""

HALVED_ELEMENTS = 192
"""The least k of these: 64 products of 128 x 128 outputs and 64 of k take 7.3 us in place of 6.9."""

IDLE_SHARE = 0.08
"""The share of k's steps past its end from which on these run in groups of `READ_ALONG_K` elements, so that the last
chunk ends behind the last group: to ask in each group costs 0 to 4 percent. Measured on an H200: 16 products of 512 x
512 outputs and 100 elements of k in chunks of 32 take 25.6 us in place of 29.3 (a share of 0.22), a convolution of 200
channels 17.0 in place of 18.0 (0.11); 1000 x 1000 x 1000 takes 59.0 in place of 58.5 (0.02), and 333 x 1000 x 777 24.8
in place of 24.9 (0.03)."""

_TRANSPOSED: dict[tuple[str, ...], str] = {(): "auto", ("m",): "n", ("n",): "m", ("m", "n"): "never"}
"""The option of stage-inputs that leaves these operands as they lie in memory."""

LANES = "nmnnm"
"""8 columns and 4 rows of a warp, interleaved: 128-bit reads of both operands take the fewest wavefronts."""

STORING: dict[str, int | str] = {"lanes": "nm"}
"""16 columns and 2 rows of a warp, for products of few chunks of k whose outputs are stored 4 bytes at a time: fewer
rows take fewer sectors of L2. On an H200 24 products of 500 x 500 outputs and 64 elements of k take 33.2 us in place of
41.9, a 1 x 1 convolution of 200 channels 19.5 in place of 20.5; 16 products of 512 x 512 and 100 elements the same."""

STORING_TRANSPOSED: dict[str, int | str] = {"vec": 2, **STORING}
"""The same with 2 neighbouring columns of a thread, where the columns walk k in memory: 8 lanes fill a line of 64 bytes
in two stores. Those 24 products take 29.9 us, a transposed convolution to 40 channels 20.1 in place of 26.3; columns
that lie side by side in memory, which are copied 16 bytes at a time, lose by it (23.7 us in place of 22.8)."""


def contraction_rules(
    found: Contraction, nest: Nest, several: Sequence[Nest], target: TargetAttr, given: Schedule | None
) -> Mapping[str, Options]:
    """The rules of a contraction, on tensor cores where they take it, and of the launches beside it."""

    def takes(rule: str) -> bool:
        return given is None or any(step.rule == rule for step in given)

    is_alone = len(several) == 1
    rules = tensor_options(found, nest, target) if is_alone and takes("tensor-tile") else None
    if not rules and is_alone and takes("cooperative-reduce"):
        rules = shared_sums(found, target)
    if not rules:
        chunk = options_for_all(given or (), "chunk-matmul-k")
        bk = int(chunk["bk"]) if "bk" in chunk else None
        rules = contraction_options(found, target, takes("register-tile"), bk)
    split = {**rules.get("split-matmul-k", {}), **options_for_all(given or (), "split-matmul-k")}
    return _beside(rules, split if takes("split-matmul-k") else {}, nest, several, target)


def weighed_rules(
    found: Contraction, nest: Nest, several: Sequence[Nest], target: TargetAttr
) -> Iterator[tuple[Mapping[str, Options], float | None]]:
    """The rules that are weighed for a contraction of several nests, with the time that a model gives."""
    tensor = list(tensor_alternatives(found, nest, target)) if len(several) == 1 else []
    for rules, time in tensor or contraction_alternatives(found, target):
        yield _beside(rules, rules.get("split-matmul-k", {}), nest, several, target), time


def _beside(
    schedule: Mapping[str, Options], split: Options, nest: Nest, several: Sequence[Nest], target: TargetAttr
) -> Mapping[str, Options]:
    """The schedule of a contraction, with what other launches take, such as the one that adds its parts."""
    if split.get("over") != "block" and all(contraction(other) is not None for other in several):
        return schedule
    outputs = known_points(nest.axes)
    is_wide = (extent_of(nest.axes[-1]) or 1) % VECTOR == 0 and outputs >= target.fact("sms") * CTA_THREADS * VECTOR
    vector = VECTOR if is_wide and "register-tile" in schedule else 1
    added: Mapping[str, Options] = {
        "blockify-launch": {"threads": CTA_THREADS * vector},
        "register-tile": {"vector": vector},
    }
    return {rule: {**options, **added.get(rule, {})} for rule, options in schedule.items()}


def contraction_options(
    found: Contraction, target: TargetAttr, has_registers: bool = True, bk: int | None = None
) -> dict[str, dict[str, int | str]]:
    """The rules for a contraction and their options, those of a tile with one output a thread without register-tile.

    `bk` is the elements of a chunk of k, where a schedule gives them: the groups in a chunk suit that.

    The tile and the parts of k are those whose grid finishes first. A reduction of two chunks or more is a ring of
    slabs, as deep as its steps and shared memory allow at the tile's occupancy.
    """
    size = element_bytes(found.reduction.results[0].type)
    return _options(found, target, best_tiling(found, size, target, has_registers), bk)


def contraction_alternatives(
    found: Contraction, target: TargetAttr
) -> Iterator[tuple[dict[str, dict[str, int | str]], float]]:
    """The rules and options of all tilings that `contraction_options` chooses from, and the nanoseconds of each."""
    size = element_bytes(found.reduction.results[0].type)
    for tiling, time in tilings(found, size, target).items():
        yield _options(found, target, tiling), time


def _options(
    found: Contraction, target: TargetAttr, tiling: Tiling, bk: int | None = None
) -> dict[str, dict[str, int | str]]:
    """The rules of a tiling and their options."""
    size = element_bytes(found.reduction.results[0].type)
    tile = tiling.tile
    k = elements_of_k(found)
    if k is None:
        k = (found.reduction.trips or 1) * (chunk_of(found) if runs_through_windows(found) else 1)
    chunk = _chunk(found, tiling, k)
    steps = -(-k // chunk)
    occupancy, depth = _ring(tile, _most_ctas(found, tile, target), steps, chunk * size * len(found.products), target)
    kept = ("m", "n") if tile.is_boxed else _kept(found)
    rules: dict[str, dict[str, int | str]] = {"tileify": {}}
    if needs_flattening(found):
        rules["flatten-contraction"] = {}
    if steps > 1:
        rules["chunk-matmul-k"] = {"bk": chunk}
        if kept or _is_idle(k, chunk):
            # A schedule that gives other chunks says that these have no groups, so that its steps replay one by one.
            pays = _is_grouped(bk or chunk) and (kept or _is_idle(k, bk or chunk))
            rules["chunk-matmul-k"] |= {"kv": READ_ALONG_K if pays else 1}
    if tiling.parts > 1 and tiling.over != "stream":
        rules["split-matmul-k"] = {"s": tiling.parts, "over": tiling.over}
    rules["blockify-launch"] = {"m": tile.m, "n": tile.n, "occupancy": occupancy}
    if known_points(found.m) > tile.m:
        rules["blockify-launch"] |= {"raster": RASTER}
    is_short = tiling.parts == 1 and tiling.over != "stream" and "n" not in kept and k <= STORING_ELEMENTS
    swaps = is_short and _swaps(found, tile)
    rules["stage-inputs"] = {}
    if tile.cells_m * tile.cells_n > 1:
        places = {side: "strided" if side in kept else "strips" for side in ("m", "n")}
        rules["stage-inputs"] = {"transpose": _TRANSPOSED[kept]}
        rules["register-tile"] = {"m": tile.cells_m, "n": tile.cells_n}
        rules["permute-register-tile"] = {**places, **(_storing(found) if is_short and not swaps else {"lanes": LANES})}
    if depth > 1:
        boxes: dict[str, dict[str, int | str]] = {"tma-copy": {}, "split-inner-for-swizzle": {}}
        rules |= {"double-buffer": {"depth": depth}, **(boxes if tile.is_boxed else {})}
    rules["async-copy"] = {}
    rules["pad-smem"] = {}
    if swaps:
        rules["swap-pairs"] = {}
    if depth > 1:
        rules["pipeline-k-outer"] = (
            _pipeline(tile, depth, target) if ends_together(found, tile.m) else {"distance": depth - 1}
        )
    rules["mark-unroll"] = {}
    if tiling.over == "stream":
        rules["stream-matmul-k"] = {"ctas": target.fact("sms") * occupancy}
    return rules


def _is_idle(k: int, chunk: int) -> bool:
    """Whether so much of the last chunk lies past the end of k that groups of it pay."""
    return _is_grouped(chunk) and k < (1 - IDLE_SHARE) * -(-k // chunk) * chunk


def _is_grouped(chunk: int) -> bool:
    """Whether groups divide a chunk: those of whole windows, as of 5 x 5, may have any number of elements."""
    return chunk % READ_ALONG_K == 0


def _chunk(found: Contraction, tiling: Tiling, k: int) -> int:
    """The elements of k in a slab."""
    is_long = tiling.parts > 1 and tiling.tile.m >= HALVED_ROWS and k >= HALVED_ELEMENTS
    is_halved = is_long and {"m", "n"} <= {*_walking_k(found)}
    chunk = chunk_of(found)
    return chunk // 2 if is_halved and chunk == CHUNK else chunk


def _kept(found: Contraction) -> tuple[str, ...]:
    """The operands, m or n, that walk k in memory in elements too narrow for asynchronous copies that transpose."""
    return tuple(sorted(side for side, bytes in _walking_k(found).items() if not bytes <= {*ASYNC_BYTES}))


def _walking_k(found: Contraction) -> dict[str, set[int]]:
    """The operands, m or n, that walk k in memory, and the bytes of their elements."""
    dependence, walking = Dependence(), dict[str, set[int]]()
    for factor in found.operands:
        load = read_of(factor)
        if load is not None and subscripts_of(load)[-1].depends_on(found.innermost.iv):
            side = "m" if any(axis in found.m for axis in dependence.of(factor)) else "n"
            walking.setdefault(side, set()).add(element_bytes(memref_of(load.source).element_type))
    return walking


def _swaps(found: Contraction, tile: CtaTile) -> bool:
    """Whether pairs of columns are swapped in their slab, which is transposed."""
    return (tile.cells_m, tile.cells_n) not in (UNSWAPPED, (1, 1)) and "n" in _walking_k(found)


def _storing(found: Contraction) -> dict[str, int | str]:
    """The columns and lanes of threads that store their outputs one at a time."""
    return STORING_TRANSPOSED if "n" in _walking_k(found) else STORING


def _pipeline(tile: CtaTile, depth: int, target: TargetAttr) -> dict[str, int | str]:
    """How far copies run ahead, and what keeps the steps in order.

    Tiles with long steps release a slot one step late, by phases: warps that drift apart gain 10 percent over a barrier
    of the CTA in each step (measured on an H100, `try_wait`). Boxes complete phases in any case.
    """
    is_late = tile.is_boxed or tile.cells_m * tile.cells_n >= LATE_RELEASE_CELLS
    if depth > 2 and is_late and capability(target) >= FIRST_TRY_WAIT:
        return {"distance": depth - 2, "barrier": "mbarrier"}
    return {"distance": depth - 1}


def _most_ctas(found: Contraction, tile: CtaTile, target: TargetAttr) -> int:
    """The CTAs of a tile that an SM has threads for: a thread has no more rows than the innermost axis of rows has."""
    threads = 1
    for axes, size, cells in ((found.m, tile.m, tile.cells_m), (found.n, tile.n, tile.cells_n)):
        extents = [extent_of(axis) or size for axis in axes]
        own = cells if needs_flattening(found) else min([cells, *extents[-1:]])
        threads *= -(-min(size, math.prod(extents)) // own)
    return max(1, min(tile.occupancy, target.fact("threads_per_sm") // threads))


def _ring(tile: CtaTile, ctas: int, steps: int, column: int, target: TargetAttr) -> tuple[int, int]:
    """CTAs per SM, `ctas` at most, and slabs in flight: the most CTAs, then the most slabs, that shared memory holds.

    A row or a column of a slab has `column` bytes.
    """
    if steps == 1:
        return ctas, 1
    slab = (tile.m + tile.n + 2 * PAD) * column
    per_block, per_sm = target.fact("shared_per_block"), target.fact("shared_per_sm")
    for occupancy in range(ctas, 0, -1):
        for depth in range(min(tile.depth, steps), 1, -1):
            if depth * slab <= per_block and occupancy * (depth * slab + RESERVED) <= per_sm:
                return occupancy, depth
    return 1, 1
