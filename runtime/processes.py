"""A process that answers one request at a time, and is killed when it does not: a fault or a hang ends it alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_ENDING = 10.0
"""The seconds to wait for the end of a process that is killed."""

_SPAWNED = multiprocessing.get_context("spawn")
"""What has imported PyTorch may not be forked where a GPU is used."""


class TooLate(Exception):
    """A process has not answered in its time, and was killed."""


class Ended(Exception):
    """A process has ended instead of answering; the text says how."""


class Process:
    """A process, started when it is first asked, and again when it is asked after its end."""

    def __init__(self, serve: Callable[..., None], *args: Any) -> None:
        """`serve` is given a connection and `args` in the process; it receives requests and sends an answer to each."""
        self._serve, self._args = serve, args
        self._process: Any = None
        self._connection: Any = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not killed since."""
        return self._process is not None

    def ask(self, request: Any, limit: float) -> Any:
        """The answer to a request, which must come in so many seconds.

        Raises:
            TooLate: it does not.
            Ended: the process has ended.
        """
        connection = self._connection or self._start()
        try:
            connection.send(request)
            if connection.poll(limit):
                return connection.recv()
        except (EOFError, OSError):
            raise Ended(_ending(self.kill())) from None
        self.kill()
        raise TooLate

    def kill(self) -> int | None:
        """End the process, and wait until it is, so that the GPU's memory is free; its exit status, if there was one.

        Another thread may ask meanwhile, to which it has ended then.
        """
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is None:
            return None
        connection.close()
        process.join(0)
        if process.exitcode is None:
            process.kill()
        process.join(_ENDING)
        return process.exitcode

    def _start(self) -> Any:
        connection, other = _SPAWNED.Pipe()
        process = _SPAWNED.Process(target=_run, args=(self._serve, other, *self._args), daemon=True)
        process.start()
        other.close()
        self._process, self._connection = process, connection
        return connection


def _run(serve: Callable[..., None], connection: Connection, *args: Any) -> None:
    """Serve until there are no more requests. An interrupt is for the process that asks, which then ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        serve(connection, *args)


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"the process was killed by {signal.Signals(-status).name}"
    return "the process ended" if not status else f"the process ended with exit status {status}"
