"""Measurements as text: a folder of JSON lines, one file for each process that measures.

A line is written at once and is on disk before the next measurement starts, so a process that is killed loses the one
that it was at. Several processes, also of several hosts, may have one folder: each appends to a file of its own.

    {"kernel": "5f2c9a..", "what": "k_linear", "schedule": "tileify,..", "code": "9ac1..", "card": "NVIDIA H200",
     "status": "ok", "us": 298.2, "detail": "", "version": "0.4.0"}

Each measurement is of a kernel, a CUDA text and a card. So lines stay true whatever options rules gain or lose.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from deplodock.runtime.records import check_texts, is_time, json_lines
from deplodock.tune.candidate import STATUSES, Candidate, Measurement
from deplodock.version import __version__

_TEXTS = ("kernel", "schedule", "code", "card")
_NOTES = ("detail", "what", "version")
"""The fields that a line may be without."""


@dataclass(frozen=True)
class Entry:
    """A line of a journal."""

    measurement: Measurement
    card: str
    what: str = ""
    """A name of the kernel, for readers."""
    version: str = __version__
    """The version of deplodock that measured it."""

    def __str__(self) -> str:
        """The line, without its end."""
        return json.dumps({**asdict(self.measurement), "card": self.card, "what": self.what, "version": self.version})


@dataclass(frozen=True)
class Entries:
    """What stands in a journal: the lines that could be read, in order, and what is wrong with others."""

    entries: tuple[Entry, ...] = ()
    complaints: tuple[str, ...] = ()


def read_journal(path: Path) -> Entries:
    """The lines of a file, or of all files of a folder in the order of their names.

    A last line without its end, as a process leaves that is killed while it writes, counts as never written. Any other
    line that is no measurement is named in a complaint and left out. Raises OSError if a file cannot be read.
    """
    entries: list[Entry] = []
    complaints: list[str] = []
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for number, own in json_lines(file, _read, is_log=True):
            if isinstance(own, Entry):
                entries.append(own)
            else:
                complaints.append(f"{file}:{number}: no measurement: {own}")
    return Entries(tuple(entries), tuple(complaints))


@dataclass
class Journal:
    """What was measured on a card before, by any process, and the file to which this one adds.

    Raises OSError where the folder or a file cannot be read or made.
    """

    folder: Path
    card: str
    is_read: bool = True
    """Whether what the folder has counts as measured."""
    complaints: list[str] = field(default_factory=list[str], init=False)
    """What is wrong with lines of the folder."""
    measured: int = field(default=0, init=False)
    """What this process has added, without what was refused."""
    _known: dict[tuple[str, str], Measurement] = field(default_factory=dict[tuple[str, str], Measurement], init=False)
    _codes: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], set[str]], init=False)
    _file: int | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        if self.is_read and self.folder.exists():
            found = read_journal(self.folder)
            self.complaints += found.complaints
            self._add(found.entries)

    def append(self, measurement: Measurement, what: str = "") -> None:
        """Write a measurement, from any thread; it is on disk when this returns."""
        with self._lock:
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
                self._file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            entry = Entry(measurement, self.card, what)
            line = f"{entry}\n".encode()
            if (written := os.write(self._file, line)) != len(line):
                raise OSError(f"{self.folder}: only {written} of {len(line)} bytes of a line were written")
            os.fsync(self._file)
            self._add([entry])
            self.measured += measurement.status != "refused"

    def find(self, candidate: Candidate) -> Measurement | None:
        """What was measured of a kernel and a CUDA text, by whatever schedule it came about; None if nothing was."""
        found = self._known.get((candidate.kernel, candidate.code))
        return found and Measurement(**{**asdict(found), "schedule": candidate.schedule})

    def is_stale(self, candidate: Candidate) -> bool:
        """Whether the schedule was measured when it gave another CUDA text than now, and not since."""
        codes = self._codes.get((candidate.kernel, candidate.schedule), set())
        return bool(codes) and candidate.code not in codes

    def close(self) -> None:
        """Close the file; what is appended later starts another one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            found = entry.measurement
            if entry.card == self.card:
                self._known.setdefault((found.kernel, found.code), found)
                self._codes.setdefault((found.kernel, found.schedule), set()).add(found.code)


def _read(fields: Mapping[str, Any]) -> Entry:
    """The entry of a line. Raises ValueError that says what is wrong with it."""
    fields = dict[str, Any](dict.fromkeys(_NOTES, "")) | {**fields}
    check_texts(fields, (*_TEXTS, *_NOTES))
    given, us = fields.get("status"), fields.get("us")
    if given not in STATUSES:
        raise ValueError(f"the status must be one of {', '.join(STATUSES)}")
    status = STATUSES[STATUSES.index(given)]
    if is_time(us) != (status == "ok") or (us is not None and not is_time(us)):
        raise ValueError(f"us is {us} where the status is {status}")
    kernel, schedule, code, card, detail, what, version = (fields[name] for name in (*_TEXTS, *_NOTES))
    return Entry(Measurement(kernel, schedule, code, status, us, detail), card, what, version)
