"""Runs samples of PyTorch's operator database in processes that are killed when one takes too long."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import signal
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

import torch

from deplodock.pytorch.function import compile
from deplodock.tools.opinfo.samples import SampleKind, SampleOutcome, judge, samples

TYPES = ("float32", "bfloat16", "int64", "bool")
SAMPLES = 6
LIMIT = 30.0
"""The seconds that a sample may take of its processor."""
PATIENCE = 10.0
"""How many times as long it may take on the clock, which runs on while others have the processor."""
PARTS = 96
"""The fixed part is one of so many."""
BATCH = 16
"""The operations that a process runs: to fork one costs about as much as a sample."""

_FORK = multiprocessing.get_context("fork")


def database() -> dict[str, Any]:
    """The entries of PyTorch's operator database by name and variant.

    Raises ImportError if what PyTorch's test utilities need is not installed.
    """
    entries = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    # For each list of samples PyTorch looks twice for the test that asks for it, in the sources of all that has called:
    # that takes as long as the samples themselves, and there is none.
    vars(importlib.import_module("torch.testing._internal.common_utils"))["extract_test_fn"] = _no_test
    vars(importlib.import_module("torch.testing._internal.opinfo.core"))["extract_test_fn"] = _no_test
    return {f"{entry.name}.{entry.variant_test_name}".rstrip("."): entry for entry in entries}


def _no_test() -> None:
    """The test of PyTorch's that runs."""


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


Job: TypeAlias = tuple[str, str, int]
"""A sample: its operation, element type and number."""


@dataclass
class _OpBatch:
    """Some operations, and the process that runs their samples; `outcomes` holds what has come from it."""

    entries: Mapping[str, Any]
    choice: Choice
    outcomes: dict[Job, SampleOutcome] = field(default_factory=dict)

    def start(self) -> None:
        """Fork a process for the samples that have no outcome yet."""
        self.receiver, sender = _FORK.Pipe(duplex=False)
        self.process: BaseProcess = _FORK.Process(target=self._run, args=(sender,), daemon=True)
        self.running: Job | None = None
        self.process.start()
        sender.close()
        self.deadline = time.monotonic() + LIMIT * PATIENCE

    def _run(self, sender: Connection) -> None:
        """In the fork: send the name of each sample before it runs, and its outcome after."""
        for name, entry in self.entries.items():
            for kind in self.choice.types_of(entry):
                drawn = self.choice.numbers(name, kind)
                numbers = [number for number in drawn if (name, kind, number) not in self.outcomes]
                if numbers:
                    _announce(sender, (name, kind, numbers[0]))
                    given = samples(entry, getattr(torch, kind), numbers[-1] + 1)
                    for number, sample in enumerate(given):
                        if number in numbers:
                            _announce(sender, (name, kind, number))
                            sender.send(((name, kind, number), judge(sample)))
        sender.send(None)

    def proceed(self) -> bool:
        """Take what the process has sent, start another in place of one that died or hangs; False once all is done."""
        while self.receiver.poll():
            try:
                message = self.receiver.recv()
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                late, died = f"it took more than {LIMIT:g} s", f"the process ended with {code}"
                is_late = code == -signal.SIGPROF
                return self._failed(
                    SampleOutcome(SampleKind.TIMEOUT, late) if is_late else SampleOutcome(SampleKind.TRACEBACK, died)
                )
            if message is None:
                self.process.join()
                return False
            self.deadline = time.monotonic() + LIMIT * PATIENCE
            self.running, outcome = message
            if outcome is not None and self.running is not None:
                self.outcomes[self.running] = outcome
        if time.monotonic() > self.deadline:
            self.process.kill()
            self.process.join()
            return self._failed(
                SampleOutcome(SampleKind.TIMEOUT, f"it took more than {LIMIT * PATIENCE:g} s on the clock")
            )
        return True

    def _failed(self, outcome: SampleOutcome) -> bool:
        assert self.running is not None
        self.outcomes[self.running] = outcome
        self.start()
        return True

    def results(self) -> Iterator[tuple[str, dict[str, dict[int, SampleOutcome]]]]:
        """The outcomes of each operation, by element type and number of the sample."""
        found: dict[str, dict[str, dict[int, SampleOutcome]]] = {}
        for (name, kind, number), outcome in self.outcomes.items():
            found.setdefault(name, {}).setdefault(kind, {})[number] = outcome
        yield from found.items()


def _announce(sender: Connection, job: Job) -> None:
    """Say which sample runs next, and let the system end this process once that takes too long."""
    sender.send((job, None))
    signal.setitimer(signal.ITIMER_PROF, LIMIT)


def run(
    entries: Mapping[str, Any], choice: Choice, jobs: int
) -> Iterator[tuple[str, dict[str, dict[int, SampleOutcome]]]]:
    """The outcomes of each operation, by element type and number of the sample, in the order in which they end.

    Batches of operations run in forks of this process, which has imported all that is needed; `jobs` of them at once.
    """
    torch.set_num_threads(1)
    compile(torch.abs, (torch.ones(2),))(torch.ones(2))
    gc.collect()
    gc.freeze()
    items = [(name, entry) for name, entry in entries.items() if _has_samples(name, entry, choice)]
    size = min(BATCH, -(-len(items) // jobs))
    batches = [_OpBatch(dict(items[start : start + size]), choice) for start in range(0, len(items), max(1, size))]
    waiting, running = batches[::-1], list[_OpBatch]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(waiting.pop())
            running[-1].start()
        wait([batch.receiver for batch in running], timeout=1.0)
        for batch in list(running):
            if not batch.proceed():
                running.remove(batch)
                yield from batch.results()


def _has_samples(name: str, entry: Any, choice: Choice) -> bool:
    return any(choice.numbers(name, kind) for kind in choice.types_of(entry))
