"""docs/pytorch.md: each block of Python runs, and each command prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers")
SHAPES = "shapes.py"


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs/pytorch.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def run(folder: Path, tools: Path, command: str) -> str:
    """What a shell prints to both streams, in a folder, with the tools and Python of this environment."""
    env = os.environ | {"PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(page: str, tools_with_torch: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs of the page, of which the first has run, and a model."""
    path = tmp_path_factory.mktemp("page")
    programs = blocks(page, "python")
    (shapes,) = (block for block in programs if block.startswith("import torch\n\nscale"))
    (path / SHAPES).write_text(shapes)
    (path / "model.py").write_text("\n".join(block for block in programs if block is not shapes))
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, vocab_size=32,
        num_attention_heads=2, num_key_value_heads=1, architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    config.save_pretrained(path / "mini")
    assert re.search(r"^loss \d\.\d{4}$", run(path, tools_with_torch, "python model.py"), re.MULTILINE)
    return path


def test_commands_print_what_the_page_shows(page: str, folder: Path, tools_with_torch: Path) -> None:
    commands = re.findall(r"^\$ (.*)\n((?:[^$].*\n)+)", "".join(blocks(page, "console")), re.MULTILINE)
    assert len(commands) == 9
    for command, shown in commands:
        printed = run(folder, tools_with_torch, command)
        for line in shown.splitlines():
            pattern = ".*".join(map(re.escape, line.split("..")))
            assert re.search(f"^{pattern}$", printed, re.MULTILINE), f"{command}\n{line}\n{printed}"


def test_options_are_those_of_the_table(page: str) -> None:
    from dataclasses import fields

    from deplodock.pytorch.options import BackendOptions

    table = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert table == [field.name for field in fields(BackendOptions)]
