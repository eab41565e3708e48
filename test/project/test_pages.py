"""What README and docs/ show is what the tools print, and the files that they name exist."""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.tools.cli.app import app
from deplodock.tools.opt import OptMain

TO_WRITE = {"draw.py", "mutants.toml", "pyproject.toml", "swish.mlir"}
"""Files that a page tells the reader to write, as it does those of the package `acme`."""


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text()


@pytest.fixture(scope="module")
def expression(readme: str) -> str:
    return variables(readme)["E"]


def variables(readme: str) -> dict[str, str]:
    """What the commands of the README set."""
    return dict(re.findall(r"^    (\w)='(.*)'$", readme, re.MULTILINE))


def printed(expression: str, level: str) -> str:
    return CliRunner().invoke(app, ["compile", "-c", expression, "--ir", level]).stdout


def test_the_readme_shows_what_the_compiler_prints(readme: str, expression: str) -> None:
    pytest.importorskip("torch")
    shown = re.findall(r"^```mlir\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert shown
    text = printed(expression, "tile")
    assert all(textwrap.indent(part, "    ") in text for part in shown)


def test_the_optimizer_runs_what_the_readme_tells(
    readme: str, expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "loop.mlir").write_text(printed(expression, "loop"))
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    deplodock-opt (loop\.mlir [^#\n]*)", readme, re.MULTILINE)
    assert commands
    for command in commands:
        OptMain(shlex.split(command)).run()


def test_the_schedule_in_the_readme_is_right(readme: str) -> None:
    pytest.importorskip("torch")
    (command,) = re.findall(r"^    deplodock (run .*--schedule .*)$", readme, re.MULTILINE)
    for name, value in variables(readme).items():
        command = command.replace(f"${name}", value)
    result = CliRunner().invoke(app, [*shlex.split(command), "--device", "sim"])
    assert result.exit_code == 0
    assert "tile.ring 2" in result.stdout


def test_files_that_a_page_names_exist(repository: Path) -> None:
    folders = [entry for entry in repository.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    files = (*repository.glob("*.*"), *(path for folder in folders for path in folder.rglob("*.*")))
    known = [path.as_posix() for path in files]
    for page in (repository / "README.md", *sorted((repository / "docs").glob("*.md"))):
        text = page.read_text()
        links = re.findall(r"\]\(([^):#]+)[)#]", text)
        missing = [link for link in links if not (page.parent / link).exists()]
        named = set(re.findall(r"`(?!acme/)([\w/]+\.(?:py|mlir|toml|md))`", text)) - TO_WRITE
        missing += sorted(name for name in named if not any(path.endswith(f"/{name}") for path in known))
        assert not missing, page.name


def test_every_option_of_a_pass_is_described_to_its_end(repository: Path) -> None:
    text = (repository / "docs/passes.md").read_text()
    options = re.findall(r"^- (`\w+: .+(?:\n  .+)*)", text, re.MULTILINE)
    assert options
    assert all(option.endswith(".") for option in options)
