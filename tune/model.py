"""The time of a contraction of scalar products by any schedule, not only by those that the heuristics weigh.

It is that of the tiling (`schedule/choose/tiling.py`), whose tiles have a measured rate. Here the rate of a tile
follows from what a schedule says of it:

* a thread with c_m x c_n outputs reads c_m + c_n elements for c_m * c_n products, so its rate grows with their
  quotient;
* a step over a chunk costs as much as some elements of k besides those of the chunk;
* fewer warps on an SM hide less;
* a step takes no less than its copies, over the steps that they run ahead; where they do not, it waits for all of them.

The constants are fitted to tables of times (`tune/fit.py`). The model is there to order schedules: it is off by a tenth
or two, where those differ by a factor of two and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.cost import GridConstants
from deplodock.analysis.machine.resources import occupancy
from deplodock.analysis.machine.targets import RESERVED, target_of
from deplodock.analysis.shape.nest import kernels, side_by_side
from deplodock.analysis.shape.roles import contraction
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.contraction import PAD
from deplodock.schedule.choose.few_rows import COPY_SHARE
from deplodock.schedule.choose.tiling import CHUNK, TILES, CtaTile, Problem, Tiling
from deplodock.schedule.steps import Options, Schedule
from deplodock.tune.task import Task, module_of

ADDRESSES = 40
"""Registers of a thread besides its outputs and the elements that it reads (read off the code for sm_90)."""

FULL_WARPS = 16
"""Warps of an SM from which on more hide nothing more."""

FEW_WARPS = 8
"""Warps of an SM, two for each scheduler, below which products wait for each other."""

SLABLESS = 3.0
"""How much longer a tile takes that reads its factors from global memory: on an H200 1047 us instead of 298 for 512 x
3584 x 3584, and 102 instead of 25 for 333 x 1000 x 777."""

SPILL = 2.0
"""How much longer a tile takes whose registers do not fit, at least: no such schedule was among the best quarter."""

TIGHT = 1.14
"""How much longer steps take whose slots are released by phases, and filled again in the next step: on an H200 512 x
3584 x 3584 takes 333 us in a ring of two such slots, 292 in one of three."""

_WIDEST = TILES[0]
"""The tile that all rates are shares of."""


@dataclass(frozen=True)
class Constants(GridConstants):
    """What the model is fitted by: the constants of grids, and those of what a schedule may change.

    They are fitted to 1,470 schedules of `F.linear` with 512 and 32 rows on an H200 (docs/tuning.md), for the rates of
    this model; the heuristics' own stay with the rates of theirs.
    """

    peak_share: float = 0.824
    idle_loss: float = 0.469
    tail_loss: float = 0.435
    start_ns: float = 4010.0
    last_cta_rate: float = 54.4
    second_launch_ns: float = 3250.0
    reuse: float = 0.453
    """The power with which the rate grows with the products for each element read."""
    warps: float = 0.15
    """The power with which it grows with the warps of an SM, up to `FULL_WARPS`."""
    few: float = 0.2
    """The power with which it grows besides up to `FEW_WARPS`."""
    step_elements: float = 0.647
    """What a step takes besides its products, in elements of k."""
    copy_ns: float = 688.0
    """The time from the start of a step's copies to their end."""


def model_of(task: Task, constants: Constants | None = None) -> Callable[[Schedule], float] | None:
    """The nanoseconds of schedules of a task; None if it is no contraction that stands alone.

    The times of schedules for tensor cores mean nothing, and the model gives none for them: they are infinite.
    """
    module, _ = module_of(task)
    (function,) = kernels(module)
    several = side_by_side(function)
    found = contraction(several[0]) if len(several) == 1 else None
    if found is None:
        return None
    target = target_of(module)
    problem = Problem.of(found, element_bytes(found.reduction.results[0].type), target)
    if problem.steps is None:
        return None
    constants = constants or Constants()
    grid = GridConstants(**{field.name: getattr(constants, field.name) for field in fields(GridConstants)})
    return _Model(replace(problem, rates=replace(problem.rates, grid=grid)), target, constants).time


