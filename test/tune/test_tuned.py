"""Files of tuned schedules: what kernels take of them, and what becomes of their lines when the compiler changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from deplodock.analysis.shape.nest import kernels
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level, StageRun, lower, new_context, set_target
from deplodock.passes.tensor.decisions import DECISIONS, PROGRAMS
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.passes.tile.rule import read_schedule
from deplodock.runtime.net import lower_held, lower_in_steps
from deplodock.runtime.planned import planned_program
from deplodock.runtime.tuned import (
    ORIGIN,
    AnyEntry,
    FusionEntry,
    Tuned,
    TunedEntry,
    lower_fused,
    read_tuned,
    take_schedules,
    write_tuned,
)
from deplodock.schedule.steps import ATTRIBUTE
from deplodock.tune.fusion import Fusions, digest, fusions_of, grouped
from deplodock.tune.lowering import Lowered, lower_schedule
from deplodock.tune.parts import TunedPart, TunedProgram
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
    states: dict[str, str] = {}

    def observe(run: StageRun, now: ModuleOp) -> None:
        attributes = next((op.attributes for op in now.ops if ATTRIBUTE in op.attributes), None)
        if run.level is Level.TILE and attributes is not None:
            states.update({name: str(attributes.get(name, "")).strip('"') for name in (ATTRIBUTE, ORIGIN)})

    lower_in_steps(module, tuned, partial(lower_held, module, new_context(), observer=observe))
    return states[ATTRIBUTE], states[ORIGIN]


def tuned(path: Path, *entries: AnyEntry) -> Tuned:
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
    with pytest.raises(InvalidInputError, match=r"t\.jsonl:2: error: no tuned schedule: line 1 is of the same, k2"):
        read_tuned(file)
    with pytest.raises(InvalidInputError, match=r"none: error: the file of tuned schedules cannot be read: No such"):
        read_tuned(tmp_path / "none")


@pytest.mark.parametrize(
    "schedule",
    [
        "{" * 10_000,
        "tileify" * 10_000,
        "tileify,blockify-launch{threads=" + "9" * 5000 + "}",
        "tileify\n\x1b[2J",
        "a,a",
    ],
)
def test_a_schedule_that_is_none_is_left_out_in_one_line(
    task: Task, tmp_path: Path, caplog: pytest.LogCaptureFixture, schedule: str
) -> None:
    found = tuned(path := tmp_path / "t.jsonl", replace(ENTRY, kernel=task.key, schedule=schedule))
    assert lowered(sums(), found)[1] == ""
    (record,) = caplog.records
    assert record.message.startswith(f"{path}:1: the schedule is left out, as it is refused: ")
    assert record.message.isprintable()
    assert len(record.message) < len(str(path)) + 500


def test_a_kernel_is_found_by_what_it_computes_and_for_which_target(task: Task) -> None:
    assert [each.key for each in tasks(sums("k_other", "y"))] == [task.key]
    assert [each.key for each in tasks(sums(target="a100"))] != [task.key]


def test_a_kernel_takes_its_schedule_and_says_where_it_comes_from(task: Task, tmp_path: Path) -> None:
    found = tuned(path := tmp_path / "t.jsonl", replace(ENTRY, kernel=task.key))
    schedule, origin = lowered(sums("k_other", "y"), found)
    assert [step.rule for step in read_schedule(schedule)] == [step.rule for step in read_schedule(SCHEDULE)]
    assert "threads=128" in schedule
    assert origin == f"{path}:1"
    assert lowered(sums(target="a100"), found)[1] == ""


def test_a_schedule_that_is_given_is_kept(task: Task, tmp_path: Path) -> None:
    """Whoever writes one on a kernel wants that, whatever a file has."""
    found, module = tuned(tmp_path / "t.jsonl", replace(ENTRY, kernel=task.key)), sums()
    (function,) = kernels(module)
    write_schedule(function, read_schedule("tileify,cooperative-reduce{threads=32},blockify-launch{threads=64}"))
    schedule, origin = lowered(module, found)
    assert "threads=64" in schedule
    assert not origin


def test_options_that_a_line_leaves_out_are_those_that_were_measured(task: Task, tmp_path: Path) -> None:
    entry = replace(ENTRY, kernel=task.key, schedule="tileify,cooperative-reduce,blockify-launch")
    given = tuned(tmp_path / "tuned.jsonl", entry)
    module, context = sums(), new_context()
    take_schedules(module, given)
    lower(module, context, Level.KERNEL)
    assert planned_program(module).text == lower_schedule(task, entry.schedule).cuda


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


FUSED = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  %b = tensor_ext.elementwise {arith.negf} %a : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
"""


def fused(text: str = FUSED) -> tuple[ModuleOp, Fusions]:
    """A program on tensors, which is one kernel, and what there is to decide of it."""
    module = FloatLiteralsParser(new_context(), text).parse_module()
    set_target(module, "h200")
    return module, fusions_of(str(module))


def line_of(fusions: Fusions, decisions: str) -> FusionEntry:
    digest_of_kernels = digest(grouped(fusions, decisions, {}))
    return FusionEntry(fusions.key, "main", "NVIDIA H200", decisions, digest_of_kernels, 9.0, 10.0, 3)


