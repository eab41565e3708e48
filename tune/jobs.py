"""Jobs that threads do, all of which can be called off: what waits for one is told, and nothing is started after."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

_AGAIN = 0.01
"""The seconds after which what runs is stopped again: a job may just have started a process."""

T = TypeVar("T")


class Jobs:
    """Does jobs in the order in which they come, so many at a time."""

    def __init__(self, count: int, name: str, stop: Callable[[], None]) -> None:
        """`name` is that of the threads; `stop` ends what jobs wait for, from another thread."""
        self._threads, self._stop, self._count = ThreadPoolExecutor(count, name), stop, count
        self._lock = Lock()
        self._seconds = 0.0
        self._running = 0
        self._is_closed = False

    @property
    def seconds(self) -> float:
        """The seconds that jobs took so far, those at a time as one."""
        return self._seconds / self._count

    def submit(self, job: Callable[..., T], *args: Any) -> Future[T]:
        """Do a job when its turn comes; the future of one that is called off is cancelled, or has CancelledError."""
        with self._lock:
            if not self._is_closed:
                return self._threads.submit(self._done, job, *args)
        cancelled = Future[T]()
        cancelled.cancel()
        return cancelled

    def check(self) -> None:
        """Raise CancelledError where jobs are called off: what a job found after that may be due to its end."""
        if self._is_closed:
            raise CancelledError

    def close(self) -> None:
        """Call all jobs off, and wait until none runs."""
        with self._lock:
            self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._stop()
        while self._running:
            time.sleep(_AGAIN)
            self._stop()

    def _done(self, job: Callable[..., T], *args: Any) -> T:
        with self._lock:
            self.check()
            self._running += 1
        start = time.monotonic()
        try:
            found = job(*args)
            self.check()
            return found
        finally:
            with self._lock:
                self._running -= 1
                self._seconds += time.monotonic() - start
