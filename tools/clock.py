"""Where the time of a command goes."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from deplodock.tools.progress import working


class Clock:
    """The seconds of each part of a command, by name, in the order of their first use."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._parts: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        """Add to a part."""
        self._parts[name] = self._parts.get(name, 0.0) + seconds

    def since_start(self) -> float:
        """The seconds since the command started."""
        return time.perf_counter() - self._started

    def unaccounted(self) -> float:
        """The seconds since the command started that are of no part yet."""
        return self.since_start() - sum(self._parts.values())

    @contextmanager
    def part(self, name: str) -> Generator[None]:
        """Time the body as a part of the command, and show its name while it runs."""
        start = time.perf_counter()
        with working(name):
            yield
        self.add(name, time.perf_counter() - start)

    def report(self, foreign: tuple[str, ...]) -> list[str]:
        """A line for each part, for the whole, and for what is left of it without the `foreign` parts."""
        total = self.since_start()
        own = total - sum(self._parts.get(name, 0.0) for name in foreign)
        apart = [name for name in foreign if name in self._parts]
        lines = [*self._parts.items(), ("total", total)]
        if apart:
            lines.append((f"total without {', '.join(apart)}", own))
        return [f"{seconds:8.3f} s  {name}" for name, seconds in lines]
