"""The problems of a suite: their order, their choice, and what is no suite."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.errors import InvalidInputError
from deplodock.tools.bench.rows import chosen, read_names
from deplodock.tools.cli.app import app
from deplodock.tools.suite.problems import read_suite


def test_problems_are_rows_by_level_and_number(suite: Path) -> None:
    rows = read_suite(suite)
    assert [row.name for row in rows] == ["level1/2_scale", "level1/10_norm", "level2/3_dropout"]
    assert [row.kind for row in rows] == ["level1", "level1", "level2"]
    assert Path(rows[0].text) == suite / "level1" / "2_scale.py"


def test_a_folder_without_folders_is_a_level(suite: Path) -> None:
    assert [row.name for row in read_suite(suite / "level2")] == ["level2/3_dropout"]


def test_a_folder_without_problems_is_no_suite(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("")
    with pytest.raises(InvalidInputError, match="there is no problem"):
        read_suite(tmp_path)


def test_problems_are_chosen_by_part_by_glob_and_by_a_list(suite: Path, tmp_path: Path) -> None:
    rows = read_suite(suite)
    assert [row.name for row in chosen(rows, ["norm", "level?/3_*"], [], [])] == ["level1/10_norm", "level2/3_dropout"]
    names = tmp_path / "names"
    names.write_text("# those\nlevel2/3_dropout\n\n")
    assert [row.name for row in chosen(rows, [], [], [], read_names(names, rows))] == ["level2/3_dropout"]
    names.write_text("level2/3_dropout\nlevel2/4_dropout\n")
    with pytest.raises(InvalidInputError, match=":2: error: there is no row level2/4_dropout"):
        read_names(names, rows)


def test_the_command_lists_them(suite: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--suite", str(suite), "--name", "scale", "--list"])
    assert done.output == f"level1/2_scale: {suite}/level1/2_scale.py\n"


@pytest.mark.parametrize("options", [["--max-autotune"], ["--from", "a.mlir"]])
def test_options_of_rows_of_the_table_are_refused(suite: Path, options: list[str]) -> None:
    done = CliRunner().invoke(app, ["bench", "--suite", str(suite), *options])
    assert done.exit_code == 2
