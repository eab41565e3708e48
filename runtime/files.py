"""Files in folders that others may know: what is read is a regular file, what is written is a new one, renamed at last.

So a pipe, a device or a folder in a file's place is refused at once, a link there is replaced and never followed by
what is written, and nobody sees a half of a file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

UNFINISHED = ".unfinished"
"""How the names of files end that are being written."""

_CHUNK = 1 << 20


@contextmanager
def opened(path: Path) -> Generator[IO[bytes]]:
    """A regular file, to be read. Raises OSError where it is none, or cannot be read."""
    # A pipe that nobody writes to must not block the reader.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refusal(path, "it is no regular file")
        yield file


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a regular file. Raises OSError where it is none, cannot be read, or has more bytes than `most`."""
    with opened(path) as file:
        check_size(file, path, most)
        return file.read(most)


def check_size(file: IO[bytes], path: Path, most: int) -> None:
    """Raise OSError for a file of more bytes than there may be."""
    if (size := os.fstat(file.fileno()).st_size) > most:
        raise _refusal(path, f"it has {size} bytes, and may have {most}")


def chunks(file: IO[bytes], most: int) -> Iterator[bytes]:
    """The content of a file, part by part. Raises ValueError after so many bytes as `most`."""
    while part := file.read(min(_CHUNK, most + 1)):
        most -= len(part)
        if most < 0:
            raise ValueError("it holds more than it says")
        yield part


def write_whole(path: Path, content: bytes | str, *, mode: int = 0o666) -> None:
    """Write a file, of which nobody sees a half; a link in its place is replaced. Text is written as UTF-8.

    Raises OSError where it cannot be written, or a folder or a device is there.
    """
    if path.is_char_device() or path.is_block_device():
        raise _refusal(path, "it is a device")
    unfinished = path.with_name(f".{secrets.token_hex(8)}{UNFINISHED}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(unfinished, flags, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


class FileLock:
    """A lock that processes of this user share: a file, which is open as long as this object lives."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where the file is a link, or somebody else's."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = open(os.open(path, flags, 0o600), "rb+", buffering=0)  # noqa: SIM115
        if not is_private(os.fstat(self._file.fileno())):
            raise _refusal(path, "it is not this user's alone: remove it")

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold it."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def _refusal(path: Path, reason: str) -> OSError:
    """An error of the system, as it has no number of its own for it."""
    return OSError(errno.EINVAL, reason, str(path))


def is_private(status: os.stat_result) -> bool:
    """Whether this user alone can have written a file or a folder."""
    return (
        (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def why_not_private(folder: Path) -> str:
    """Why what lies in a folder may be somebody else's; empty where it is this user's alone, or cannot be read."""
    try:
        status = folder.stat()
    except OSError:
        return ""
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    return "" if is_private(status) else f"others may write it: chmod go-w {folder}"