@dataclass(frozen=True)
class _Model:
    problem: Problem
    target: TargetAttr
    constants: Constants

    def time(self, schedule: Schedule) -> float:
        """Nanoseconds of the launches."""
        options = _Options(schedule)
        rules = options.rules
        if "tensor-tile" in rules:
            return math.inf
        tile = self._tile(options, "tma-copy" in rules)
        if tile is None:
            return math.inf
        problem = self._chunked(options.number("chunk-matmul-k", "bk", CHUNK))
        over = str(options.of("split-matmul-k").get("over", "block"))
        parts = options.number("split-matmul-k", "s", 1)
        if "stream-matmul-k" in rules and problem.shares(tile) is not None:
            parts, over = 1, "stream"
        time = max(problem.time(Tiling(tile, parts, over)), self._reading())
        ctas = parts * problem.batch * -(-problem.m // tile.m) * -(-problem.n // tile.n)
        waves = -(-ctas // (problem.rates.sms * tile.occupancy))
        copies = waves * -(-(problem.steps or 1) // parts) * self.constants.copy_ns
        if not {"chunk-matmul-k", "stage-inputs"} <= rules:
            time *= SLABLESS
        if "stream-matmul-k" in rules:
            all_ctas = min(ctas, problem.rates.sms * tile.occupancy)
            time *= max(1, all_ctas / options.number("stream-matmul-k", "ctas", all_ctas))
        ahead = _steps_ahead(options, tile)
        return max(time, copies / ahead) if ahead else time + copies

    def _tile(self, options: _Options, is_boxed: bool) -> CtaTile | None:
        """The tile of a schedule with the rate that the model gives it; None if its threads are too many."""
        m, n = options.number("blockify-launch", "m", 16), options.number("blockify-launch", "n", 16)
        m, n = min(m, self.problem.m), min(n, self.problem.n)
        has_cells = bool(options.of("register-tile"))
        cells_m = min(options.number("register-tile", "m", 4) if has_cells else 1, m)
        cells_n = min(options.number("register-tile", "n", 4) if has_cells else 1, n)
        threads = -(-m // cells_m) * -(-n // cells_n)
        if threads > self.target.fact("threads_per_block"):
            return None
        chunk, depth = options.number("chunk-matmul-k", "bk", CHUNK), options.number("double-buffer", "depth", 1)
        products = self.problem.products
        registers = products * cells_m * cells_n + cells_m + products * cells_n + ADDRESSES
        shared = depth * chunk * (m + n + 2 * PAD) * self.problem.size * products
        most = self.target.fact("registers_per_thread")
        resident = occupancy(self.target, threads, min(registers, most), shared + RESERVED).ctas
        if not resident:
            return None
        resident = min(resident, options.number("blockify-launch", "occupancy", resident))
        rate = self._rate(cells_m, cells_n, chunk, resident * threads // 32)
        rate /= SPILL if registers > most else 1
        has_phases = options.of("pipeline-k-outer").get("barrier") == "mbarrier"
        rate /= TIGHT if has_phases and _ahead(options, depth) > depth - 2 else 1
        return CtaTile(m, n, cells_m, cells_n, resident, depth, max(rate, 0.01), is_boxed)

    def _rate(self, cells_m: int, cells_n: int, chunk: int, warps: int) -> float:
        """The rate of the CTAs of an SM."""
        constants = self.constants
        reuse = _reuse(cells_m, cells_n) / _reuse(_WIDEST.cells_m, _WIDEST.cells_n)
        steps = (1 + constants.step_elements / CHUNK) / (1 + constants.step_elements / chunk)
        warps = max(warps, 1)
        busy = min(1, warps / FULL_WARPS) ** constants.warps * min(1, warps / FEW_WARPS) ** constants.few
        return reuse**constants.reuse * busy * steps

    def _chunked(self, chunk: int) -> Problem:
        """The problem in steps of so many elements of k."""
        k = (self.problem.steps or 1) * self.problem.chunk
        return replace(self.problem, chunk=chunk, steps=-(-k // chunk))

    def _reading(self) -> float:
        """Nanoseconds in which the factors come from memory, each once."""
        problem = self.problem
        k = (problem.steps or 1) * problem.chunk
        elements = (problem.m + problem.n * problem.products) * problem.batch * k
        return problem.rates.moving_ns(elements * problem.size) / COPY_SHARE


class _Options:
    """The options of a schedule by rule, for all launches."""

    def __init__(self, schedule: Schedule) -> None:
        self.rules = {step.rule for step in schedule}
        self._options = {step.rule: step.options for step in schedule if step.target is None}

    def of(self, rule: str) -> Options:
        return self._options.get(rule, {})

    def number(self, rule: str, name: str, default: int) -> int:
        """An option that is a number, or a default where it is not given."""
        value = self.of(rule).get(name, default)
        return value if isinstance(value, int) else default


def _steps_ahead(options: _Options, tile: CtaTile) -> int:
    """How many steps copies run ahead; none without pipeline-k-outer, and for boxes without phases, which it skips."""
    is_named = "pipeline-k-outer" in options.rules
    is_skipped = tile.is_boxed and options.of("pipeline-k-outer").get("barrier") == "cta"
    return _ahead(options, tile.depth) if is_named and not is_skipped else 0


def _ahead(options: _Options, depth: int) -> int:
    """How many steps copies run ahead in a ring of so many slots, as the schedule says it."""
    distance = options.of("pipeline-k-outer").get("distance")
    return distance if isinstance(distance, int) else depth - 1


def _reuse(m: int, n: int) -> float:
    """Products for each element that a thread of m x n outputs reads."""
    return m * n / (m + n)
