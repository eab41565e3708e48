"""The cost model of any schedule of a contraction, its fit, and tables as files."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from row_sums import ROWS, module

from deplodock.errors import InvalidInputError
from deplodock.schedule.steps import parse_schedule
from deplodock.tune.edits import edited
from deplodock.tune.fit import fit
from deplodock.tune.model import Constants, model_of
from deplodock.tune.table import Table, read_table, write_table
from deplodock.tune.task import tasks

TILES = (
    "tileify,chunk-matmul-k{bk=32},blockify-launch{m=64 n=64},stage-inputs{transpose=auto},register-tile{m=8 n=4},"
    "permute-register-tile,double-buffer{depth=3},async-copy,pipeline-k-outer{distance=1 barrier=mbarrier}"
)


def test_a_fit_finds_the_constants_that_times_were_made_by(few_rows: Table) -> None:
    """From a start that is off, on a tenth of a table."""
    true = Constants(peak_share=0.6, copy_ns=1500.0, second_launch_ns=6000.0)
    model = model_of(few_rows.task, true)
    assert model is not None
    some = [point for place, point in enumerate(few_rows.times) if place % 10 == 0]
    times = {point: model(few_rows.space.steps(point)) / 1000 for point in some}
    made = replace(few_rows, times=times, codes={point: place for place, point in enumerate(some)})
    found = fit([made])
    assert found.before[made.what].error > 0.1
    assert found.after[made.what].error < 0.02
    assert found.constants.copy_ns == pytest.approx(1500, rel=0.15)
    assert "copy_ns" in str(found)


def test_a_fit_needs_a_contraction(table: Table) -> None:
    (task,) = tasks(module(ROWS))
    with pytest.raises(InvalidInputError, match="none of the tables is of a contraction of scalar products"):
        fit([Table("rows", "", task.text, table.space, table.codes, table.times)])


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("", "-pipeline-k-outer"),
        ("", "chunk-matmul-k.bk=8"),
        ("", "register-tile.m=1 register-tile.n=1"),
        ("", "double-buffer.depth=2"),
        ("", "split-matmul-k.s=16"),
    ],
)
def test_the_model_knows_what_costs(table: Table, better: str, worse: str) -> None:
    model = model_of(table.task)
    assert model is not None
    assert model(edited(parse_schedule(TILES), [better])) < model(edited(parse_schedule(TILES), [worse]))


def test_there_is_no_time_for_too_many_threads_and_for_tensor_cores(table: Table) -> None:
    model = model_of(table.task)
    assert model is not None
    assert math.isinf(model(parse_schedule("tileify,blockify-launch{m=128 n=128},register-tile{m=2 n=2}")))
    assert math.isinf(model(parse_schedule("tileify,blockify-launch{m=64 n=64},tensor-tile")))


def test_a_table_is_written_as_it_is_read(table: Table, tmp_path: Path) -> None:
    write_table(tmp_path / "a", table)
    write_table(tmp_path / "b", read_table(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_table(tmp_path / "a").times == table.times


def test_a_bad_line_of_a_table_is_named(table: Table, tmp_path: Path) -> None:
    write_table(file := tmp_path / "a", table)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], '["x"', *lines[3:]]))
    with pytest.raises(InvalidInputError, match="a:4: no line of a table of times"):
        read_table(file)
