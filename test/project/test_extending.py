"""The package of docs/extending.md does what the page says."""

import os
import re
import subprocess
from pathlib import Path


def test_the_package_of_the_page(repository: Path, tools: Path, tmp_path: Path) -> None:
    page = (repository / "docs/extending.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    files["acme.dist-info/entry_points.txt"] = entry_points(files["pyproject.toml"])
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    consoles = "".join(re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", consoles, re.MULTILINE)
    assert commands
    assert [(command, run(command, tools, tmp_path)) for command, _ in commands] == commands


def entry_points(project: str) -> str:
    """What pip writes for the entry points of a project."""
    entry = re.search(r'entry-points\."(xdsl\.universe)"\]\n(acme) = "(.*)"$', project, re.MULTILINE)
    assert entry is not None
    return "[{}]\n{} = {}\n".format(*entry.groups())


def run(command: str, tools: Path, folder: Path) -> str:
    """The standard output of a shell command in a folder, whose packages are installed."""
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.stdout
