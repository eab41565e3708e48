"""Times of calls on the GPU with few runs, as KernelBench times: L2 overwritten before each, events around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from deplodock.runtime.graph_timing import Timing, timing

FLUSHED_BYTES = 1 << 28
"""What is written before each call, more than the L2 of any GPU (KernelBench's `clear_l2_cache`)."""

_MOST_CALLS = 20
_SHARE = 0.1
"""The seconds of calls of one contestant, which has one all the same."""


def in_graph(run: Callable[[], Any], pool: Any) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A graph of one call, which must have run before, and the result of a replay.

    What is computed on the way shares the memory of the pool with other graphs, and so does the result once nobody
    holds it any more: one of them is replayed at a time.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = run()
    return graph, result


def times(contestants: Mapping[str, Callable[[], Any]]) -> list[Timing]:
    """The time of a call of each contestant, from calls that alternate.

    Each has 20 calls, or as many as take 0.1 s, after one that says how many those are; where that is none, that one
    counts. So one that is slow takes little, and what the GPU's clock does, it does to all.
    """
    memory = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    found = {name: [_once(run, memory)] for name, run in contestants.items()}
    counts = {name: min(_MOST_CALLS, int(_SHARE * 1e6 / first)) for name, (first,) in found.items()}
    for turn in range(max(counts.values(), default=0)):
        for name, run in contestants.items():
            if turn < counts[name]:
                found[name].append(_once(run, memory))
    return [timing(name, values[1:] or values) for name, values in found.items()]


def _once(run: Callable[[], Any], memory: torch.Tensor) -> float:
    """The microseconds of a call, from events around it."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    memory.zero_()
    start.record()
    run()
    end.record()
    end.synchronize()
    return max(0.1, start.elapsed_time(end) * 1e3)
