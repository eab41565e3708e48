"""Files of tuned schedules, and what becomes of their lines when the compiler changes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from row_sums import ROWS, module

from deplodock.errors import InvalidInputError
from deplodock.tune.lowering import Lowered, lower_schedule
from deplodock.tune.task import Task, tasks
from deplodock.tune.tuned import Tuned, TunedEntry, check_tuned, read_tuned, write_tuned

ENTRY = TunedEntry("k2", "k_sum", "NVIDIA H200", "tileify", "c1", 9.5, 10.0, 64)
OTHERS = (replace(ENTRY, kernel="k1"), replace(ENTRY, card="NVIDIA H100", schedule="tileify,pad-smem"))


def test_a_file_is_sorted_and_read_back(tmp_path: Path) -> None:
    for name, entries in (("a", (ENTRY, *OTHERS)), ("b", (*OTHERS, ENTRY))):
        write_tuned(tmp_path / name, entries)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_tuned(tmp_path / "a").entries == (OTHERS[0], OTHERS[1], ENTRY)


def test_the_schedule_of_a_kernel_is_that_of_the_card() -> None:
    tuned = Tuned((ENTRY, *OTHERS))
    assert tuned.schedule_of("k2") == "tileify"
    assert tuned.schedule_of("k2", "NVIDIA H100") == "tileify,pad-smem"
    assert tuned.schedule_of("k2", "another") == "tileify"
    assert tuned.schedule_of("k3") is None


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    write_tuned(file := tmp_path / "t.jsonl", [ENTRY])
    file.write_text(file.read_text() + '{"kernel": "k"}\n')
    with pytest.raises(InvalidInputError, match=r"t\.jsonl:2: no tuned schedule: it must have card, code"):
        read_tuned(file)
    with pytest.raises(InvalidInputError, match="cannot be read as a file of tuned schedules"):
        read_tuned(tmp_path / "none")


def test_lines_are_fresh_stale_refused_or_unknown() -> None:
    (task,) = tasks(module(ROWS))
    schedule = "tileify,cooperative-reduce{threads=32},blockify-launch{threads=128}"
    code = lower_schedule(task, schedule).candidate.code
    fresh = replace(ENTRY, kernel=task.key, schedule=schedule, code=code)
    entries = (
        fresh,
        replace(fresh, code="0"),
        replace(fresh, schedule="tileify,cooperative-reduce{warps=32}"),
        replace(fresh, kernel="0"),
    )
    found = check_tuned(Tuned(entries), [task], lambda task: partial(_lower, task))
    assert [finding.state for finding in found] == ["fresh", "stale", "refused", "unknown"]
    assert "there is no option warps" in str(found[2])
    assert str(found[2]).startswith(f"refused: k_sum ({task.key}), tileify,cooperative-reduce{{warps=32}}: ")


def _lower(task: Task, schedules: Sequence[str]) -> list[Lowered]:
    return [lower_schedule(task, schedule) for schedule in schedules]
