"""A problem on the GPU: its module as it is built, what we compiled of it, whether that is right, and the times."""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from deplodock.dialects.precision import PRECISIONS
from deplodock.frontend.precision import pytorch_beside
from deplodock.frontend.recurrences import without_cells
from deplodock.pytorch.compiled import place_of
from deplodock.pytorch.loading import loaded
from deplodock.pytorch.saved import ProgramFile
from deplodock.runtime.device import POISON
from deplodock.runtime.graph_timing import Timing
from deplodock.tools.bench.report import COMPILED, COMPILED_LOOP, EAGER, EAGER_LOOP, OWN, OWN_LOOP, short
from deplodock.tools.suite.building import built, drawn
from deplodock.tools.suite.checking import differences, in_double, seeded, wrong
from deplodock.tools.suite.state import ModuleState
from deplodock.tools.suite.timing import in_graph, times

_LEFT = "deplodock leaves to PyTorch: "
"""How the warning of our backend begins that says what PyTorch runs."""

_COMPILED = re.compile(r"deplodock: compiled .*?: (?P<what>(?P<count>\d+) of \d+ operations, as \d+ programs)")
"""What our backend logs of what it compiles."""

_SLOW_US = 1e6
"""From so many microseconds on, a call is not put into a graph."""

_GRAPHS = {EAGER_LOOP: EAGER, COMPILED_LOOP: COMPILED, OWN_LOOP: OWN}
"""The graph of a contestant by its loop; ours is the last, and its result stays."""


@dataclass(frozen=True)
class Subject:
    """A problem ready to run: PyTorch's module, ours with the module whose buffers it writes, and the arguments."""

    path: Path
    device: str
    module: nn.Module
    own: Callable[..., Any]
    own_module: nn.Module
    args: Sequence[Any]


def subject(path: Path, program: ProgramFile | None, device: str, precision: str = PRECISIONS[0]) -> Subject:
    """A problem on a device. A program that could not be compiled as a whole is one of our backend of torch.compile.

    Ours takes the weights of PyTorch's module; only that backend has a module of its own.
    """
    module, args = built(path, device)
    if program is not None:
        return Subject(path, device, module, loaded(str(path), program, module, place_of(device)), module, args)
    own, _ = built(path, device)
    compiled = torch.compile(own, backend="deplodock", options={"precision": precision})
    return Subject(path, device, module, compiled, own, args)


@dataclass(frozen=True)
class Checked:
    """What is wrong with our results, empty if nothing is.

    `results` are those that a further call must give, None if it need not. `left` is what our backend of torch.compile
    leaves to PyTorch, and why; `parts` says what it compiles.
    """

    reason: str
    results: Sequence[torch.Tensor] | None
    left: Sequence[str]
    parts: Sequence[str]


class _Parts(logging.Handler):
    """Collects what our backend says that it compiles."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        match = _COMPILED.match(record.getMessage())
        if match is not None and match["count"] != "0":
            self.found.append(match["what"])


@contextmanager
def _told() -> Iterator[tuple[list[str], list[str]]]:
    """What our backend leaves to PyTorch, and what it compiles, while it lasts: both lists are complete at the end.

    Recurrent layers are among what is left; TorchDynamo would run the function that calls one without us.
    """
    logger, parts, left = logging.getLogger("deplodock"), _Parts(), list[str]()
    level = logger.level
    logger.addHandler(parts)
    logger.setLevel(logging.INFO)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            torch._dynamo.config.patch(allow_rnn=True),
            without_cells(),
        ):
            warnings.simplefilter("always")
            yield left, parts.found
        texts = [str(each.message) for each in caught]
        left += [text.removeprefix(_LEFT) for text in texts if text.startswith(_LEFT)]
    finally:
        logger.setLevel(level)
        logger.removeHandler(parts)


def check(given: Subject) -> Checked:
    """Compare our results, and what calls leave in the module, with PyTorch's: both draw the same random numbers."""
    is_whole = given.own_module is given.module
    state, versions = ModuleState(given.module), _versions(given.args)
    own_state = state if is_whole else ModuleState(given.own_module)
    expected = [*state.apart(seeded(given.module, given.args)), *ModuleState(given.module).values]
    state.restore()
    writes = versions != _versions(given.args)

    def args() -> Sequence[Any]:
        """The arguments as they were: if calls write into them, they are drawn anew."""
        return drawn(given.path, given.device) if writes else given.args

    def precise() -> list[torch.Tensor]:
        state.restore()
        return in_double(given.module, args())

    with nullcontext(([], [])) if is_whole else _told() as (left, parts):
        results = seeded(given.own, args())
    reason = wrong([*results, *ModuleState(given.own_module).values], expected, precise)
    own_state.restore()
    return Checked(reason, results if is_whole and not writes else None, left, parts)


