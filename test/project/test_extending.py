"""The package of docs/extending.md does what the page says."""

import os
import re
import subprocess
from pathlib import Path

from packages import install


def test_the_package_of_the_page(repository: Path, tools: Path, tmp_path: Path) -> None:
    page = (repository / "docs/extending.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    site, work = install(files, tmp_path), tmp_path / "work"
    work.mkdir()
    for name in (name for name in files if name.endswith(".mlir")):
        (work / name).write_text(files[name], encoding="utf-8")
    consoles = "".join(re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", consoles, re.MULTILINE)
    assert commands
    assert [(command, run(command, tools, site, work)) for command, _ in commands] == commands


def run(command: str, tools: Path, site: Path, folder: Path) -> str:
    """The standard output of a shell command in a folder, where the packages of `site` are installed."""
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(site)}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.stdout
