"""Lines of JSON that somebody else may have written: tuned files, journals, tables and results read them alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from deplodock.errors import InvalidInputError
from deplodock.runtime.tuned import TunedEntry, read_tuned
from deplodock.tune.candidate import Measurement
from deplodock.tune.journal import read_journal
from deplodock.tune.table import read_table

pytest.importorskip("torch")

from deplodock.tools.bench.report import Result, read_results

ENTRY = TunedEntry("k2", "k_sum", "NVIDIA H200", "tileify", "c1", 9.5, 10.0, 64)
MEASUREMENT = Measurement("k1", "tileify", "c1", "ok", 12.5)
RESULT = Result("square", "linear", None, "", {})

LINES = {
    "a nest of lists": "[" * 100_000,
    "a nest of objects": '{"us": ' * 100_000,
    "a list": "[]",
    "a number": "3",
    "half an object": '{"kernel": "k2", ',
    "a number of 5000 digits": "9" * 5000,
    "nothing of JSON": "\0\0\0",
    "a line of 2 MB": '{"kernel": "' + "k" * (2 << 20) + '"}',
    "a million keys": json.dumps({str(number): 0 for number in range(50_000)}),
}


def tuned(path: Path) -> list[str]:
    try:
        read_tuned(path)
    except InvalidInputError as error:
        return [str(error)]
    return []


def results(path: Path) -> list[str]:
    try:
        read_results(path.parent)
    except InvalidInputError as error:
        return [str(error)]
    return []


def table(path: Path) -> list[str]:
    try:
        read_table(path)
    except InvalidInputError as error:
        return [str(error)]
    return []


READERS: dict[str, Callable[[Path], list[str]]] = {
    "tuned": tuned,
    "journal": lambda path: list(read_journal(path).complaints),
    "results": results,
    "table": table,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_no_record_is_one_line_of_complaint(tmp_path: Path, reader: str, line: str) -> None:
    (path := tmp_path / "results.jsonl").write_text(LINES[line] + "\n")
    (complaint,) = READERS[reader](path)
    assert complaint.startswith(f"{path}:1: ")
    assert complaint.isprintable()
    assert len(complaint) < len(str(path)) + 300


@pytest.mark.parametrize("reader", ["tuned", "journal", "results"])
def test_bytes_are_no_text(tmp_path: Path, reader: str) -> None:
    (path := tmp_path / "results.jsonl").write_bytes(b"\xff\xfe\n")
    assert [complaint.endswith("it is not UTF-8 text") for complaint in READERS[reader](path)] == [True]


@pytest.mark.parametrize("field", ["us", "heuristic_us"])
@pytest.mark.parametrize("us", ["Infinity", "-Infinity", "NaN", "1e-300", "-1", "0", "true", '"9.5"', "[]", "1e300"])
def test_a_time_that_no_kernel_takes_is_refused(tmp_path: Path, field: str, us: str) -> None:
    path = tmp_path / "t.jsonl"
    line = json.dumps({**asdict(ENTRY), field: "US"}).replace('"US"', us)
    path.write_text(line + "\n")
    (complaint,) = tuned(path)
    assert complaint.startswith(f"{path}:1: error: no tuned schedule: ")
    path.write_text(json.dumps({**asdict(MEASUREMENT), "card": "c", "us": "US"}).replace('"US"', us) + "\n")
    (complaint,) = READERS["journal"](path)
    assert complaint.startswith(f"{path}:1: no measurement: ")


@pytest.mark.parametrize(
    "change",
    [
        *({name: 3} for name in ("kernel", "what", "card", "schedule", "code", "version")),
        *({"measured": value} for value in (-1, 1.5, True, None, "64")),
        {"schedule": ["tileify"]},
        {"us": None},
    ],
)
def test_a_field_of_another_type_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (path := tmp_path / "t.jsonl").write_text(json.dumps(asdict(ENTRY) | change) + "\n")
    (complaint,) = tuned(path)
    assert complaint.startswith(f"{path}:1: error: no tuned schedule: ")


def test_results_of_other_fields_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for change in ({"name": 3}, {"bench": []}, {"conditions": None}, {"more": 1}):
        path.write_text(json.dumps(asdict(RESULT) | change) + "\n")
        (complaint,) = results(path)
        assert complaint.startswith(f"{path}:1: error: no result: ")


def test_what_is_no_file_of_lines_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    for name, reason in (("pipe", "no regular file"), ("/dev/zero", "no regular file"), ("sparse", "it has 10995")):
        with pytest.raises(InvalidInputError, match=f"the file of tuned schedules cannot be read: .*{reason}"):
            read_tuned(tmp_path / name)
        with pytest.raises(OSError, match=reason):
            read_journal(tmp_path / name)
