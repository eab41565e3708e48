"""Lowers several programs at once, in worker processes, as many as there are cores.

What a worker makes of a program is kept by its content (`runtime/lowering.py`, `runtime/cubins.py`), where this process
finds it when it lowers the same program: that then takes the time of reading. So what a worker cannot do, for whatever
reason, this process does, and raises the errors of.

A worker is a Python of its own, which sees no GPU and imports nothing of the caller's. It stays for further programs,
and ends with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from deplodock.dialects.kernel import TargetAttr
from deplodock.passes.driver import set_target
from deplodock.runtime.cubins import cache_folder
from deplodock.runtime.lowering import is_kept, located_text

_LOG = logging.getLogger("deplodock")
_COMMAND = (sys.executable, "-P", "-c", "from deplodock.runtime.worker import main; main()")
LEAST_LINES = 100
"""The lines of programs that take about as long to lower as a worker takes to start, a second."""

_ENDING = 5.0
"""The seconds that a worker has to end when it is asked to."""


@dataclass(frozen=True)
class Request:
    """A program to lower to kernel level, as text that says its target, and whether to compile its kernels, too.

    `tuned` names a file of schedules for its kernels.
    """

    text: str
    schedule: str | None
    tuned: str | None
    compiles: bool
    folder: str

    @staticmethod
    def of(
        module: ModuleOp,
        target: str | TargetAttr | None,
        schedule: str | None,
        *,
        compiles: bool,
        tuned: str | None = None,
    ) -> Request:
        """The request for a module, which is given its target. Raises InvalidInputError if there is no such target."""
        set_target(module, target)
        return Request(located_text(module), schedule, tuned, compiles, str(cache_folder()))


def lower_all(requests: Sequence[Request]) -> list[str]:
    """Lower programs in worker processes and wait for all; their messages of errors, each empty where there is none.

    One program alone is left to the caller, as are small ones, and all where nothing is kept.
    """
    distinct = list(dict.fromkeys(requests))
    if len(distinct) < 2 or not is_kept() or sum(request.text.count("\n") for request in distinct) < LEAST_LINES:
        return ["" for _ in requests]
    errors = dict(zip(distinct, workers(os.getpid()).answers(distinct), strict=True))
    return [errors[request] for request in requests]


@cache
def workers(process: int) -> Workers:
    """The workers of a process, which end with it. A fork, which must not talk to its parent's, has its own."""
    own = Workers(len(os.sched_getaffinity(process)))
    atexit.register(lambda: own.close() if os.getpid() == process else None)
    return own


class Workers:
    """Worker processes, `most` at a time, each started when there is work for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()

    def answers(self, requests: Sequence[Request]) -> list[str]:
        """What the workers answer: the message of an error, or nothing."""
        with ThreadPoolExecutor(min(self._most, len(requests)), "deplodock-worker") as threads:
            return list(threads.map(self._answer, requests))

    def close(self) -> None:
        """End all workers that wait for work."""
        with self._lock:
            ended, self._idle = self._idle, []
        for worker in ended:
            _end(worker)

    def _answer(self, request: Request) -> str:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        try:
            worker = worker or _started()
            answer = _asked(worker, request)
        except OSError as error:
            _LOG.debug("deplodock: a worker has ended: %s", error)
            if worker is not None:
                _end(worker)
            return f"the worker has ended: {error}"
        with self._lock:
            self._idle.append(worker)
        return answer


def _started() -> subprocess.Popen[str]:
    own = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(_COMMAND, env=os.environ | own, stdin=pipe, stdout=pipe, stderr=null, text=True)


def _asked(worker: subprocess.Popen[str], request: Request) -> str:
    """What a worker answers. Raises OSError if it does not, as it has ended."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(asdict(request)) + "\n")
    worker.stdin.flush()
    if not (line := worker.stdout.readline()):
        raise OSError("it gave no answer")
    return json.loads(line)


def _end(worker: subprocess.Popen[str]) -> None:
    """End a worker by ending its input."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired), worker:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait(_ENDING)
    worker.kill()
