"""`deplodock compile MODEL`: a folder with a configuration is enough, and the summary says what it amounts to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers")
Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the configuration of a small model."""
    path = tmp_path_factory.mktemp("gpt2")
    transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=8, vocab_size=16).save_pretrained(path)
    return path


def test_compile_a_layer(tool: Tool, folder: Path) -> None:
    done = tool("deplodock", "compile", str(folder), "--layer", "1", "--seq-len", "4")
    assert done.returncode == 0, done.stderr
    assert 'extern "C" __global__' in done.stdout
    first, second, third = (line for line in done.stderr.splitlines() if line.startswith("deplodock: "))
    assert re.fullmatch(r"deplodock: \d+ kernels, \d+ unique, in \d+ launches", first)
    assert "read and written by the launches" in second
    assert third.startswith("deplodock: 50.8 kB of parameters, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-owner/no-such-model",), "no-such-owner/no-such-model: error: the model cannot be read: "),
        (("-c", "torch.ones(3) + 1", "--layer", "0"), "--layer and --seq-len are for models"),
    ],
)
def test_refusals(tool: Tool, arguments: tuple[str, ...], message: str) -> None:
    done = tool("deplodock", "compile", *arguments, HF_HUB_OFFLINE="1")
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
