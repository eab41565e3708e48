"""What the process that has a GPU is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deplodock.analysis.shape.derived import Derived
from deplodock.analysis.shape.roundings import Roundings
from deplodock.runtime.plan import BufferPlan
from deplodock.runtime.planned import PlannedProgram


@dataclass(frozen=True)
class Begin:
    """A kernel of which candidates are to be measured: get its inputs, and what should come out.

    `derived` are the buffers that another one determines; their numbers count the inputs, and then the outputs.
    `reference` is the kernel in float64, and `narrow` the same with its roundings to types of 16 bits, None if it
    computes with no such values; `rounded` is what rounds in it (`compare`), `moved_bytes` what it must read and write.
    The answer is the reason why it cannot be measured, empty if it can.
    """

    kernel: str
    inputs: tuple[BufferPlan, ...]
    outputs: tuple[BufferPlan, ...]
    derived: Mapping[int, Derived]
    reference: PlannedProgram
    narrow: PlannedProgram | None
    rounded: Roundings
    moved_bytes: int


@dataclass(frozen=True)
class Incumbent:
    """The best program of a kernel so far, and its microseconds."""

    program: PlannedProgram
    us: float


@dataclass(frozen=True)
class Measure:
    """A candidate to measure, beside the incumbent, None for the first. The answer is what `rounds.measured` gives.

    It is None where the kernel has not begun, or others took its place since. `limit` is the seconds that its first
    run may take.
    """

    kernel: str
    program: PlannedProgram
    incumbent: Incumbent | None
    limit: float
