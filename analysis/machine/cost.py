"""What a kernel costs on a target: a launch, and the longest of its bytes, its instructions and its special functions.

The rates come from the module's target. A kernel that does not fill the card has the bandwidth and the lanes of the SMs
that its CTAs occupy. Sources:

* an SM issues 128 (sm_80: 64) simple FP32 instructions and 16 special functions a cycle: table "Throughput of native
  arithmetic instructions" of NVIDIA's CUDA C++ Programming Guide 13.0; a division, an exponential or a root of full
  accuracy is about ten instructions around one special function (read off the code of nvcc 13.0)
* an SM reads 64 bytes a cycle from L2: NVIDIA's "A100 Tensor Core GPU Architecture" whitepaper
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation

from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.tensor import ElementwiseOp, GatherOp, ReduceOp

_L2_BYTES_PER_CYCLE = 64
_SPECIAL_PER_CYCLE = 16
_SPECIAL_INSTRUCTIONS = 10

_SIMPLE = (
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
class Rates:
    """What a card does in a nanosecond: bytes from DRAM, instructions and special functions of all SMs, cycles."""

    launch_ns: float
    sms: int
    bytes: float
    instructions: float
    specials: float
    cycles: float
    shared_bytes: int

    @staticmethod
    def of(target: TargetAttr) -> Rates:
        """The rates of a target. Raises VerifyException if it lacks a fact."""
        sms = target.fact("sms")
        instructions = target.fact("fp32_gflops") / 2
        lanes = 64 if target.arch.data == "sm_80" else 128
        cycles = instructions / (sms * lanes)
        return Rates(
            launch_ns=target.fact("launch_ns"),
            sms=sms,
            bytes=target.fact("dram_gbps"),
            instructions=instructions,
            specials=sms * _SPECIAL_PER_CYCLE * cycles,
            cycles=cycles,
            shared_bytes=target.fact("shared_per_block"),
        )

    def kernel_ns(self, moved_bytes: int, work: Work, ctas: int) -> float:
        """Nanoseconds of a kernel of so many CTAs that moves `moved_bytes` and does `work`."""
        share = min(ctas, self.sms) / self.sms
        bandwidth = min(self.bytes, ctas * _L2_BYTES_PER_CYCLE * self.cycles)
        if not share:
            return self.launch_ns
        busy = max(
            moved_bytes / bandwidth,
            work.instructions / (self.instructions * share),
            work.specials / (self.specials * share),
        )
        return self.launch_ns + busy

    def floor_ns(self, moved_bytes: int, operations: int, *, cached: bool) -> float:
        """The roofline: nanoseconds below which the card cannot do `operations`, an FMA counts two, on `moved_bytes`.

        The bytes come from DRAM or, `cached`, from L2 at what all SMs together take.
        """
        bandwidth = self.sms * _L2_BYTES_PER_CYCLE * self.cycles if cached else self.bytes
        return max(moved_bytes / bandwidth, operations / (2 * self.instructions))


_FUNCTION_INSTRUCTIONS = {
    **dict.fromkeys(("math.sin", "math.cos", "math.tan"), 64),
    **dict.fromkeys(("math.powf", "math.ipowi", "math.fpowi"), 32),
    **dict.fromkeys(("math.erf", "math.log1p", "math.expm1", "arith.remf"), 16),
    **dict.fromkeys(("arith.divsi", "arith.remsi", "arith.floordivsi", "arith.ceildivsi", "arith.divui"), 16),
}
"""How long nvcc takes for functions that it inlines, in simple instructions: sines have a loop for large arguments."""


def code_size(op: Operation) -> int:
    """The instructions that nvcc makes of the scalar operations of a tensor operation, once each."""
    match op:
        case ElementwiseOp():
            return _code_size(list(op.body.block.ops)[:-1])
        case ReduceOp():
            return _code_size(list(op.combiner.block.ops)[:-1])
        case _:
            return 0


def _code_size(ops: Sequence[Operation]) -> int:
    sizes = (_FUNCTION_INSTRUCTIONS.get(op.name) or _scalar_work([op]).instructions for op in ops)
    return sum(sizes)


def element_work(op: Operation) -> Work:
    """The work for one element of a tensor operation's results; of a reduction, for one element of its operands."""
    match op:
        case ElementwiseOp():
            return _scalar_work(list(op.body.block.ops)[:-1])
        case ReduceOp():
            return _scalar_work(list(op.combiner.block.ops)[:-1])
        case GatherOp():
            return Work(1)
        case _:
            return Work()


def _scalar_work(ops: Sequence[Operation]) -> Work:
    work = Work()
    for op in ops:
        if isinstance(op, _SIMPLE):
            work += Work(1)
        elif not isinstance(op, arith.ConstantOp):
            work += Work(_SPECIAL_INSTRUCTIONS, 1)
    return work
