"""`deplodock compile MODEL`: a folder with a configuration is enough, and the summary says what it amounts to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.tools.cli.app import app

transformers = pytest.importorskip("transformers")
Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the configuration of a small model."""
    path = tmp_path_factory.mktemp("gpt2")
    transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=8, vocab_size=16).save_pretrained(path)
    return path


def test_compile_a_layer(folder: Path) -> None:
    done = CliRunner().invoke(app, ["compile", str(folder), "--layer", "1", "--seq-len", "4"])
    assert done.exit_code == 0, done.stderr
    assert 'extern "C" __global__' in done.stdout
    first, second, third = (line for line in done.stderr.splitlines() if line.startswith("deplodock: "))
    assert re.fullmatch(r"deplodock: \d+ kernels, \d+ unique, in \d+ launches", first)
    assert "read and written by the launches" in second
    assert third.startswith("deplodock: 50.8 kB of parameters, ")


def test_options_of_models(tool: Tool) -> None:
    done = tool("deplodock", "compile", "program.mlir", "--layer", "0")
    assert done.returncode == 2
    assert "--layer and --seq-len are for models" in done.stderr
