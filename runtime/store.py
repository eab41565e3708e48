"""A folder of files by key: an entry says whose it is, and by its digest that it is whole.

An entry is a line `deplodock 1 KEY SHA-256` and the bytes that have this digest. What is damaged, or stands under
another key, is as if it were not there, and the next write replaces it. So is an entry, and a whole folder, that
anybody else may write: what is kept is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from functools import cache
from pathlib import Path

from deplodock.runtime.files import UNFINISHED, is_private, opened, why_not_private, write_whole

_LOG = logging.getLogger("deplodock")
_FORMAT = "deplodock 1"
_ABANDONED = 3600.0
"""The seconds after which a file that a writer has not finished counts as left behind by one that was killed."""

_MARKER = "CACHEDIR.TAG"
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# What deplodock keeps. All of it may be removed.\n"
"""What tells a folder that we made (https://bford.info/cachedir), in which unfinished files are ours."""


class Store:
    """The entries of a folder, which is made with the first of them, for its owner alone.

    A folder that cannot be written is no error: nothing is kept there, which the logger `deplodock` says once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> bytes | None:
        """The bytes that were written under a key, None if there are none that check."""
        if not is_used(self.folder):
            return None
        try:
            with opened(self._path(key)) as file:
                data = file.read() if is_private(os.fstat(file.fileno())) else b""
        except OSError:
            return None
        head, _, content = data.partition(b"\n")
        return content if head == _head(key, content) else None

    def write(self, key: str, content: bytes) -> None:
        """Keep bytes under a key, so that no other process sees half of them."""
        try:
            make_private(self.folder)
            if is_used(self.folder):
                _remove_abandoned(self.folder)
                write_whole(self._path(key), _head(key, content) + b"\n" + content, mode=0o600)
        except OSError as error:
            _note_once(f"the cache {self.folder} cannot be written: {error.strerror or error}")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.entry"


def make_private(folder: Path) -> None:
    """Make the folder of a store if it is not there, marked as ours. Raises OSError where that cannot be."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / _MARKER, _MARK, mode=0o600)


def is_used(folder: Path) -> bool:
    """Whether a folder is this user's alone, or is yet to be made; the logger `deplodock` says once why it is not."""
    if reason := why_not_private(folder):
        _note_once(f"the cache {folder} is not used: {reason}")
    return not reason


@cache
def _remove_abandoned(folder: Path) -> None:
    """Remove what killed writers left in a folder of ours; once in a process, as that looks through all of it."""
    with contextlib.suppress(OSError), opened(folder / _MARKER) as file:
        if file.read(len(_MARK) + 1) != _MARK.encode():
            return
        limit = time.time() - _ABANDONED
        for path in folder.glob(f"*{UNFINISHED}"):
            with contextlib.suppress(FileNotFoundError):
                if path.lstat().st_mtime < limit:
                    path.unlink()


def _head(key: str, content: bytes) -> bytes:
    return f"{_FORMAT} {key} {hashlib.sha256(content).hexdigest()}".encode()


@cache
def _note_once(text: str) -> None:
    _LOG.warning("%s", text)
