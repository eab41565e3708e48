"""The page of a suite's results: KernelBench's fast_p and geometric means by level, and a row for each problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deplodock.tools.bench.report import (
    COMPILED,
    COMPILED_LOOP,
    EAGER,
    EAGER_LOOP,
    OWN,
    OWN_LOOP,
    Result,
    mean,
    measured,
    number,
)

_SPEEDUPS = (1.0, 1.5, 2.0)
_LOOPS, _GRAPHS = (OWN_LOOP, EAGER_LOOP, COMPILED_LOOP), (OWN, EAGER, COMPILED)
_WAYS = (("loop", *_LOOPS), ("graph", *_GRAPHS))
"""How calls are made: the names of ours, PyTorch's and torch.compile's."""

_HEAD = """\
Microseconds of a call, in training mode, TF32 as the last lines say, the L2 overwritten before each, events around it:
from Python, one after the other (loop, as KernelBench measures), and as a CUDA graph (graph). Ratios are PyTorch's time
by ours in the same way, so above 1 we are faster. fast_p is the share of all problems that are right and more than p
times as fast as PyTorch (https://github.com/ScalingIntelligence/KernelBench).
"""


def page(results: Sequence[Result]) -> str:
    """The results of a suite as Markdown: a table of the levels, then one of the problems."""
    levels = {level: [each for each in results if each.kind == level] for level in sorted({r.kind for r in results})}
    groups = {**levels, "all": list(results)}
    facts = {name: _summary(group) for name, group in groups.items()}
    names = list(facts["all"])
    summary = [f"| {name} | {' | '.join(found[name] for found in facts.values())} |" for name in names]
    columns = [*_LOOPS, *_GRAPHS]
    return "\n".join(
        [
            *_HEAD.splitlines(), "",
            f"| | {' | '.join(groups)} |", "|---" * (1 + len(groups)) + "|", *summary, "",
            f"| problem | {' | '.join(columns)} | ratio, loop | ratio, graph | |", "|---" * (len(columns) + 4) + "|",
            *map(_line, sorted(results, key=_place)), "",
            *measured(results),
        ]
    ) + "\n"  # fmt: skip


def fast(results: Sequence[Result], speedup: float, own: str, peer: str) -> float:
    """The share of results that are right and more than so many times as fast as the peer."""
    return sum((result.ratio(peer, own) or 0.0) > speedup for result in results if result.passed) / len(results)


def _place(result: Result) -> tuple[str, int]:
    """The level and the number of a problem."""
    number = result.name.removeprefix(f"{result.kind}/").partition("_")[0]
    return result.kind, int(number)


def _summary(results: Sequence[Result]) -> dict[str, str]:
    right = [result for result in results if result.passed]
    rows = {"problems": str(len(results)), "right": str(len(right))}
    left = [result for result in right if _fact(result, "left")]
    rows["in parts, others left to PyTorch"] = str(sum(bool(_fact(result, "parts")) for result in left))
    rows["left to PyTorch as a whole"] = str(sum(not _fact(result, "parts") for result in left))
    for way, own, eager, _ in _WAYS:
        rows |= {f"fast_{p:g}, {way}": number(fast(results, p, own, eager), 2) for p in _SPEEDUPS}
    for way, own, eager, compiled in _WAYS:
        for name, peer in (("PyTorch", eager), ("torch.compile", compiled)):
            ratios = [ratio for result in right if (ratio := result.ratio(peer, own)) is not None]
            text = f"{mean(ratios):.3f} of {len(ratios)}" if ratios else ""
            rows[f"geometric mean against {name}, {way}"] = text
    return rows


def _line(result: Result) -> str:
    if result.bench is None or result.error:
        return f"| {result.name} | **{result.error.replace('|', '/')}** {'| ' * (len(_LOOPS) + len(_GRAPHS) + 2)}|"
    cells = [number(result.microseconds(name), 1) for name in (*_LOOPS, *_GRAPHS)]
    cells += [number(result.ratio(EAGER_LOOP, OWN_LOOP), 3), number(result.ratio(EAGER), 3)]
    notes = [f"compiled: {text}" for text in _fact(result, "parts")]
    notes += [f"left to PyTorch: {text}" for text in _fact(result, "left")]
    notes += [f"no {name}: {reason}" for name, reason in dict(_fact(result, "without")).items()]
    return f"| {result.name} | {' | '.join(cells)} | {'; '.join(notes).replace('|', '/')} |"


def _fact(result: Result, name: str) -> Any:
    return (result.bench or {}).get(name) or ()
