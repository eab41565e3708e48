"""How many CTAs share an SM, what limits them, and how many registers a thread can have.

The rules are those of NVIDIA's occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit), for sm_80 and later:
registers are given to warps in units of 256, each of the four partitions of an SM holds a quarter of them, and a CTA's
shared memory is given in units of 128 bytes, with 1 KB besides.
"""

from __future__ import annotations

from dataclasses import dataclass

from deplodock.analysis.machine.targets import (
    PARTITIONS,
    REGISTER_UNIT,
    RESERVED,
    SHARED_UNIT,
    WARP,
    has_feature,
)
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.roles import REGISTERS

THREAD_UNIT = REGISTER_UNIT // WARP
"""The registers in which a thread is given them."""


@dataclass(frozen=True)
class Occupancy:
    """CTAs that share an SM, and what keeps it from more: threads, registers, shared memory or CTAs."""

    ctas: int
    limited_by: str

    def __str__(self) -> str:
        return f"{self.ctas} CTAs on an SM, limited by {self.limited_by}"


def occupancy(target: TargetAttr, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of CTAs of `threads`, with these registers a thread and bytes of shared memory a CTA."""
    limits = {
        "threads": _by_threads(target, threads),
        "registers": _by_registers(target, threads, registers),
        "shared memory": _by_shared(target, shared),
        "CTAs": target.fact("blocks_per_sm"),
    }
    limiting = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limiting], limiting)


def register_limit(target: TargetAttr, threads: int, ctas: int) -> int:
    """The most registers of a thread with which `ctas` CTAs of `threads` share an SM; 0 if the threads are too many."""
    if ctas > _by_threads(target, threads):
        return 0
    warps = -(-_warps(threads) * ctas // PARTITIONS)
    each = target.fact("registers_per_sm") // PARTITIONS // warps
    limit = min(each // REGISTER_UNIT * THREAD_UNIT, target.fact("registers_per_thread"))
    return limit if _by_registers(target, threads, limit) >= ctas else 0


def role_registers(target: TargetAttr, readers: int, producers: int, ctas: int) -> tuple[int, int] | None:
    """The registers of a thread that copies and of one that reads, where `ctas` CTAs of both share an SM.

    The producers keep the fewest there are, the readers get what is left of what the CTA starts with. None where the
    target gives roles no registers of their own, or the readers would not have more than without.
    """
    if not has_feature(target, Feature.ROLE_REGISTERS):
        return None
    threads = readers + producers
    start = start_registers(target, threads, ctas)
    left = (start * threads - REGISTERS[0] * producers) // readers // THREAD_UNIT * THREAD_UNIT
    most = min(left, target.fact("registers_per_thread") // THREAD_UNIT * THREAD_UNIT)
    return (REGISTERS[0], most) if most > start else None


def start_registers(target: TargetAttr, threads: int, ctas: int) -> int:
    """The registers that a thread starts with where roles change them: as many as `ctas` CTAs leave to each."""
    return register_limit(target, threads, ctas) // THREAD_UNIT * THREAD_UNIT


def threads_of_sm(threads: int) -> int:
    """The threads of an SM that a CTA of so many takes: whole warps."""
    return _warps(threads) * WARP


def shared_of_sm(shared: int) -> int:
    """The bytes of an SM's shared memory that a CTA with so many takes."""
    return -(-(shared + RESERVED) // SHARED_UNIT) * SHARED_UNIT


def _warps(threads: int) -> int:
    return -(-threads // WARP)


def _by_threads(target: TargetAttr, threads: int) -> int:
    if threads > target.fact("threads_per_block"):
        return 0
    return target.fact("threads_per_sm") // threads_of_sm(threads)


def _by_registers(target: TargetAttr, threads: int, registers: int) -> int:
    """The CTAs that the registers allow. A CTA is started only if the warps of all partitions could take as many."""
    per_warp = -(-max(registers, 1) * WARP // REGISTER_UNIT) * REGISTER_UNIT
    total, assumed = target.fact("registers_per_sm"), -(-_warps(threads) // PARTITIONS) * PARTITIONS
    if registers > target.fact("registers_per_thread") or per_warp * assumed > total:
        return 0
    return total // PARTITIONS // per_warp * PARTITIONS // _warps(threads)


def _by_shared(target: TargetAttr, shared: int) -> int:
    if shared > target.fact("shared_per_block"):
        return 0
    return target.fact("shared_per_sm") // shared_of_sm(shared)
