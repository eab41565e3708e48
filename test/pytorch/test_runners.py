"""How the runner of the GPU binds tensors and orders streams, with the driver and the streams replaced by records."""

from __future__ import annotations

import threading
from collections.abc import Sequence
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
class Launches:
    """Notes where buffers lie."""

    numbers: Sequence[int]
    placed: list[dict[int, int]] = field(default_factory=list[dict[int, int]])

    def place(self, addresses: Sequence[int]) -> None:
        self.placed.append(dict(zip(self.numbers, addresses, strict=True)))


@dataclass
class Executable:
    """A program of two inputs, of which it gives the second, an output of its own, and a buffer that nobody sees."""

    module: object
    gpu: int
    plan: ProgramPlan = PLAN

    def bind(self, numbers: Sequence[int]) -> Launches:
        return Launches(numbers)

    def launch(self, launches: Launches, stream: int) -> None:
        LOG.append(f"launch on {stream}")


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    """A list that holds the current stream."""
    held = [Stream("null")]
    LOG.clear()
    monkeypatch.setattr(runners, "Executable", Executable)
    monkeypatch.setattr(runners, "current_stream", lambda gpu: held[0].cuda_stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: held[0])
    monkeypatch.setattr(Executable, "is_capturing", lambda self, stream: held[0].name == "captured", raising=False)
    return held


def runner(reused: int = 0) -> Any:
    results = [torch.ones(2), torch.ones(3)]
    return runners.CudaRunner(None, torch.device("cpu"), results, reused)  # pyright: ignore[reportArgumentType]


def test_tensors_are_bound_where_they_are(current: list[Stream]) -> None:
    run, x, y = runner(), torch.ones(2), torch.ones(3)
    first, second = run([x, y])
    assert torch.equal(second, y)
    assert second is not y
    (addresses,) = run._launches.placed
    assert addresses[0] == x.data_ptr()
    assert addresses[1] == y.data_ptr()
    assert addresses[2] == first.data_ptr()
    assert len(set(addresses.values())) == 4
    shifted = torch.ones(4)[1:3]
    run([shifted, y])
    assert run._launches.placed[1][0] not in (0, shifted.data_ptr())
    assert LOG == ["launch on 0"] * 2


def test_reused_results_lie_where_they_lay(current: list[Stream]) -> None:
    x, y = torch.ones(2), torch.ones(3)
    for reused in (0, 1):
        run = runner(reused)
        first, again = run([x, y])[0], run([x, y])[0]
        assert (first.data_ptr() == again.data_ptr()) is bool(reused)


def test_one_thread_binds_and_launches_at_a_time(current: list[Stream], monkeypatch: pytest.MonkeyPatch) -> None:
    """So none launches what another one has placed."""
    run, meeting, launched = runner(), threading.Barrier(2), list[object]()

    def place(addresses: Sequence[int]) -> None:
        with pytest.raises(threading.BrokenBarrierError):
            meeting.wait(timeout=0.05)
        run.last = addresses[0]

    monkeypatch.setattr(run._launches, "place", place)
    monkeypatch.setattr(run.executable, "launch", lambda launches, stream: launched.append(run.last))
    inputs = [[torch.ones(2), torch.ones(3)] for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, inputs))
    assert set(launched) == {given[0].data_ptr() for given in inputs}


def test_other_streams_are_ordered_by_events(current: list[Stream]) -> None:
    """Kernels are launched on the current stream itself."""
    run, x, y = runner(), torch.ones(2), torch.ones(3)
    run([x, y])
    for name, handle, waits in [
        ("first", 9, ["first waits for null"]),
        ("first", 9, []),
        ("captured", 10, []),
        ("second", 11, ["second waits for first"]),
    ]:
        LOG.clear()
        current[0] = Stream(name, handle)
        run([x, y])
        assert [*waits, f"launch on {handle}"] == LOG


def test_values_of_several_dtypes_are_written_back_in_as_many_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    stock = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]
    monkeypatch.setattr(
        torch, "_foreach_copy_", lambda targets, values: (copied.append(len(targets)), stock(targets, values))
    )
    targets = [torch.zeros(2), torch.zeros(3, dtype=torch.int64), torch.zeros(())]
    runners.write_back(targets, [torch.ones_like(target) for target in targets])
    assert all(bool((target == 1).all()) for target in targets)
    assert sorted(copied) == [1, 2]


def test_tensors_that_may_share_memory_count_as_sharing() -> None:
    """Those of which it takes long to find out, as which sums of strides are equal: whoever writes must ask."""
    memory, strides = torch.empty(90_000), (1009, 2003, 3011, 4019, 5021, 6029, 7039, 8053)
    views = [memory.as_strided((3,) * 8, strides, start) for start in (0, 500)]
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(*(view.numpy() for view in views), max_work=runners._WORK)
    assert runners.overlaps_of(views) == {(0, 1, 2000)}
    assert runners.overlaps_of([memory[0:10:2], memory[1:10:2]]) == set()


def test_tensors_lie_apart_where_each_ends_before_the_next_starts() -> None:
    memory = torch.empty(10)
    for views, apart in (
        ([memory[5:], memory[:5]], True),
        ([memory[4:], memory[:5]], False),
        ([memory[:1], memory[:1]], False),
        ([memory[::2], torch.empty(3)], False),
    ):
        assert runners.lie_apart(views, [view.numel() * 4 for view in views]) is apart
