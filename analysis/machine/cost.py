"""What kernels cost on a target, in nanoseconds: all models of time, with one set of rates.

The rates come from the facts of the module's target (`analysis/machine/targets.py`). There are two models:

* `Rates.kernel_ns`, of any kernel before it has a schedule: a launch, and the longest of its bytes, its instructions
  and its special functions. A kernel that does not fill the card has the lanes of the SMs that its CTAs occupy, and
  the bandwidth for which their loads wait (Little's law: what is in flight, by the time it takes to arrive). Fusion and
  split reductions compare by it.
* `Rates.grid_ns`, of CTAs that each compute a tile of a contraction: waves of CTAs, each at the rate of its tile and of
  the CTAs that share an SM. The tiling of a contraction is chosen by it.

Its constants (`GridConstants`) are fitted to a hundred schedules of `F.linear` with 32 to 2048 rows, measured on an
H100, where the root mean square of the errors is 5 percent; it is 11 percent on batches of short products, as in
attention.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation

from deplodock.analysis.machine.targets import L2_BYTES_PER_CYCLE, SPECIALS_PER_CYCLE, has_feature
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.tensor import ElementwiseOp, GatherOp, ReduceOp, ScanOp

DRAM_LATENCY_NS = 700.0
"""The time from a load to its element: with 4 KB in flight in each, 64 CTAs move 374 bytes in a nanosecond. Measured on
an H200: 385, in a batch norm of 64 channels."""

_SPECIAL_INSTRUCTIONS = 10
"""The simple instructions around the special function in a division, an exponential or a root of full accuracy (read
off the code of nvcc 13.0)."""

_SIMPLE = frozenset(
    {
        arith.AddfOp,
        arith.SubfOp,
        arith.MulfOp,
        arith.NegfOp,
        arith.MaximumfOp,
        arith.MinimumfOp,
        arith.AddiOp,
        arith.SubiOp,
        arith.MuliOp,
        arith.MaxSIOp,
        arith.MinSIOp,
        arith.AndIOp,
        arith.OrIOp,
        arith.XOrIOp,
        arith.CmpfOp,
        arith.CmpiOp,
        arith.SelectOp,
        arith.ExtFOp,
        arith.TruncFOp,
        arith.SIToFPOp,
        arith.UIToFPOp,
        arith.FPToSIOp,
        arith.ExtSIOp,
        arith.ExtUIOp,
        arith.TruncIOp,
    }
)


@dataclass(frozen=True)
class Work:
    """Simple instructions, and special functions such as exponentials, roots and divisions."""

    instructions: int = 0
    specials: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.instructions + other.instructions, self.specials + other.specials)

    def __mul__(self, times: int) -> Work:
        return Work(self.instructions * times, self.specials * times)


@dataclass(frozen=True)
class GridConstants:
    """What `Rates.grid_ns` is fitted by; `deplodock tune --fit` fits them to tables of times."""

    peak_share: float = 0.73
    """The share of the FP32 peak that CTAs of 128x128 outputs reach."""
    idle_loss: float = 0.185
    """What a CTA alone on an SM loses of the rate that the SM reaches with the CTAs that it is meant for."""
    tail_loss: float = 0.75
    """The same for what is left after full waves: SMs that are done first take more of it than their share."""
    start_ns: float = 5300.0
    """The start and the end of the first wave, when products wait for the first slabs or are stored; later waves start
    and end while other CTAs of their SMs compute."""
    last_cta_rate: float = 61.0
    """Bytes per nanosecond at which the last CTA of a tile reads and adds its parts."""
    second_launch_ns: float = 500.0
    """What a kernel that adds the parts of a contraction takes behind it in a graph, besides its bytes. It is fitted
    together with `start_ns`, so it is not the whole time of a small kernel."""


@dataclass(frozen=True)
class Rates:
    """What a card does in a nanosecond: bytes from DRAM, instructions and special functions of all SMs, cycles."""

    launch_ns: float
    sms: int
    bytes: float
    instructions: float
    specials: float
    cycles: float
    shared_bytes: int
    multiplies_narrow: bool
    """Whether the tensor cores of its warps multiply half precision."""
    grid: GridConstants = GridConstants()

    @staticmethod
    def of(target: TargetAttr) -> Rates:
        """The rates of a target. Raises VerifyException if it lacks a fact."""
        sms = target.fact("sms")
        instructions = target.fact("fp32_gflops") / 2
        cycles = instructions / (sms * target.fact("fp32_lanes"))
        return Rates(
            launch_ns=target.fact("launch_ns"),
            sms=sms,
            bytes=target.fact("dram_gbps"),
            instructions=instructions,
            specials=sms * SPECIALS_PER_CYCLE * cycles,
            cycles=cycles,
            shared_bytes=target.fact("shared_per_block"),
            multiplies_narrow=has_feature(target, Feature.MMA),
        )

    def moving_ns(self, moved_bytes: int) -> float:
        """Nanoseconds in which the card moves bytes to or from DRAM."""
        return moved_bytes / self.bytes

    def kernel_ns(self, moved_bytes: int, work: Work, ctas: int, awaited_bytes: int = 0, in_flight: int = 1) -> float:
        """Nanoseconds of a kernel of so many CTAs that moves `moved_bytes` and does `work`.

        `awaited_bytes` of them are loads that its threads wait for, `in_flight` of a CTA at once.
        """
        share = min(ctas, self.sms) / self.sms
        bandwidth = min(self.bytes, ctas * L2_BYTES_PER_CYCLE * self.cycles)
        if not share:
            return self.launch_ns
        busy = max(
            moved_bytes / bandwidth,
            awaited_bytes * DRAM_LATENCY_NS / (ctas * in_flight),
            work.instructions / (self.instructions * share),
            work.specials / (self.specials * share),
        )
        return self.launch_ns + busy

    def floor_ns(self, moved_bytes: int, operations: int, *, cached: bool) -> float:
        """The roofline: nanoseconds below which the card cannot do `operations`, an FMA counts two, on `moved_bytes`.

        The bytes come from DRAM or, `cached`, from L2 at what all SMs together take.
        """
        bandwidth = self.sms * L2_BYTES_PER_CYCLE * self.cycles if cached else self.bytes
        return max(moved_bytes / bandwidth, operations / (2 * self.instructions))

    def grid_ns(self, ctas: float, operations: int, resident: int, rate: float, *, is_uneven: bool) -> float:
        """Nanoseconds of CTAs that each do `operations`: full waves, then what is left, spread over the SMs.

        `resident` of them share an SM, and reach together `rate` of the speed of CTAs of 128x128 outputs. Where they
        are `is_uneven`, they take unlike times and level out among the SMs.
        """
        cta = operations * self.sms / (2 * self.instructions * self.grid.peak_share * rate)
        waves, left = (0, ctas) if is_uneven else divmod(ctas, self.sms * resident)
        shared = max(1, left / self.sms) if is_uneven else math.ceil(left / self.sms)
        loss = (self.grid.tail_loss if waves else self.grid.idle_loss) * max(0, 1 - shared / resident)
        later = math.ceil(ctas / (self.sms * resident)) - 1
        start = self.grid.start_ns * (1 + later / max(1, resident - 1))
        return start + cta * (waves * resident + shared / (1 - loss))


_FUNCTION_INSTRUCTIONS = {
    **dict.fromkeys(("math.sin", "math.cos", "math.tan"), 64),
    **dict.fromkeys(("math.powf", "math.ipowi", "math.fpowi"), 32),
    **dict.fromkeys(("math.erf", "math.log1p", "math.expm1", "arith.remf"), 16),
    **dict.fromkeys(("arith.divsi", "arith.remsi", "arith.floordivsi", "arith.ceildivsi", "arith.divui"), 16),
}
"""How long nvcc takes for functions that it inlines, in simple instructions: sines have a loop for large arguments."""


def code_size(op: Operation) -> int:
    """The instructions that nvcc makes of the scalar operations of a tensor operation, once each."""
    return sum(_FUNCTION_INSTRUCTIONS.get(one.name) or _scalar_work([one]).instructions for one in _scalars(op))


def element_work(op: Operation) -> Work:
    """The work for one element of a tensor operation's results; of a reduction, for one element of its operands."""
    return Work(1) if isinstance(op, GatherOp) else _scalar_work(_scalars(op))


def _scalars(op: Operation) -> list[Operation]:
    """The scalar operations for an element of a tensor operation."""
    match op:
        case ElementwiseOp():
            return list(op.body.block.ops)[:-1]
        case ReduceOp() | ScanOp():
            return list(op.combiner.block.ops)[:-1]
        case _:
            return []


def _scalar_work(ops: Sequence[Operation]) -> Work:
    work = Work()
    for op in ops:
        if type(op) in _SIMPLE:
            work += Work(1)
        elif not isinstance(op, arith.ConstantOp):
            work += Work(_SPECIAL_INSTRUCTIONS, 1)
    return work
