"""The loop: what it measures, what it repeats, and that it ends the same whatever comes in between."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from recorded import Played

from deplodock.errors import InvalidInputError
from deplodock.runtime.tuned import write_tuned
from deplodock.tune.candidate import Candidate, Measure, Measurement
from deplodock.tune.journal import Journal, read_journal
from deplodock.tune.lowering import Lowered
from deplodock.tune.search import strategies
from deplodock.tune.table import Table
from deplodock.tune.tuned import entry_of
from deplodock.tune.tuning import Budget, Outcome, Progress, tune

CARD = "NVIDIA H200"


def tuned(played: Played, journal: Journal | None = None, measure: Measure | None = None, budget: int = 24) -> Outcome:
    return tune(
        played.task,
        played.table.space,
        measure or played.measure,
        played.lower,
        budget=Budget(budget),
        journal=journal,
        batch=4,
    )


@pytest.mark.parametrize("strategy", strategies())
def test_the_budget_counts_distinct_codes(played: Played, strategy: str) -> None:
    outcome = tune(played.task, played.table.space, played.measure, played.lower, strategy=strategy, budget=Budget(30))
    assert outcome.measured == len(played.measured) == len(set(played.measured)) == 30
    assert outcome.best.us is not None
    assert outcome.heuristic.us is not None
    assert outcome.best.us <= outcome.heuristic.us


def test_the_heuristic_is_measured_first_alone_and_not_lost_to_noise(played: Played) -> None:
    first = played.table.space.schedule(played.table.space.start)
    calls: list[int] = []

    def measure(candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        calls.append(len(candidates))
        for one in candidates:
            us = 100.0 if one.schedule == first else 99.5
            yield Measurement(one.kernel, one.schedule, one.code, "ok", us)

    outcome = tuned(played, measure=measure)
    assert calls[0] == 1
    assert outcome.best == outcome.heuristic
    assert outcome.best.schedule == first
    assert outcome.gain == 1


def test_failures_are_remarked_and_refusals_cost_nothing(played: Played) -> None:
    statuses = ("wrong", "unstable", "hang", "fault", "refused", "refused")
    count = 0

    def measure(candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        nonlocal count
        for one, found in zip(candidates, reversed(list(played.measure(candidates))), strict=True):
            count += 1
            status = statuses[count - 2] if 2 <= count < 8 else "ok"
            yield found if status == "ok" else Measurement(*_key(one), status, None, "as planted")

    outcome = tuned(played, measure=measure)
    assert outcome.measured == 24
    assert outcome.refused == 2
    assert count == 26
    assert [remark.partition(":")[0] for remark in outcome.remarks] == ["wrong", "unstable", "hang", "fault"]
    assert all(remark.endswith("as planted") for remark in outcome.remarks)


def _key(one: Candidate) -> tuple[str, str, str]:
    return one.kernel, one.schedule, one.code


def in_child(run: Callable[[], object]) -> int:
    """Run a function in a forked process. Returns its id."""
    if child := os.fork():
        return child
    try:
        run()
    finally:
        os._exit(0)


def test_a_run_that_is_killed_ends_as_one_that_is_not(played: Played, tmp_path: Path) -> None:
    """By kill -9 at twenty moments, some before the first line and some after the last."""
    whole = tuned(played, Journal(tmp_path / "whole", CARD))

    def slow(candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for found in played.measure(candidates):
            time.sleep(0.001)
            yield found

    draw, counts = random.Random(5), set[int]()
    for at in range(20):
        folder = tmp_path / str(at)
        child = in_child(lambda folder=folder: tuned(played, Journal(folder, CARD), slow))
        time.sleep(draw.uniform(0.005, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        written = read_journal(folder).entries if folder.exists() else ()
        counts.add(len(written))
        played.measured.clear()
        again = tuned(played, Journal(folder, CARD))
        assert replace(again, repeated=0) == whole
        assert again.repeated == len(written)
        assert len(played.measured) == 24 - len(written)
    assert len(counts) > 2


def test_a_line_that_was_half_written_is_measured_again(played: Played, tmp_path: Path) -> None:
    whole = tuned(played, Journal(tmp_path, CARD))
    (file,) = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-40])
    played.measured.clear()
    assert replace(tuned(played, Journal(tmp_path, CARD)), repeated=0) == whole
    assert len(played.measured) == 1


def test_two_processes_share_a_journal(played: Played, tmp_path: Path) -> None:
    run = partial(tune, played.task, played.table.space, played.measure, played.lower, budget=Budget(24))
    children = [
        in_child(lambda seed=seed: run(journal=Journal(tmp_path, CARD), seed=seed, strategy="random"))
        for seed in (1, 2)
    ]
    for child in children:
        os.waitpid(child, 0)
    found = read_journal(tmp_path)
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    assert 24 < len({entry.measurement.code for entry in found.entries}) <= len(found.entries) <= 48
    assert not found.complaints
    for seed in (1, 2):
        again = run(journal=Journal(tmp_path, CARD), seed=seed, strategy="random")
        assert again.repeated == again.measured == 24


def test_a_replay_gives_the_same_file(played: Played, tmp_path: Path) -> None:
    outcome = tuned(played, Journal(tmp_path / "journal", CARD))
    played.measured.clear()
    again = tune(
        played.task, played.table.space, None, played.lower,
        budget=Budget(24), journal=Journal(tmp_path / "journal", CARD), batch=4,
    )  # fmt: skip
    for name, found in (("first", outcome), ("again", again)):
        write_tuned(tmp_path / name, [entry_of(found, CARD, found.task.name)])
    assert (tmp_path / "first").read_bytes() == (tmp_path / "again").read_bytes()
    assert not played.measured


def test_a_replay_ends_where_the_journal_does(played: Played, tmp_path: Path) -> None:
    tuned(played, Journal(tmp_path, CARD), budget=10)
    journal = Journal(tmp_path, CARD)
    outcome = tune(played.task, played.table.space, None, played.lower, budget=Budget(50), journal=journal, batch=4)
    assert 1 < outcome.measured <= 10


def test_a_replay_needs_the_heuristic(played: Played, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="the journal has no measurement of it"):
        tune(played.task, played.table.space, None, played.lower, journal=Journal(tmp_path, CARD))


def test_a_stale_line_is_named_and_measured_again(played: Played, tmp_path: Path) -> None:
    tuned(played, Journal(tmp_path, CARD))
    (file,) = tmp_path.glob("*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    old = read_journal(file).entries[5].measurement
    lines[5] = lines[5].replace(old.code, "0" * 16)
    file.write_text("".join(lines))
    played.measured.clear()
    outcome = tuned(played, Journal(tmp_path, CARD))
    assert played.measured == [old.code]
    assert outcome.remarks == (f"stale: {old.schedule}: it gave another CUDA text when it was measured",)


def test_a_refused_schedule_has_no_time(played: Played, table: Table) -> None:
    def lower(schedules: Sequence[str]) -> Iterable[Lowered]:
        for place, lowered in enumerate(played.lower(schedules)):
            is_refused = lowered.candidate.schedule != table.space.schedule(table.space.start) and place % 2
            refused = replace(lowered.candidate, code="")
            yield Lowered(refused, "", "the rule lost an option") if is_refused else lowered

    outcome = tune(played.task, table.space, played.measure, lower, budget=Budget(24), batch=4)
    assert outcome.measured == 24
    assert outcome.refused > 5


def test_conflicts_in_shared_memory_are_not_measured(played: Played, table: Table) -> None:
    """Those of the heuristic's own schedule, or a little more, are."""

    def lower(schedules: Sequence[str]) -> Iterable[Lowered]:
        for lowered in played.lower(schedules):
            yield replace(lowered, conflicts=4.0 if "double-buffer{depth=3}" in lowered.candidate.schedule else 1.6)

    measured: list[str] = []

    def measure(candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        measured.extend(one.schedule for one in candidates)
        return played.measure(candidates)

    outcome = tune(played.task, table.space, measure, lower, strategy="random", budget=Budget(40))
    assert "double-buffer{depth=3}" not in table.space.schedule(table.space.start)
    assert outcome.measured == 40
    assert outcome.refused > 5
    assert not any("double-buffer{depth=3}" in schedule for schedule in measured)


def test_progress_counts_up(played: Played) -> None:
    seen: list[Progress] = []
    tune(played.task, played.table.space, played.measure, played.lower, budget=Budget(12), observe=seen.append)
    assert [progress.measured for progress in seen] == list(range(1, 13))
    times = [progress.best.us for progress in seen if progress.best and progress.best.us]
    assert times == sorted(times, reverse=True)


def test_a_batch_is_added_before_the_last_one_is_read(played: Played) -> None:
    events: list[str] = []

    def measure(candidates: Sequence[Candidate]) -> Iterable[Measurement]:
        events.append(f"start {len(candidates)}")

        def results() -> Iterator[Measurement]:
            yield from played.measure(candidates)
            events.append("end")

        return results()

    tuned(played, measure=measure, budget=13)
    assert events == ["start 1", "end", "start 4", "start 4", "end", "start 4", "end", "end"]


@pytest.mark.parametrize("text", ["", "0", "s", "-4", "4m", "1.5"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="a budget is a number of measurements, as 64, or of seconds, as 30s"):
        Budget.read(text)


def test_a_strategy_that_there_is_not_is_refused(played: Played) -> None:
    with pytest.raises(InvalidInputError, match="there is no strategy 'greedy'; there are mcts, random"):
        tune(played.task, played.table.space, played.measure, played.lower, strategy="greedy")
