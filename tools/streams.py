"""Standard streams that are closed, as by `>&-` in a shell: Python then has None in their place.

What is written to a closed output, or read from a closed input, would be lost without a word, so it is an error;
messages to a closed standard error are what the user does not want to see.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import NoReturn


class _ClosedInput(io.RawIOBase):
    """A standard input that cannot be read."""

    def readable(self) -> bool:
        """Reading is tried, to fail."""
        return True

    def read(self, size: int = -1, /) -> NoReturn:
        """Fail."""
        raise _closed("input")


class _ClosedOutput(io.TextIOBase):
    """A standard output that cannot be written; it holds nothing back, so that nothing fails as the process ends."""

    def write(self, text: str, /) -> int:
        """Fail, unless there is nothing to write."""
        if text.encode():
            raise _closed("output")
        return 0


def _closed(name: str) -> OSError:
    return OSError(errno.EBADF, f"standard {name} is closed")


def replace_closed() -> None:
    """Put streams that fail, or for standard error one that forgets, in the place of closed ones.

    Their file descriptors are taken by the null device: a file that is opened later would get them, and what other
    programs write to their output would land in it.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or io.TextIOWrapper(_ClosedInput())  # pyright: ignore[reportArgumentType]
    sys.stdout = sys.stdout or _ClosedOutput()  # pyright: ignore[reportAttributeAccessIssue]
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
