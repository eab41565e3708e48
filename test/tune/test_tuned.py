"""Files of tuned schedules: what kernels take of them, and what becomes of their lines when the compiler changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level, lower, new_context, set_target
from deplodock.passes.tile.rule import read_schedule
from deplodock.runtime.tuned import ORIGIN, Tuned, TunedEntry, lower_tuned, read_tuned, write_tuned
from deplodock.schedule.steps import ATTRIBUTE
from deplodock.tune.lowering import Lowered, lower_schedule
from deplodock.tune.task import Task, tasks
from deplodock.tune.tuned import check_tuned

KERNEL = """
func.func @{name}(%{input}: memref<64x96xf32>, %out: memref<64xf32>) {{
  loop.for %i = 0 to 64 {{
    %sum = loop.reduce {{arith.addf}} %k = 0 to 96 : f32 {{
      %v = loop.load %{input}[%i, %k] : memref<64x96xf32>
      loop.yield %v : f32
    }}
    loop.store %sum, %out[%i] : memref<64xf32>
  }}
  func.return
}}
"""
CALLS = """
func.func @main(%x: memref<64x96xf32>, %out: memref<64xf32>) {
  func.call @k_sum(%x, %out) : (memref<64x96xf32>, memref<64xf32>) -> ()
  func.return
}
"""
SCHEDULE = "tileify,cooperative-reduce{threads=32},blockify-launch{threads=128}"
ENTRY = TunedEntry("k2", "k_sum", "NVIDIA H200", SCHEDULE, "c1", 9.5, 10.0, 64)


def sums(name: str = "k_sum", value: str = "x", target: str = "h200") -> ModuleOp:
    """Sums of rows, by a function and on a parameter of some names."""
    module = FloatLiteralsParser(new_context(), KERNEL.format(name=name, input=value) + CALLS.replace("k_sum", name))
    found = module.parse_module()
    set_target(found, target)
    return found


@pytest.fixture(scope="module")
def task() -> Task:
    """The sums as a task."""
    (found,) = tasks(sums())
    return found


def lowered(module: ModuleOp, tuned: Tuned) -> tuple[str, str]:
    """The schedule of the kernel at tile level, and where it comes from; kernel level is reached, too."""
    states: list[str] = []

    def step() -> None:
        lower(module, new_context(), Level.TILE)
        attributes = next(op.attributes for op in module.ops if ATTRIBUTE in op.attributes)
        states[:] = [str(attributes.get(name, "")).strip('"') for name in (ATTRIBUTE, ORIGIN)]
        lower(module, new_context(), Level.KERNEL)

    lower_tuned(module, tuned, step)
    return states[0], states[1]


def tuned(path: Path, *entries: TunedEntry) -> Tuned:
    write_tuned(path, entries)
    return read_tuned(path)


def test_a_file_is_sorted_and_read_back(tmp_path: Path) -> None:
    first = replace(ENTRY, kernel="k1", heuristic_us=None)
    for name, entries in (("a", (ENTRY, first)), ("b", (first, ENTRY))):
        write_tuned(tmp_path / name, entries)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert [*read_tuned(tmp_path / "a").entries.values()] == [first, ENTRY]


def test_the_files_that_are_shipped_are_read(repository: Path) -> None:
    files = list((repository / "bench" / "tuned").glob("*.jsonl"))
    assert files
    for entry in (entry for file in files for entry in read_tuned(file).entries.values()):
        read_schedule(entry.schedule)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    write_tuned(file := tmp_path / "t.jsonl", [ENTRY])
    text = file.read_text()
    file.write_text(text + '{"kernel": "k"}\n')
    with pytest.raises(InvalidInputError, match=r"t\.jsonl:2: error: no tuned schedule: it must have kernel, what"):
        read_tuned(file)
    file.write_text(text + text)
    with pytest.raises(InvalidInputError, match=r"t\.jsonl:2: error: no tuned schedule: line 1 is of the same kernel"):
        read_tuned(file)
    with pytest.raises(InvalidInputError, match=r"none: error: the file of tuned schedules cannot be read: No such"):
        read_tuned(tmp_path / "none")


def test_a_kernel_is_found_by_what_it_computes_and_for_which_target(task: Task) -> None:
    assert [each.key for each in tasks(sums("k_other", "y"))] == [task.key]
    assert [each.key for each in tasks(sums(target="a100"))] != [task.key]


def test_a_kernel_takes_its_schedule_and_says_where_it_comes_from(task: Task, tmp_path: Path) -> None:
    found = tuned(path := tmp_path / "t.jsonl", replace(ENTRY, kernel=task.key))
    assert lowered(sums("k_other", "y"), found) == (SCHEDULE, f"{path}:1")
    assert lowered(sums(target="a100"), found)[1] == ""


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("tileify,cooperative-reduce{warps=32}", "there is no option warps"),
        ("tileify,cooperative-reduce{threads=96 vector=1},blockify-launch{threads=3072}", "threads in a CTA"),
        ("tileify,blockify-launch(other){threads=64}", "no launch is called other"),
    ],
)
def test_a_refused_line_is_left_out_with_a_warning(
    schedule: str, reason: str, task: Task, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = tuned(path := tmp_path / "t.jsonl", replace(ENTRY, kernel=task.key, schedule=schedule))
    usual = lowered(sums(), Tuned(path))
    assert lowered(sums(), found) == usual
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"{path}:1: the schedule is left out, as it is refused: ")
    assert reason in message


def test_lines_are_fresh_stale_refused_or_unknown(task: Task) -> None:
    code = lower_schedule(task, SCHEDULE).candidate.code
    fresh = replace(ENTRY, kernel=task.key, code=code)
    entries = (
        fresh,
        replace(fresh, code="0"),
        replace(fresh, schedule="tileify,cooperative-reduce{warps=32}"),
        replace(fresh, kernel="0"),
    )
    numbered = Tuned(Path(), {str(number): entry for number, entry in enumerate(entries)})
    found = check_tuned(numbered, [task], lambda task: partial(_lower, task))
    assert [finding.state for finding in found] == ["fresh", "stale", "refused", "unknown"]
    assert "there is no option warps" in str(found[2])
    assert str(found[2]).startswith(f"refused: k_sum ({task.key}), tileify,cooperative-reduce{{warps=32}}: ")


def _lower(task: Task, schedules: Sequence[str]) -> list[Lowered]:
    return [lower_schedule(task, schedule) for schedule in schedules]