def _versions(args: Sequence[Any]) -> list[int]:
    """How often each tensor was written into."""
    return [value._version for value in pytree.tree_leaves(list(args)) if isinstance(value, torch.Tensor)]


def measure(
    path: Path, program: ProgramFile | None, refusal: str, *, compiled: bool, precision: str = PRECISIONS[0]
) -> dict[str, Any]:
    """Check and time a problem on the GPU: what a row of the results has, or {"error": why}.

    PyTorch's TF32 is off, unless our products of FP32 are of the precision `medium`. A problem that is no program as a
    whole, because of the refusal, runs in the parts that we compile and those left to PyTorch, which may be all of it.
    `compiled` says whether torch.compile takes part.
    """
    start = time.perf_counter()
    with torch.no_grad(), pytorch_beside(precision):
        given = subject(path, program, "cuda", precision)
        checked = check(given)
        if checked.reason:
            return {"error": f"wrong: {checked.reason}"}
        states = [ModuleState(module) for module in dict.fromkeys((given.module, given.own_module))]
        runs, without = _contestants(given, compiled)
        loops = times(runs)
        graphs, reason = _graphs(runs, loops, without, states, checked.results)
    if reason:
        return {"error": f"the timed runs are wrong: {reason}"}
    timings = [asdict(timing) for timing in (*loops, *graphs)]
    facts = {
        "left": [*([refusal] if refusal else []), *checked.left],
        "parts": checked.parts,
        "without": without,
        "launches": None if program is None else len(program.planned.plan.launches),
        "seconds": round(time.perf_counter() - start, 3),
    }
    return {"passed": True, "bench": {"timings": timings, **facts}}


def _contestants(given: Subject, compiled: bool) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The calls from Python, ours the last, and the contestants that do not run, with the reasons."""
    runs: dict[str, Callable[[], Any]] = {EAGER_LOOP: partial(given.module, *given.args)}
    without: dict[str, str] = {}
    if compiled:
        peer = partial(torch.compile(given.module, dynamic=False), *given.args)
        try:
            peer()
            runs[COMPILED_LOOP] = peer
        except Exception as error:
            without[COMPILED_LOOP] = short(error)
    return {**runs, OWN_LOOP: partial(given.own, *given.args)}, without


def _graphs(
    runs: Mapping[str, Callable[[], Any]],
    loops: Sequence[Timing],
    without: dict[str, str],
    states: Sequence[ModuleState],
    expected: Sequence[torch.Tensor] | None,
) -> tuple[list[Timing], str]:
    """The times of replays of graphs, and what is wrong with ours; `without` gets why there is none of a contestant.

    Each starts from the same state of the modules, whose tensors live on where a call replaces them. What ours gives is
    overwritten, and compared after one more replay: it is what was timed that is right.
    """
    pool, replays, result = torch.cuda.graph_pool_handle(), dict[str, Callable[[], Any]](), None
    taken = {timing.name: timing.microseconds for timing in loops}
    for name, run in runs.items():
        if taken[name] > _SLOW_US:
            without[_GRAPHS[name]] = f"a call takes {taken[name] * 1e-6:.1f} s"
            continue
        result = None
        for state in states:
            state.restore()
        try:
            graph, result = in_graph(run, pool)
            replays[_GRAPHS[name]] = graph.replay
        except RuntimeError as error:
            without[_GRAPHS[name]] = short(error)
    found = times(replays)
    if OWN not in replays or expected is None:
        return found, ""
    values = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    for value in values:
        torch.empty(0, dtype=torch.uint8, device=value.device).set_(value.untyped_storage()).fill_(POISON)
    replays[OWN]()
    return found, differences(values, expected)
