"""Runs samples of PyTorch's operator database in processes that are killed when one takes too long."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from deplodock.pytorch.compiled import compile
from deplodock.tools.opinfo_samples import Kind, Outcome, judge, samples

TYPES = ("float32", "bfloat16", "int64", "bool")
SAMPLES = 6
LIMIT = 30.0
"""The seconds that a sample may take."""
PARTS = 24
"""The fixed part is one of so many."""

_FORK = multiprocessing.get_context("fork")


def database() -> dict[str, Any]:
    """The entries of PyTorch's operator database by name and variant.

    Raises ImportError if what PyTorch's test utilities need is not installed.
    """
    entries = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    return {f"{entry.name}.{entry.variant_test_name}".rstrip("."): entry for entry in entries}


@dataclass(frozen=True)
class Choice:
    """Which samples of an operation run: of these element types the first `count`, or of those a fixed part."""

    types: Sequence[str] = TYPES
    count: int = SAMPLES
    is_part: bool = False

    def types_of(self, entry: Any) -> list[str]:
        """The element types that an operation has."""
        return [name for name in self.types if getattr(torch, name) in entry.dtypes]

    def numbers(self, name: str, kind: str) -> list[int]:
        """The samples of an element type of an operation, whether or not there are so many.

        A checksum decides what is in the fixed part, so that it is spread evenly and always the same.
        """
        drawn = range(self.count)
        if self.is_part:
            return [number for number in drawn if zlib.crc32(f"{name} {kind} {number}".encode()) % PARTS == 0]
        return list(drawn)


@dataclass
class _Work:
    """The samples of an operation, and the process that runs them; `outcomes` holds what has come from it."""

    name: str
    entry: Any
    choice: Choice
    outcomes: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    def kinds(self) -> list[str]:
        """The element types of which samples run."""
        return [kind for kind in self.choice.types_of(self.entry) if self.choice.numbers(self.name, kind)]

    def start(self) -> None:
        """Fork a process for the samples that have no outcome yet."""
        self.receiver, sender = _FORK.Pipe(duplex=False)
        self.process: BaseProcess = _FORK.Process(target=self._run, args=(sender,), daemon=True)
        self.running: tuple[str, int] | None = None
        self.process.start()
        sender.close()
        self.deadline = time.monotonic() + LIMIT

    def _run(self, sender: Connection) -> None:
        """In the fork: send the name of each sample before it runs, and its outcome after."""
        for kind in self.kinds():
            numbers = [n for n in self.choice.numbers(self.name, kind) if (kind, n) not in self.outcomes]
            if numbers:
                sender.send(((kind, numbers[0]), None))
                given = samples(self.entry, getattr(torch, kind), numbers[-1] + 1)
                for number, sample in enumerate(given):
                    if number in numbers:
                        sender.send(((kind, number), None))
                        sender.send(((kind, number), judge(sample)))
        sender.send(None)

    def proceed(self) -> bool:
        """Take what the process has sent, start another in place of one that died or hangs; False once all is done."""
        while self.receiver.poll():
            try:
                message = self.receiver.recv()
            except EOFError:
                self.process.join()
                return self._failed(Outcome(Kind.TRACEBACK, f"the process ended with {self.process.exitcode}"))
            if message is None:
                self.process.join()
                return False
            self.deadline = time.monotonic() + LIMIT
            self.running, outcome = message
            if outcome is not None and self.running is not None:
                self.outcomes[self.running] = outcome
        if time.monotonic() > self.deadline:
            self.process.kill()
            self.process.join()
            return self._failed(Outcome(Kind.TIMEOUT, f"it took more than {LIMIT:.0f} s"))
        return True

    def _failed(self, outcome: Outcome) -> bool:
        assert self.running is not None
        self.outcomes[self.running] = outcome
        self.start()
        return True


def run(entries: Mapping[str, Any], choice: Choice, jobs: int) -> Iterator[tuple[str, dict[str, dict[int, Outcome]]]]:
    """The outcomes of each operation, by element type and number of the sample, in the order in which they end.

    Each operation runs in a fork of this process, which has imported all that is needed; `jobs` of them at once.
    """
    torch.set_num_threads(1)
    compile(torch.abs, (torch.ones(2),))(torch.ones(2))
    gc.collect()
    gc.freeze()
    works = [_Work(name, entry, choice) for name, entry in entries.items()]
    waiting = [work for work in reversed(works) if work.kinds()]
    running: list[_Work] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(waiting.pop())
            running[-1].start()
        wait([work.receiver for work in running], timeout=1.0)
        for work in list(running):
            if not work.proceed():
                running.remove(work)
                found: dict[str, dict[int, Outcome]] = {}
                for (kind, number), outcome in work.outcomes.items():
                    found.setdefault(kind, {})[number] = outcome
                yield work.name, found
