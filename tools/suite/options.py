"""How the problems of a suite are run, and what the processes that do it say to each other."""

from __future__ import annotations

from dataclasses import dataclass

READY = "ready"
"""What a process says that has all it needs and asks for the GPU, and what it is told when it may have it."""

REFUSAL = "refusal"
"""The key of why a problem cannot be compiled as a whole, empty if it can."""


@dataclass(frozen=True)
class SuiteOptions:
    """How problems are run.

    `target` is what they are compiled for, by default the GPU, else sm_90. `limit` is the seconds that a problem may
    take to be compiled, and again on the GPU; `budget` those after which none is started. Without `measures` they are
    compiled alone; `compiled` says whether torch.compile is measured, too.
    """

    target: str | None = None
    limit: float = 120.0
    budget: float = 3600.0
    measures: bool = True
    compiled: bool = True
