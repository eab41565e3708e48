"""Journals as text: what is written, and what a reader makes of damaged lines."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.journal import Journal, read_journal

CARD = "NVIDIA H200"
GOOD = Measurement("k1", "tileify", "c1", "ok", 12.5)
BAD = Measurement("k1", "tileify,pad-smem", "c2", "hang", None, "no end in 2 s")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "new", CARD)
    journal.append(GOOD, "k_linear")
    journal.append(BAD)
    found = read_journal(tmp_path / "new")
    assert [entry.measurement for entry in found.entries] == [GOOD, BAD]
    assert [entry.what for entry in found.entries] == ["k_linear", ""]
    again = Journal(tmp_path / "new", CARD)
    assert again.find(GOOD.candidate) == GOOD
    assert again.find(Candidate("k1", "another,schedule", "c2")) == replace(BAD, schedule="another,schedule")
    assert again.find(Candidate("k2", "tileify", "c1")) is None


def test_times_of_another_card_do_not_count(tmp_path: Path) -> None:
    Journal(tmp_path, "NVIDIA H100").append(GOOD)
    journal = Journal(tmp_path, CARD)
    assert journal.find(GOOD.candidate) is None
    assert not journal.is_stale(replace(GOOD.candidate, code="c9"))


def test_a_schedule_that_gives_another_text_is_stale(tmp_path: Path) -> None:
    journal = Journal(tmp_path, CARD)
    journal.append(GOOD)
    now = replace(GOOD.candidate, code="c9")
    assert journal.find(now) is None
    assert journal.is_stale(now)
    journal.append(replace(GOOD, code="c9"))
    assert not journal.is_stale(now)


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_torn_last_line_was_never_written(tmp_path: Path, cut: int) -> None:
    journal = Journal(tmp_path, CARD)
    journal.append(GOOD)
    journal.append(BAD)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    found = read_journal(tmp_path)
    assert [entry.measurement for entry in found.entries] == [GOOD]
    assert not found.complaints


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"status": "good"}, "the status must be one of ok, wrong, unstable, hang, fault, refused"),
        ({"us": None}, "us is None where the status is ok"),
        ({"us": -1}, "us is -1 where the status is ok"),
        ({"status": "fault"}, "us is 12.5 where the status is fault"),
        ({"code": 3}, "code must be there, as text"),
    ],
)
def test_a_line_that_is_no_measurement_is_named(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    line = json.dumps({**asdict(GOOD), "card": CARD, **change})
    file = tmp_path / "a.jsonl"
    file.write_text(f"{line}\nnot json\n[]\n")
    found = read_journal(file)
    assert not found.entries
    assert found.complaints[0] == f"{file}:1: no measurement: {complaint}"
    assert found.complaints[1].startswith(f"{file}:2: no measurement: ")
    assert found.complaints[2] == f"{file}:3: no measurement: not an object"
    assert Journal(tmp_path, CARD).complaints == list(found.complaints)


def test_processes_have_files_of_their_own(tmp_path: Path) -> None:
    journals = [Journal(tmp_path, CARD) for _ in range(3)]
    for journal in journals:
        journal.append(GOOD)
        journal.close()
    assert len(list(tmp_path.iterdir())) == 3
    assert len(read_journal(tmp_path).entries) == 3
