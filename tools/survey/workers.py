"""Cases of a survey, each in a process of its own, which is ended when it takes too long."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

import torch

from deplodock.tools.survey.capturing import SurveyCase, captured
from deplodock.tools.survey.lowering import TargetResult, lowered

_FORK = multiprocessing.get_context("fork")


@dataclass
class CaseResult:
    """What came of a case so far: `error` is why there is no more of it, empty if all came."""

    case: SurveyCase
    graphs: int = 0
    capture_seconds: float = 0.0
    targets: list[TargetResult] = field(default_factory=list[TargetResult])
    error: str = ""


def survey(cases: Sequence[SurveyCase], targets: Sequence[str], limit: float, jobs: int) -> Iterator[CaseResult]:
    """What comes of cases, as they end; `jobs` of them at once, each in a fork of this process.

    `limit` is how many seconds a case may take to be captured, and for each target.
    """
    waiting, running = list(cases)[::-1], list[_SurveyProcess]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_SurveyProcess(waiting.pop(), targets, limit))
            wait([process.receiver for process in running], timeout=1.0)
            for process in list(running):
                if (result := process.result()) is not None:
                    running.remove(process)
                    yield result
    finally:
        for process in running:
            process.kill()


class _SurveyProcess:
    """A fork with a case, which sends what comes of it step by step."""

    def __init__(self, case: SurveyCase, targets: Sequence[str], limit: float) -> None:
        self._found, self._limit, self._end = CaseResult(case), limit, time.monotonic() + limit
        self.receiver, sender = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(target=_serve, args=(sender, case, targets))
        self._process.start()
        sender.close()

    def result(self) -> CaseResult | None:
        """What came of the case, None while it goes on."""
        found = self._found
        try:
            while self.receiver.poll():
                self._end = time.monotonic() + self._limit
                match self.receiver.recv():
                    case TargetResult() as lowered:
                        found.targets.append(lowered)
                    case (int() as graphs, float() as seconds):
                        found.graphs, found.capture_seconds = graphs, seconds
                    case text:
                        found.error = str(text)
                        self.kill()
                        return found
        except EOFError:
            self._process.join()
            found.error = f"the process ended with {self._process.exitcode}"
            return found
        if time.monotonic() > self._end:
            self.kill()
            found.error = f"no end in {self._limit:g} s"
            return found
        return None

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(sender: Connection, case: SurveyCase, targets: Sequence[str]) -> None:
    """In the fork: send the number of graphs and the seconds that they took, what they are on each target, and ''."""
    start = time.perf_counter()
    torch.set_num_threads(1)
    try:
        graphs = captured(case)
        sender.send((len(graphs), time.perf_counter() - start))
        for target in targets:
            sender.send(lowered(graphs, target))
        sender.send("")
    except Exception as error:
        sender.send(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