def test_lines_of_programs_and_kernels_share_a_file(tmp_path: Path) -> None:
    line = FusionEntry("a1", "main", "NVIDIA H200", "", "c1", 9.0, 10.0, 3)
    read = tuned(path := tmp_path / "t.jsonl", ENTRY, line)
    assert ([*read.fusions.values()], [*read.entries.values()]) == ([line], [ENTRY])
    assert (read.origin("a1"), read.origin("k2")) == (f"{path}:1", f"{path}:2")
    path.write_text('{"program": "a1"}\n')
    with pytest.raises(
        InvalidInputError, match=r"no tuned schedule: it must have program, what, card, decisions, kern"
    ):
        read_tuned(path)


def test_a_program_takes_its_decisions_and_says_where_they_come_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Through loops, where kernels take schedules; no warning is given."""
    (decision,) = fused()[1].added
    file = tuned(path := tmp_path / "t.jsonl", line_of(fused()[1], decision))
    module, _ = fused(FUSED.replace("%x", "%mine").replace("@main", "@other"))
    loops = lower_in_steps(module, file, partial(lower_held, module, new_context()))
    assert len(tasks(loops)) == 2
    for now in (loops, module):
        host = next(op for op in now.ops if ORIGIN in op.attributes)
        assert host.attributes[ORIGIN] == StringAttr(f"{path}:1")
        assert host.attributes[DECISIONS] == StringAttr(decision)
        assert PROGRAMS not in now.attributes
    other, _ = fused(FUSED.replace("math.exp", "math.sin"))
    lower_fused(other, file, lambda: lower(other, new_context(), Level.LOOP))
    assert len(tasks(other)) == 1
    assert not caplog.records


@pytest.mark.parametrize(
    ("decisions", "reason"),
    [
        ("exp-0=never", "deplodock.fusion decides exp-0, and no operation is that"),
        ("exp-2dee6ec6=often", "deplodock.fusion has words such as"),
        ("negf-30a6c909=always", '"always" is not possible: it is returned'),
    ],
)
def test_refused_decisions_are_left_out_with_a_warning(
    decisions: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module, fusions = fused()
    usual, _ = fused()
    lower(usual, new_context(), Level.LOOP)
    line = replace(line_of(fusions, ""), decisions=decisions)
    lower_fused(module, tuned(path := tmp_path / "t.jsonl", line), lambda: lower(module, new_context(), Level.LOOP))
    assert str(module) == str(usual)
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"{path}:1: the decisions of fusion are left out, as they are refused: ")
    assert reason in message


def test_an_error_that_decisions_are_not_to_blame_for_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module, fusions = fused()

    def fail() -> None:
        raise InvalidInputError("as planted")

    with pytest.raises(InvalidInputError, match="as planted"):
        lower_fused(module, tuned(tmp_path / "t.jsonl", line_of(fusions, "")), fail)
    assert not caplog.records


def test_lines_of_programs_are_fresh_stale_refused_or_unknown() -> None:
    module, fusions = fused()
    (decision,) = fusions.added
    fresh = line_of(fusions, decision)
    for line, state in (
        (fresh, "fresh"),
        (replace(fresh, decisions=""), "stale"),
        (replace(fresh, decisions="exp-0=never"), "refused"),
        (replace(fresh, program="0"), "unknown"),
    ):
        parts = grouped(fusions, "", {})
        kernel = replace(ENTRY, kernel=tasks_of(fusions, decision)[0].key, schedule="tileify")
        file = Tuned(Path(), {kernel.key: kernel}, {line.key: line})
        found = check_tuned(file, [TunedProgram(parts, str(module))], lambda task: partial(_lower, task))
        assert found[0].state == state
        assert (found[1].state == "unknown") == (state != "fresh")
    assert str(found[0]) == f"unknown: main (0), {decision}: there is no such program"


def tasks_of(fusions: Fusions, decisions: str) -> list[Task]:
    return [part.task for part in grouped(fusions, decisions, {})]


def test_lines_are_fresh_stale_refused_or_unknown(task: Task) -> None:
    code = lower_schedule(task, SCHEDULE).candidate.code
    fresh = replace(ENTRY, kernel=task.key, code=code)
    entries = (
        fresh,
        replace(fresh, code="0"),
        replace(fresh, schedule="tileify,cooperative-reduce{warps=32}"),
        replace(fresh, kernel="0"),
    )
    program = TunedProgram([TunedPart(task, 1, "", SCHEDULE)])
    numbered = Tuned(Path(), {str(number): entry for number, entry in enumerate(entries)})
    found = check_tuned(numbered, [program], lambda task: partial(_lower, task))
    assert [finding.state for finding in found] == ["fresh", "stale", "refused", "unknown"]
    assert "there is no option warps" in str(found[2])
    assert str(found[2]).startswith(f"refused: k_sum ({task.key}), tileify,cooperative-reduce{{warps=32}}: ")


def _lower(task: Task, schedules: Sequence[str]) -> list[Lowered]:
    return [lower_schedule(task, schedule) for schedule in schedules]
