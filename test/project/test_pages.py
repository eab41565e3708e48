"""What README and docs/ show is what the tools print, and the files that they name exist."""

import fnmatch
import json
import math
import os
import re
import shlex
import subprocess
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.passes.pipeline import PASSES
from deplodock.tools.cli.app import app

TO_WRITE = {"draw.py", "model.py", "mutants.toml", "pyproject.toml", "squares.mlir", "swish.mlir"}
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


def block(text: str, language: str) -> str:
    """The one block of a page in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found


def printed(expression: str, level: str) -> str:
    return CliRunner().invoke(app, ["compile", "-c", expression, "--ir", level]).stdout


def test_the_readme_shows_what_the_compiler_prints(readme: str, expression: str) -> None:
    pytest.importorskip("torch")
    shown = dict(re.findall(r"^\*\*(\w+)\*\*,.*?^```mlir\n(.*?)^```", readme, re.MULTILINE | re.DOTALL))
    assert list(shown) == ["torch", "tensor", "loop", "tile", "kernel"]
    for level, part in {**shown, "cuda": block(readme, "cuda")}.items():
        assert is_part(part, printed(expression, level)), level


def is_part(part: str, text: str) -> bool:
    """Whether lines are in a text, in order; `...` stands for lines between them. Their indentation may differ."""
    rest = "\n".join(line.strip() for line in text.splitlines())
    for piece in part.split("...\n"):
        _, found, rest = rest.partition("\n".join(line.strip() for line in piece.splitlines()))
        if not found:
            return False
    return True


def test_parts_are_found_in_order() -> None:
    assert is_part("  a\n  b\n...\nd\n", "x\na\n b\nc\nd\n")
    assert not is_part("a\nc\n", "a\nb\nc\n")
    assert not is_part("c\n...\na\n", "a\nb\nc\n")


def test_the_program_in_the_readme_runs(readme: str) -> None:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exec(block(readme.partition("\n## ")[0], "python"), {})


def test_the_measured_rows_of_the_readme_are_those_of_the_results(readme: str, repository: Path) -> None:
    results = (repository / "bench/results/h100/results.md").read_text()
    rows = re.findall(r"^\| (\S+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", readme, re.MULTILINE)
    assert len(rows) == 4
    for name, own, eager, compiled in rows:
        assert re.search(rf"^\| {name} \| {own} \| {eager} \| [\d.]+ \| {compiled} \|", results, re.MULTILINE), name


def test_the_figures_of_the_readme_are_those_of_the_results(readme: str, repository: Path) -> None:
    lines = (repository / "bench/results/h100/results.jsonl").read_text().splitlines()
    times = {
        row["name"]: {each["name"]: each["microseconds"] for each in row["bench"]["timings"]}
        for row in map(json.loads, lines)
        if "bf16" not in row["name"]
    }
    eager, best, attention = dict[str, float](), dict[str, float](), dict[str, float]()
    for name, row in times.items():
        ratio = row["PyTorch, graph"] / row["deplodock"]
        if "sdpa" in name:
            attention[name] = ratio
        else:
            eager[name] = ratio
            best[name] = min(time for who, time in row.items() if who.startswith("torch.comp")) / row["deplodock"]
    text = " ".join(readme.split())
    assert f"float32, from {len(times)} rows" in text
    assert f"over {len(eager)} rows" in text
    assert f"{geometric_mean(eager):.2f} times as fast as PyTorch's" in text
    assert f"least {min(eager.values()):.2f}" in text
    assert f"| {min(eager, key=eager.__getitem__)} |" in text
    assert f"{geometric_mean(best):.2f} times as fast as the better of two modes" in text
    assert f"{min(attention.values()):.2f} to {max(attention.values()):.1f} times as fast as PyTorch's" in text


def geometric_mean(ratios: dict[str, float]) -> float:
    return math.exp(sum(map(math.log, ratios.values())) / len(ratios))


NOT_RUN = re.compile(
    r"make |source |pytest |.*--bench|.*--profile|deplodock (tune|bench (?!--list))|.*(Qwen/|\./folder)|deplodock fuzz|"
    r"compiled[ .]"
)
"""Commands of the README that take minutes, a GPU, or a model; tests of their own run what they do."""


def test_the_commands_of_the_readme_run(readme: str, tools_with_torch: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    lines = re.findall(
        r"^    (\S.*)$", re.sub(r"^```.*?^```", "", readme, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    commands = [line for line in lines if not NOT_RUN.match(line)]
    assert len(commands) > 15
    assert all(re.match(r"\w='|deplodock(-opt)? ", command) for command in commands)
    script = "set -e -o pipefail\n" + "\n".join(commands)
    path = f"{tools_with_torch}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\npassed: ") == 4
    assert "tile.ring 2" in done.stdout
    assert "<<< t:007_stage_inputs" in done.stdout


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


def test_pages_are_at_most_120_columns_wide(repository: Path) -> None:
    """Those that are written by hand, but for what tools print and rows of tables; the overview with its tables."""
    written = [page for page in (repository / "docs").glob("*.md") if page.name not in ("dialects.md", "passes.md")]
    wide: list[str] = []
    for page in written:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in text.splitlines() if len(line) > 120]
        wide += [f"{page.name}: {line}" for line in lines if page.name == "architecture.md" or line[0] != "|"]
    assert not wide


def test_the_overview_has_a_row_for_each_folder(repository: Path) -> None:
    overview = (repository / "docs/architecture.md").read_text()
    folders = {path.parent.relative_to(repository).parts[0] for path in repository.glob("[!.]*/*.py")} | {
        "bench",
        "docs",
    }
    assert {"tune", "passes", "test"} < folders
    assert not [folder for folder in sorted(folders) if not re.search(rf"^\| .*`{folder}/`", overview, re.MULTILINE)]


def test_the_overview_is_two_pages_and_names_passes_that_there_are(repository: Path) -> None:
    overview = (repository / "docs/architecture.md").read_text()
    assert overview.count("\n") <= 110
    row = re.search(r"^passes .*?(?=^facts )", overview, re.MULTILINE | re.DOTALL)
    named = re.findall(r"[a-z]+-[a-z-]*\*?", row[0] if row else "")
    assert len(named) >= 10
    assert not [name for name in named if not fnmatch.filter([stage.name for stage in PASSES], name)]


def test_where_things_go_takes_few_lines(repository: Path) -> None:
    page = (repository / "docs/extending.md").read_text().partition("## Where things go\n")[2]
    sections = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    assert len(sections) == 6
    for section in sections:
        title, _, text = re.sub(r"^```.*?^```", "", section, flags=re.MULTILINE | re.DOTALL).partition("\n")
        assert 0 < len([line for line in text.splitlines() if line]) <= 6, title


def test_every_option_of_a_pass_is_described_to_its_end(repository: Path) -> None:
    text = (repository / "docs/passes.md").read_text()
    options = re.findall(r"^- (`\w+(?: = [^`]+)?`, .+(?:\n  .+)*)", text, re.MULTILINE)
    assert options
    assert all(option.endswith(".") for option in options)


def commands_of_articles(repository: Path) -> list[list[str]]:
    """The commands of the page that need no GPU or network, one for each of their words."""
    page = (repository / "docs/cases.md").read_text().replace("\\|", "|")
    found: list[list[str]] = []
    for command in re.findall(r"^\| `deplodock (compile -c .*?)(?: \| awk .*)?` \|", page, re.MULTILINE):
        *words, last = shlex.split(command)
        found += [[*words, word] for word in last.split("|")]
    return found


def test_commands_of_the_articles(repository: Path) -> None:
    commands = commands_of_articles(repository)
    assert len(commands) == 12
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.output)
