"""A folder of files by key: an entry says by its digest that it is whole, and counts only if its owner wrote it.

An entry is a line `deplodock 1 SHA-256` and the bytes that have this digest. What is damaged, or belongs to somebody
else, is as if it were not there, and the next write replaces it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
import time
from functools import cache
from pathlib import Path

_LOG = logging.getLogger("deplodock")
_FORMAT = b"deplodock 1 "
_UNFINISHED = ".unfinished"
_ABANDONED = 3600.0
"""The seconds after which a file that a writer has not finished counts as left behind by one that was killed."""


class Store:
    """The entries of a folder, which is made with the first of them, for its owner alone.

    A folder that cannot be written is no error: nothing is kept there, which the logger `deplodock` says once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> bytes | None:
        """The bytes that were written under a key, None if there are none that check."""
        try:
            # A pipe in an entry's place must not block the reader.
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                data = file.read() if _is_trusted(os.fstat(descriptor)) else b""
        except OSError:
            return None
        head, _, content = data.partition(b"\n")
        return content if head == _head(content) else None

    def write(self, key: str, content: bytes) -> None:
        """Keep bytes under a key, so that no other process sees half of them."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.stat().st_uid != os.geteuid():
                raise PermissionError("it belongs to another user")
            _remove_abandoned(self.folder)
            self._replace(self._path(key), _head(content) + b"\n" + content)
        except OSError as error:
            _note_once(f"the cache {self.folder} cannot be written: {error.strerror or error}")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.entry"

    def _replace(self, path: Path, data: bytes) -> None:
        descriptor, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=self.folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


@cache
def _remove_abandoned(folder: Path) -> None:
    """Remove what killed writers left in a folder; once in a process, as a full folder takes long to look through."""
    limit = time.time() - _ABANDONED
    for path in folder.glob(f"*{_UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < limit:
                path.unlink()


def _head(content: bytes) -> bytes:
    return _FORMAT + hashlib.sha256(content).hexdigest().encode()


def _is_trusted(status: os.stat_result) -> bool:
    """Whether this user alone can have written a file."""
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


@cache
def _note_once(text: str) -> None:
    _LOG.warning("%s", text)
