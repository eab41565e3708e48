"""`deplodock compile MODEL`: a folder with a configuration is enough, and the summary says what it amounts to."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.frontend.models import read_model
from deplodock.passes.driver import new_context
from deplodock.runtime.lowering import ALWAYS
from deplodock.tools.cli import model_store
from deplodock.tools.cli.app import app
from deplodock.tools.cli.model_store import ModelStore

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


def test_a_configuration_is_captured_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path))
    monkeypatch.delenv(ALWAYS)

    def compiled(*options: str) -> tuple[str, bool, str]:
        done = CliRunner().invoke(app, ["compile", str(folder), "--layer", "1", "-v", *options])
        assert done.exit_code == 0, done.stderr
        is_captured = "torch.export" in done.stderr
        return done.stdout, is_captured, done.stderr[done.stderr.index("FLOP") - 60 :].split("\n")[0]

    first, again, other = compiled("--seq-len", "4"), compiled("--seq-len", "4"), compiled("--seq-len", "5")
    assert (first[1], again[1], other[1]) == (True, False, True)
    assert (again[0], again[2]) == (first[0], first[2])


def test_equal_layers_are_lowered_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv(ALWAYS)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}

    def counts(layers: int, length: int) -> list[int]:
        folder = tmp_path / str(layers)
        config = transformers.LlamaConfig(**sizes, vocab_size=32, num_hidden_layers=layers)
        config.architectures = ["LlamaForCausalLM"]
        config.save_pretrained(folder)
        done = CliRunner().invoke(app, ["compile", str(folder), "--seq-len", str(length), "-v"])
        assert done.exit_code == 0, done.stderr
        found = re.search(r"(\d+) kernels, (\d+) unique, .*compiled: ([01]), lowered: (\d+)\n", done.stderr, re.DOTALL)
        assert found is not None
        return list(map(int, found.groups()))

    few, again, many = counts(3, 4), counts(3, 4), counts(5, 4)
    assert few[3] >= few[1] > 0
    assert again == [*few[:2], 0, 0]
    assert many[0] > few[0]
    assert few[3] >= many[3] >= many[1] > 0


def test_a_model_is_kept_by_what_decides(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALWAYS)
    store = ModelStore(new_context())
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    found = [store.key(str(tmp_path), {"layer": 1}), store.key(str(tmp_path), {"layer": 2})]
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("32", "64"))
    found.append(store.key(str(tmp_path), {"layer": 1}))
    monkeypatch.setattr(model_store, "version", lambda package: f"{package} 1000")
    found.append(store.key(str(tmp_path), {"layer": 1}))
    monkeypatch.setattr(model_store, "sources_identity", lambda _: "other sources")
    found.append(store.key(str(tmp_path), {"layer": 1}))
    assert None not in found
    assert len(set(found)) == 5
    monkeypatch.setattr(model_store, "version", lambda _: "1000.dev0")
    assert store.key(str(tmp_path), {"layer": 1}) is None
    assert store.key("owner/model", {"layer": 1}) is None


def test_options_of_models(tool: Tool) -> None:
    done = tool("deplodock", "compile", "program.mlir", "--layer", "0")
    assert done.returncode == 2
    assert "--layer and --seq-len are for models" in done.stderr


def test_random_weights_are_drawn_with_the_seed(folder: Path) -> None:
    options = ["--random-weights", "--layer", "0", "--seq-len", "3", "--device", "sim"]
    done = CliRunner().invoke(app, ["run", str(folder), *options])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].startswith("passed: the result agrees with PyTorch in float64")
    found = [read_model(str(folder), layer=0, seq_len=3, weights="random", seed=seed) for seed in (1, 1, 2)]
    one, again, other = (dict(zip(program.names, program.inputs, strict=True)) for program in found)
    name = next(name for name in one if name.endswith("c_attn_weight"))
    assert one[name].equal(again[name])
    assert not one[name].equal(other[name])
    assert one[name].std() > 0


def test_random_weights_are_for_models() -> None:
    done = CliRunner().invoke(app, ["run", "-c", "torch.ones(3)", "--random-weights"])
    assert done.exit_code == 2
    assert "--random-weights is for models" in done.stderr


def test_a_folder_that_does_not_exist_is_said_at_once(process: Tool, tmp_path: Path) -> None:
    (tmp_path / "mini").mkdir()
    with contextlib.chdir(tmp_path):
        done = process("deplodock", "compile", "mini/nothere")
    assert (done.returncode, done.stderr) == (1, "mini/nothere: error: there is no such folder in mini\n")
