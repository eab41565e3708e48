"""Random legal schedules: options of the rules for contractions and for other kernels, and the orders that rules allow.

Tiles are small, so that small shapes have ragged tiles, several steps of k, and rings that go round.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import ArgSpec, ParameterListType

from deplodock.analysis.shape.nest import kernels, nests
from deplodock.analysis.shape.roles import contraction
from deplodock.passes.options import Kind
from deplodock.passes.pipeline import RULES
from deplodock.passes.tile.async_copy import AsyncCopyPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.passes.tile.chunk_matmul_k import ChunkMatmulKPass
from deplodock.passes.tile.chunk_reduce import ChunkReducePass
from deplodock.passes.tile.cooperative_reduce import CooperativeReducePass, Lanes
from deplodock.passes.tile.double_buffer import DoubleBufferPass
from deplodock.passes.tile.mark_unroll import MarkUnrollPass
from deplodock.passes.tile.pad_smem import PadSmemPass
from deplodock.passes.tile.permute_register_tile import PermuteRegisterTilePass
from deplodock.passes.tile.pipeline_k_outer import PipelineKOuterPass
from deplodock.passes.tile.register_tile import RegisterTilePass
from deplodock.passes.tile.rule import Rule
from deplodock.passes.tile.split_inner_for_swizzle import SplitInnerForSwizzlePass
from deplodock.passes.tile.split_matmul_k import SplitMatmulKPass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.passes.tile.tma_copy import TmaCopyPass
from deplodock.schedule.steps import Schedule

CONTRACTION, OTHER = "contraction", "other"
"""The classes of kernels."""

NEEDED = ("cooperative-reduce", "blockify-launch", "register-tile", "double-buffer", "pipeline-k-outer")
"""The rules that are never left out of those drawn."""


LISTED: tuple[type[Rule], ...] = (
    *(AsyncCopyPass, BlockifyLaunchPass, ChunkMatmulKPass, ChunkReducePass, CooperativeReducePass, DoubleBufferPass),
    *(MarkUnrollPass, PadSmemPass, PermuteRegisterTilePass, PipelineKOuterPass, RegisterTilePass),
    *(SplitInnerForSwizzlePass, SplitMatmulKPass, StageInputsPass, TileifyPass, TmaCopyPass),
)
"""The rules whose options are drawn for small shapes, all of them together."""


LANES: tuple[Lanes, ...] = ("row", "row", "row", "free")
"""How often neighbouring threads share a row."""


def contraction_rules(draw: random.Random) -> list[Rule]:
    """Random options of the rules for contractions."""
    m, n = draw.choice([1, 2, 2, 3, 4, 8]), draw.choice([1, 2, 2, 4, 5])
    rows, columns = draw.choice(
        [(16, 16), (32, 32), (8, 24)] if m * n < 4 else [(64, 32), (32, 64), (24, 40), (32, 16)]
    )
    vec = draw.choice([v for v in (1, 2, 4, 8) if m % v == n % v == 0] or [4])
    placements = [None, "blocked", "strided", "strips", "strips"]
    kv = draw.choice([1, 1, 2, 4])
    return [
        ChunkMatmulKPass(bk=kv * draw.choice([1, 2, 3, 4, 8]), kv=kv),
        *(
            [SplitMatmulKPass(s=draw.choice([2, 3, 5]), over=draw.choice(["block", "ticket", "cluster"]))]
            if draw.random() < 0.4
            else []
        ),
        BlockifyLaunchPass(m=rows, n=columns, occupancy=2, raster=draw.choice([1, 1, 2, 4])),
        StageInputsPass(
            memory=draw.choice(["auto", "shared"]), transpose=draw.choice(["auto", "never", "m", "n", "auto"])
        ),
        RegisterTilePass(m=m, n=n),
        PermuteRegisterTilePass(
            m=draw.choice(placements),
            n=draw.choice(placements),
            vec=vec,
            lanes=draw.choice([None, None, None, "nm", "mn", "n", "nmnnm"]),
        ),
        MarkUnrollPass(limit=draw.choice([20, 200, 1100])),
        DoubleBufferPass(depth=draw.choice([2, 3, 3, 4, 4, 4])),
        *([TmaCopyPass(bytes=16)] if draw.random() < 0.8 else []),
        SplitInnerForSwizzlePass(span=draw.choice([None, 32, 32, 64])),
        AsyncCopyPass(bytes=4),
        PadSmemPass(pad=draw.choice([None, 1, 4])),
        PipelineKOuterPass(distance=draw.choice([1, 1, 2]), barrier=draw.choice(["cta", "mbarrier", "mbarrier"])),
    ]


def reduction_rules(draw: random.Random) -> list[Rule]:
    """Random options of the rules for other kernels."""
    cooperative = CooperativeReducePass(
        threads=draw.choice([1, 2, 3, 8, 16, 24, 32, 64, 96]),
        vector=draw.choice([1, 1, 2, 3, 4]),
        keep=draw.choice(["loops", "axes"]),
        lanes=draw.choice(LANES),
    )
    return [
        *([cooperative] if draw.random() < 0.4 else []),
        BlockifyLaunchPass(threads=draw.choice([1, 3, 8, 16, 32, 64, 100, 256])),
        ChunkReducePass(size=draw.choice([1, 2, 4, 5, 8, 16])),
        StageInputsPass(memory=draw.choice(["auto", "shared", "shared", "register"])),
        RegisterTilePass(vector=draw.choice([2, 4])),
        MarkUnrollPass(limit=draw.choice([20, 200, 1100])),
        DoubleBufferPass(depth=draw.choice([2, 3, 4, 4])),
        *([TmaCopyPass(bytes=16)] if draw.random() < 0.8 else []),
        SplitInnerForSwizzlePass(span=draw.choice([None, 32, 32, 64])),
        AsyncCopyPass(bytes=4),
        PadSmemPass(pad=draw.choice([None, 1, 4])),
        PipelineKOuterPass(distance=draw.choice([1, 1, 2]), barrier=draw.choice(["cta", "mbarrier", "mbarrier"])),
    ]


def further_rules(draw: random.Random, kind: Kind) -> list[Rule]:
    """The rules that are not listed here, with options that their domains say are worth a draw."""
    rules = [cls for stage in RULES if issubclass(cls := stage.load(), Rule) and cls not in LISTED]
    return [cls.from_spec(ArgSpec(cls.name, _drawn(draw, cls, kind))) for cls in rules]


def _drawn(draw: random.Random, cls: type[Rule], kind: Kind) -> dict[str, ParameterListType]:
    suited = [option for option in cls.options().values() if option.kind in (None, kind) and option.domain.tried]
    return {option.name: (draw.choice(option.domain.tried),) for option in suited}


def legal_order(draw: random.Random, rules: Sequence[Rule]) -> list[Rule]:
    """Rules in a random legal order after tileify; some that are not needed are left out."""
    drawn = [rule for rule in rules if rule.name in NEEDED or draw.random() < 0.93]
    draw.shuffle(drawn)
    ordered: list[Rule] = []
    while drawn:
        names = {rule.name for rule in drawn}
        free = next(rule for rule in drawn if not names & set(rule.after))
        drawn.remove(free)
        ordered.append(free)
    return [TileifyPass(), *ordered]


def draw_schedules(draw: random.Random) -> dict[str, Schedule]:
    """A random schedule for the kernels of each class."""
    contraction = [*contraction_rules(draw), *further_rules(draw, Kind.CONTRACTION)]
    other = [*reduction_rules(draw), *further_rules(draw, Kind.OTHER)]
    return {CONTRACTION: _schedule(draw, contraction), OTHER: _schedule(draw, other)}


def class_of(function: func.FuncOp) -> str:
    """The class of a kernel: the rules have other options for contractions than for all others."""
    return OTHER if all(contraction(nest) is None for nest in nests(function)) else CONTRACTION


def write_schedules(module: ModuleOp, schedules: Mapping[str, Schedule]) -> None:
    """Write the schedule of its class on each kernel of a module at loop level, completed as `choose-schedule` does."""
    for function in kernels(module):
        write_schedule(function, schedules[class_of(function)])


def _schedule(draw: random.Random, rules: Sequence[Rule]) -> Schedule:
    kept = [rule for rule in rules if rule.name in NEEDED or draw.random() < 0.93]
    return {"tileify": {}, **{rule.name: _options(rule) for rule in kept}}


def _options(rule: Rule) -> dict[str, int | str]:
    """The options that a rule is given."""
    spec = rule.pipeline_pass_spec()
    return {name: value for name, (value,) in spec.parameters.items() if isinstance(value, int | str)}
