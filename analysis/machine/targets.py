"""The GPUs that deplodock compiles for: one table of the facts that schedules are decided by.

Facts and their units:

* `sms`: streaming multiprocessors of the card
* `threads_per_block`, `threads_per_sm`, `blocks_per_sm`: limits on resident threads and CTAs
* `registers_per_thread`, `registers_per_sm`: limits, in 32-bit registers
* `shared_per_block`: bytes of shared memory one CTA can have (with the opt-in above 48 KB)
* `shared_per_sm`: bytes of shared memory of an SM; each resident CTA takes 1 KB besides its own (from sm_80)
* `l2_bytes`: bytes of L2 cache
* `dram_gbps`: peak DRAM bandwidth, 10^9 bytes per second
* `fp32_lanes`: FP32 instructions that an SM issues in a cycle
* `fp32_gflops`: peak FP32 rate, 10^9 operations per second: SMs x FP32 lanes x 2 (FMA) x boost clock
* `launch_ns`: nanoseconds of a kernel of a CUDA graph that does next to nothing, with its start and its end

What is the same on all of them stands below the imports: counts, sizes in bytes, nanoseconds. A new card is a row of
`_CARDS`, the first of an architecture stands for it; a new architecture is a row of `_ARCHITECTURES` as well.

Sources. Limits: table "Technical specifications per compute capability" of NVIDIA's CUDA C++ Programming Guide 13.0.
Cards (SMs, lanes, boost clock, DRAM and L2):

* A100 80 GB SXM: NVIDIA's "A100 Tensor Core GPU Architecture" whitepaper and A100 80GB datasheet
* RTX 4090: NVIDIA's "Ada GPU Architecture" whitepaper
* H100 SXM: NVIDIA's "H100 Tensor Core GPU Architecture" whitepaper; the 1980 MHz are what `nvidia-smi` reports as its
  maximal SM clock
* H200 SXM: NVIDIA's H200 datasheet; SMs, clock and L2 as H100
* B200: NVIDIA's DGX B200 datasheet; SMs, L2 and the 1965 MHz are what `cudaGetDeviceProperties` and `nvidia-smi` report
* RTX 5090: NVIDIA's "RTX Blackwell GPU Architecture" whitepaper
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.errors import InvalidInputError

DEFAULT = "sm_90"
"""The target where nothing else is said."""

ATTRIBUTE = "kernel.target"
"""The name of the module attribute that holds the target."""

WARP = 32
"""Threads of a warp on every NVIDIA GPU, the reach of a shuffle."""

FIRST_ASYNC_COPIES = 80
"""The first compute capability with asynchronous copies and barriers with phases (PTX ISA, `cp.async`, `mbarrier`)."""

FIRST_MMA = 80
"""The first compute capability with products of 16-bit matrices that add 16 along k (PTX ISA, `mma`, "Target ISA
Notes")."""

FIRST_CLUSTERS = 90
"""The first compute capability with clusters of CTAs (CUDA C++ Programming Guide, "Thread Block Clusters")."""

CLUSTER_CTAS = 8
"""The most CTAs of a cluster on any GPU with clusters (CUDA C++ Programming Guide, "Thread Block Clusters")."""

TPC_SMS = 2
"""The SMs of a TPC (NVIDIA H100 whitepaper), so that a cluster of two CTAs fits everywhere."""

GPC_SMS = 16
"""The SMs of a GPC, which run the CTAs of a cluster, of an H100 or H200: up to 18, but some have fewer. On an H200 28
clusters of four CTAs that have an SM each run at once, 32 do not."""

FIRST_BOXES = 90
"""The first compute capability with copies of boxes (PTX ISA, `cp.async.bulk.tensor`: target sm_90 or higher)."""

FIRST_EARLY_LAUNCHES = 90
"""The first compute capability whose launches may begin early (PTX ISA, `griddepcontrol`: target sm_90 or higher)."""

FIRST_WITH = {
    Feature.ASYNC_COPIES: FIRST_ASYNC_COPIES,
    Feature.GROUPS: FIRST_ASYNC_COPIES,
    Feature.PHASES: FIRST_ASYNC_COPIES,
    Feature.EXPECTED_BYTES: FIRST_BOXES,
    Feature.BOXES: FIRST_BOXES,
    Feature.CLUSTERS: FIRST_CLUSTERS,
    Feature.MMA: FIRST_MMA,
    Feature.WARPGROUPS: 90,
    Feature.ROLE_REGISTERS: 90,
    Feature.EARLY_LAUNCHES: FIRST_EARLY_LAUNCHES,
    Feature.TF32_ROUNDING: 90,
}
"""The first compute capability with what an operation needs (PTX ISA, "Target ISA Notes")."""

LAST_WITH = {Feature.WARPGROUPS: 90, Feature.ROLE_REGISTERS: 90}
"""The last one, where there is one (ibid., `wgmma.mma_async`: sm_90a alone; `setmaxnreg`: of ours, sm_90a alone)."""

PRODUCT_REGISTERS = 26
"""The registers that a product of a warpgroup takes besides its accumulators: with fewer at the start of a kernel ptxas
gives up, even where a role gets more later (ptxas of CUDA 13.0, error C7602, for 64 and 128 accumulators)."""

FIRST_TRY_WAIT = 90
"""The first compute capability on which a wait for a phase suspends the thread (PTX ISA, `mbarrier.try_wait`)."""

PARTITIONS = 4
"""The parts of an SM that each hold a share of the warps and registers (`cuda_occupancy.h` of the CUDA toolkit)."""

REGISTER_UNIT = 256
"""The registers in which a warp is given them (ibid.)."""

REGISTER_BYTES = 4
"""The bytes of a register."""

SHARED_UNIT = 128
"""The bytes in which a CTA is given shared memory (`cuda_occupancy.h` of the CUDA toolkit)."""

RESERVED = 1024
"""The bytes of shared memory that the system takes for each resident CTA (CUDA C++ Programming Guide, "Compute
Capability 8.x" and later)."""

STATIC_LIMIT = 48 * 1024
"""The bytes of shared memory that a kernel can declare statically (CUDA C++ Programming Guide, "Shared Memory")."""

BANKS = 32
"""The banks of shared memory (CUDA C++ Programming Guide, "Shared Memory")."""

BANK_BYTES = 4
"""The bytes of a word of a bank, which it serves at once (ibid.)."""

ACCESS_BYTES = 16
"""The widest access of a thread in bytes (PTX `ld.v4.f32`); every buffer starts at a multiple of it."""

SECTOR_BYTES = 32
"""The bytes of global memory that are read together."""

MBARRIER_BYTES = 8
"""The bytes of a barrier with phases (PTX ISA, `mbarrier`)."""

POINTER_BYTES = 8
"""The bytes of an address."""

TENSOR_MAP_BYTES = 128
"""The size of a CUtensorMap of the CUDA driver API."""

TENSOR_MAP_ALIGNMENT = 64
"""What its address is a multiple of, also among the parameters of a kernel, in bytes (ibid.)."""

PARAMETER_BYTES = 32764
"""The most bytes of parameters with CUDA 12.1 or newer (CUDA C++ Programming Guide, "Function Parameters")."""

OLD_PARAMETER_BYTES = 4096
"""The same with any CUDA."""

GRID_BLOCKS = 2**31 - 1
"""The most CTAs along x, the one dimension of a grid (CUDA C++ Programming Guide, "Technical Specifications")."""

CLUSTER_BLOCKS = 8
"""The most CTAs of a cluster on every GPU that has them (CUDA C++ Programming Guide, "Thread Block Clusters")."""

L2_BYTES_PER_CYCLE = 64
"""The bytes that an SM reads from L2 in a cycle (NVIDIA's "A100 Tensor Core GPU Architecture" whitepaper)."""

SPECIALS_PER_CYCLE = 16
"""The special functions that an SM issues in a cycle (CUDA C++ Programming Guide 13.0, "Arithmetic Instructions")."""

LAUNCH_NS = 1250
"""The fact `launch_ns` of all cards: 1.0 to 1.5 us between small kernels of a graph, measured on an H100."""


@dataclass(frozen=True)
class _Architecture:
    """The limits of a compute capability; shared memory in KB."""

    nvcc_arch: str
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    fp32_lanes: int


@dataclass(frozen=True)
class _Card:
    """One product: its architecture, and clock in MHz, L2 in MB, DRAM in GB/s."""

    arch: str
    sms: int
    boost_mhz: int
    l2_mb: int
    dram_gbps: int


_ARCHITECTURES = {
    "sm_80": _Architecture("sm_80", 2048, 32, 164, 64),
    "sm_89": _Architecture("sm_89", 1536, 24, 100, 128),
    "sm_90": _Architecture("sm_90a", 2048, 32, 228, 128),
    "sm_100": _Architecture("sm_100", 2048, 32, 228, 128),
    "sm_120": _Architecture("sm_120", 1536, 24, 100, 128),
}

_CARDS = {
    "a100": _Card("sm_80", 108, 1410, 40, 2039),
    "rtx4090": _Card("sm_89", 128, 2520, 72, 1008),
    "h100": _Card("sm_90", 132, 1980, 50, 3350),
    "h200": _Card("sm_90", 132, 1980, 50, 4800),
    "b200": _Card("sm_100", 148, 1965, 126, 8000),
    "rtx5090": _Card("sm_120", 170, 2407, 96, 1792),
}

NAMES = (*_ARCHITECTURES, *_CARDS)
"""The names that `target` knows: architectures, which stand for one card each, then cards."""


@cache
def target(name: str) -> TargetAttr:
    """The target of an architecture (`sm_90`) or a card (`h200`).

    Raises:
        InvalidInputError: the name is not one of `NAMES`.
    """
    card = _CARDS.get(name) or next((card for card in _CARDS.values() if card.arch == name), None)
    if card is None:
        raise InvalidInputError(f"unknown target '{name}'; choose one of {', '.join(NAMES)}")
    limits = _ARCHITECTURES[card.arch]
    facts = {
        "sms": card.sms,
        "threads_per_block": 1024,
        "threads_per_sm": limits.threads_per_sm,
        "blocks_per_sm": limits.blocks_per_sm,
        "registers_per_thread": 255,
        "registers_per_sm": 65536,
        "shared_per_block": (limits.shared_per_sm - 1) * 1024,
        "shared_per_sm": limits.shared_per_sm * 1024,
        "l2_bytes": card.l2_mb << 20,
        "dram_gbps": card.dram_gbps,
        "fp32_lanes": limits.fp32_lanes,
        "fp32_gflops": card.sms * limits.fp32_lanes * 2 * card.boost_mhz // 1000,
        "launch_ns": LAUNCH_NS,
    }
    return TargetAttr(card.arch, facts)


def card_named(device: str, arch: str) -> str:
    """The card of the table that a driver calls `device`, such as `NVIDIA H100 80GB HBM3`, else the architecture."""
    found = target_named(device)
    return found if found is not None and _CARDS[found].arch == arch else arch


def target_named(device: str) -> str | None:
    """The card of the table that a driver calls `device`, whatever its architecture."""
    joined = device.lower().replace(" ", "")
    return next((name for name in _CARDS if name in joined), None)


def nvcc_arch(arch: str) -> str:
    """What to pass to `nvcc -arch` for a target's architecture: `sm_90` is compiled with its own features, as `sm_90a`.

    Raises:
        InvalidInputError: the architecture is not in the table.
    """
    if arch not in _ARCHITECTURES:
        raise InvalidInputError(f"unknown architecture '{arch}'; choose one of {', '.join(_ARCHITECTURES)}")
    return _ARCHITECTURES[arch].nvcc_arch


def target_of(module: ModuleOp) -> TargetAttr:
    """The target that a module states in its attribute `kernel.target`, else the default.

    Raises:
        InvalidInputError: the attribute is of another kind.
    """
    attribute = module.attributes.get(ATTRIBUTE)
    if attribute is None:
        return target(DEFAULT)
    if not isinstance(attribute, TargetAttr):
        raise InvalidInputError(f"{ATTRIBUTE} must be a #kernel.target<sm_90, ...>, got {attribute}")
    return attribute


def target_at(op: Operation) -> TargetAttr:
    """The target of the module that holds an operation, as `target_of`; the default outside of a module."""
    module = op.get_toplevel_object()
    return target_of(module) if isinstance(module, ModuleOp) else target(DEFAULT)


def capability(target: TargetAttr) -> int:
    """The compute capability of a target, such as 90 of sm_90; 0 where its name tells none."""
    digits = target.arch.data.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdecimal() else 0


def has_feature(target: TargetAttr, feature: Feature) -> bool:
    """Whether an architecture has what an operation needs."""
    arch = capability(target)
    return FIRST_WITH[feature] <= arch <= LAST_WITH.get(feature, arch)
