"""How the runner of the GPU binds tensors and orders streams, with the driver and the streams replaced by records."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from deplodock.pytorch import runners
from deplodock.runtime.plan import BufferPlan, ProgramPlan

F32 = np.dtype(np.float32)
PLAN = ProgramPlan(tuple(BufferPlan((size,), F32) for size in (2, 3, 2, 5)), (0, 1), (2, 1), (), 0)
LOG: list[str] = []


@dataclass
class Stream:
    """A stream that notes for whom it waits."""

    name: str
    cuda_stream: int = 0

    def wait_stream(self, other: Stream) -> None:
        LOG.append(f"{self.name} waits for {other.name}")


@dataclass
class Executable:
    """A program of two inputs, of which it gives the second, an output of its own, and a buffer that nobody sees."""

    module: object
    plan: ProgramPlan = PLAN
    bound: list[dict[int, int]] = field(default_factory=list[dict[int, int]])

    def bind(self, addresses: Mapping[int, int]) -> str:
        self.bound.append(dict(addresses))
        return "calls"

    def launch(self, calls: str, stream: Stream | None = None) -> None:
        LOG.append(f"{calls} on {'the null stream' if stream is None else stream.name}")


class Own:
    """The stream of pycuda."""

    handle = 7
    name = "pycuda's"


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    """A list that holds the current stream."""
    held = [Stream("null")]
    LOG.clear()
    monkeypatch.setattr(runners, "Executable", Executable)
    monkeypatch.setattr(runners, "new_stream", Own)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: held[0])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: held[0].name == "captured")
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle, device: Stream("shared", handle))
    return held


def runner() -> Any:
    made = runners.CudaRunner(None, [torch.ones(2), torch.ones(3)])  # pyright: ignore[reportArgumentType]
    made.device = torch.device("cpu")
    return made


def test_tensors_are_bound_where_they_are(current: list[Stream]) -> None:
    run, x, y = runner(), torch.ones(2), torch.ones(3)
    first, second = run([x, y])
    assert second is y
    (addresses,) = run.executable.bound
    assert addresses[0] == x.data_ptr()
    assert addresses[1] == y.data_ptr()
    assert addresses[2] == first.data_ptr()
    assert len(set(addresses.values())) == 4
    shifted = torch.ones(4)[1:3]
    run([shifted, y])
    assert run.executable.bound[1][0] not in (0, shifted.data_ptr())
    assert LOG == ["calls on the null stream"] * 2


def test_one_thread_binds_and_launches_at_a_time(current: list[Stream], monkeypatch: pytest.MonkeyPatch) -> None:
    """So none launches what another one has bound."""
    run, meeting, launched = runner(), threading.Barrier(2), list[object]()

    def bind(addresses: Mapping[int, int]) -> int:
        with pytest.raises(threading.BrokenBarrierError):
            meeting.wait(timeout=0.05)
        return addresses[0]

    monkeypatch.setattr(run.executable, "bind", bind)
    monkeypatch.setattr(run.executable, "launch", launched.append)
    inputs = [[torch.ones(2), torch.ones(3)] for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, inputs))
    assert set(launched) == {given[0].data_ptr() for given in inputs}


def test_other_streams_are_ordered_by_events(current: list[Stream]) -> None:
    run, x, y = runner(), torch.ones(2), torch.ones(3)
    run([x, y])
    for name, waits in [
        ("first", ["first waits for null"]),
        ("first", []),
        ("captured", []),
        ("second", ["second waits for first"]),
    ]:
        LOG.clear()
        current[0] = Stream(name, 9)
        run([x, y])
        assert [*waits, f"shared waits for {name}", "calls on pycuda's", f"{name} waits for shared"] == LOG
