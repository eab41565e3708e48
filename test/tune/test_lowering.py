"""Tasks and their keys, and schedules of a task as CUDA text."""

import pytest
from row_sums import ROWS, module

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.planned import planned_program
from deplodock.schedule.steps import format_schedule, parse_schedule
from deplodock.tune.edits import edited
from deplodock.tune.lowering import Tiles, Trunk, lower_schedule, remembering
from deplodock.tune.table import Table
from deplodock.tune.task import module_of, tasks


def test_a_key_is_of_what_is_computed_and_the_target() -> None:
    (task,) = tasks(module(ROWS))
    renamed = ROWS.replace("%x", "%y").replace("%e", "%element").replace("k_sum", "k_other")
    (other,) = tasks(module(renamed))
    assert task.key == other.key
    assert (task.name, other.name) == ("k_sum", "k_other")
    assert tasks(module(ROWS, "h100"))[0].key != task.key
    assert tasks(module(ROWS.replace("addf", "mulf")))[0].key != task.key
    assert tasks(module(ROWS.replace("512", "256")))[0].key != task.key


def test_equal_kernels_are_one_task() -> None:
    twice = module(ROWS + ROWS.replace("k_sum", "k_again") + ROWS.replace("k_sum", "k_max").replace("addf", "maximumf"))
    assert [task.name for task in tasks(twice)] == ["k_sum", "k_max"]


def test_the_text_of_a_task_has_its_key_and_no_schedule() -> None:
    given = ROWS.replace("memref<64xf32>) {", 'memref<64xf32>) attributes {deplodock.schedule = "tileify"} {')
    (task,) = tasks(module(given))
    assert "deplodock.schedule" not in task.text
    assert tasks(FloatLiteralsParser(new_context(), task.text).parse_module()) == [task]


def test_schedules_of_equal_text_have_one_code() -> None:
    (task,) = tasks(module(ROWS))
    one, same, other = (
        lower_schedule(task, schedule)
        for schedule in (
            "tileify,cooperative-reduce{threads=32},blockify-launch{threads=128}",
            "tileify,cooperative-reduce{threads=32},blockify-launch{threads=128},pad-smem",
            "tileify,cooperative-reduce{threads=64},blockify-launch{threads=128}",
        )
    )
    assert one.candidate.code == same.candidate.code != other.candidate.code
    assert "__global__" in one.cuda
    assert one.candidate.kernel == task.key


def test_schedules_that_part_from_the_trunk_give_what_they_give_alone(table: Table) -> None:
    """At the first rule, at one in the middle, behind the last one, and by an option that is left to the heuristics."""
    base = table.space.schedule(table.space.start)
    changes = (
        "chunk-matmul-k.bk=16",
        "double-buffer.depth=4",
        "-mark-unroll",
        "stream-matmul-k.ctas=5",
        "",
        "register-tile.n=",
    )
    schedules = [format_schedule(edited(parse_schedule(base), [change])) for change in changes]
    trunk, texts = Trunk(table.task), set[str]()
    for schedule in reversed(schedules):
        module, context = module_of(table.task)
        lower(module, context, Level.KERNEL, schedule=schedule)
        tiles = trunk.tiles(schedule)
        assert isinstance(tiles, Tiles)
        lowered, program = trunk.kernel(tiles)
        assert program == planned_program(module)
        texts.add(lowered.cuda)
    assert len(texts) > 3


def test_conflicts_in_shared_memory_are_counted(table: Table) -> None:
    schedule = (
        "tileify,chunk-matmul-k{bk=32},blockify-launch{m=64 n=64},stage-inputs{transpose=auto},register-tile{m=4 n=4},"
        "permute-register-tile{m=strips n=strips lanes=nmnnm},double-buffer,async-copy"
    )
    assert lower_schedule(table.task, schedule).conflicts > 1.25
    assert lower_schedule(table.task, schedule + ",pad-smem").conflicts == 1
    assert lower_schedule(table.task, schedule.replace("transpose=auto", "transpose=never")).conflicts > 5


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("tileify,cooperative-reduce{threads=2048},blockify-launch", "threads in a CTA, the target allows 1024"),
        ("tileify,unroll", "names unroll, which is not one of"),
        ("tileify{", "malformed schedule"),
    ],
)
def test_a_refused_schedule_says_why(schedule: str, reason: str) -> None:
    (task,) = tasks(module(ROWS))
    lowered = lower_schedule(task, schedule)
    assert reason in lowered.refusal
    assert not lowered.candidate.code
    assert "\n" not in lowered.refusal


def test_a_schedule_is_lowered_once() -> None:
    (task,) = tasks(module(ROWS))
    asked: list[str] = []
    lower = remembering(lambda schedules: [asked.append(s) or lower_schedule(task, s) for s in schedules])
    first, second = lower(["tileify", "tileify"])
    (third,) = lower(["tileify"])
    assert first is second is third
    assert asked == ["tileify"]
