"""Graphs lowered for a target, and what came of them."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import fx
from torch._dynamo.utils import counters

from deplodock.analysis.host.program import host_program
from deplodock.pytorch.options import BackendOptions
from deplodock.pytorch.partition import PartsRunner
from deplodock.pytorch.runners import CpuRunner

_OPERATIONS = "operations_"
"""What the names of counters start with that count no falls."""


@dataclass(frozen=True)
class TargetResult:
    """What the graphs of a case are on a target.

    `left` says why operations are left to PyTorch, by their overloads, `falls` what was counted of kernels that did not
    become what was chosen. `kernels` are launches.
    """

    target: str
    operations: int
    compiled: int
    kernels: int
    left: Mapping[str, str]
    falls: Mapping[str, int]
    seconds: float

    def faults(self, allowed: Sequence[str]) -> list[str]:
        """What must not be: falls, and operations left to PyTorch whose overloads are not `allowed`."""
        found = [f"{name}: {count} times" for name, count in self.falls.items()]
        left = self.left.items()
        return found + [f"{names}: {reason}" for names, reason in left if not {*names.split(", ")} <= {*allowed}]


def lowered(graphs: Sequence[fx.GraphModule], target: str) -> TargetResult:
    """Graphs lowered to kernels for a target; nothing is compiled by nvcc, and nothing runs."""
    start, compiled, operations, kernels = time.perf_counter(), 0, 0, 0
    left: dict[str, str] = {}
    counters["deplodock"].clear()
    for number, graph in enumerate(graphs):
        copied = fx.GraphModule(graph, copy.deepcopy(graph.graph))
        runner = PartsRunner(copied, BackendOptions(target=target), f"graph{number}")
        compiled += runner.compiled
        operations += runner.compiled + runner.left
        left |= runner.reasons
        kernels += sum(len(host_program(own.module).steps) for own in runner.runners if isinstance(own, CpuRunner))
    counted: Counter[str] = counters["deplodock"]
    falls = {name: count for name, count in counted.items() if count and not name.startswith(_OPERATIONS)}
    return TargetResult(target, operations, compiled, kernels, left, falls, time.perf_counter() - start)
