"""Recording a table is the way back from one."""

from dataclasses import replace
from math import prod
from pathlib import Path

from recorded import Played

from deplodock.tune.journal import Journal
from deplodock.tune.recording import record, small_space
from deplodock.tune.table import Table


def test_a_small_space_is_a_product_with_the_heuristic_first(table: Table) -> None:
    small = small_space(table.space, 100)
    assert len(small.points) == prod(len(decision.values) for decision in small.decisions) <= 100
    assert [decision.name for decision in small.decisions] == ["tile", "bk", "split"]
    assert small.start == (0, 0, 0)


def test_a_table_that_is_recorded_from_a_table_is_equal(played: Played, tmp_path: Path) -> None:
    table, journal = played.table, Journal(tmp_path, "x")
    some = tuple(table.times)[::9]
    space = replace(table.space, points=some)
    again = record(table.task, space, played.measure, played.lower, card="x", journal=journal)
    assert again.times == {point: table.times[point] for point in some}
    same = {(table.codes[point], again.codes[point]) for point in some}
    assert len(same) == len({table.codes[point] for point in some}) == len(played.measured)
    played.measured.clear()
    repeated = record(table.task, space, played.measure, played.lower, card="x", journal=Journal(tmp_path, "x"))
    assert repeated.times == again.times
    assert not played.measured
