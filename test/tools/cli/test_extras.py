"""What needs an extra that is not installed says so in one line, for each command and the API."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXTRAS = ("torch", "functorch", "transformers", "safetensors", "huggingface_hub", "cuda", "pycuda")
HIDE = f"""
import importlib.machinery
stock = importlib.machinery.PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {EXTRAS!r} else stock(name, path, target)
importlib.machinery.PathFinder.find_spec = find_spec
"""
"""Code that runs first in each process: packages of extras are as if they were not installed."""

TORCH = "deplodock: error: this needs the package torch: pip install 'deplodock[torch]'"
MODELS = "deplodock: error: this needs the package torch: pip install 'deplodock[models]'"
PYCUDA = "deplodock: error: pycuda is not installed: pip install 'deplodock[cuda]'; "
COMMANDS = {
    ("compile", "-c", "torch.randn(3)"): TORCH,
    ("compile", "program.py"): TORCH,
    ("export", "-c", "torch.randn(3)", "-o", "folder"): TORCH,
    ("compile", "model"): MODELS,
    ("compile", "owner/model"): MODELS,
    ("run", "-c", "torch.randn(3)"): TORCH,
    ("run", "program.py"): TORCH,
    ("run", "model", "--random-weights"): MODELS,
    ("run", "-c", "torch.randn(3)", "--bench"): PYCUDA,
    ("bench",): TORCH,
    ("bench", "--compile-only"): TORCH,
    ("fuzz", "--count", "1"): TORCH,
}
WITHOUT = [("ops",), ("bench", "--list"), ("compile", "kernel.mlir"), ("run", "kernel.mlir"), ("--help",)]
KERNEL = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = tensor_ext.elementwise {arith.negf} %x : tensor<8xf32>
  func.return %y : tensor<8xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs to name."""
    path = tmp_path_factory.mktemp("extras")
    (path / "hidden").mkdir()
    (path / "hidden" / "sitecustomize.py").write_text(HIDE)
    (path / "model").mkdir()
    (path / "program.py").write_text("import torch\ntorch.randn(3)\n")
    (path / "kernel.mlir").write_text(KERNEL)
    return path


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the extras are hidden."""
    paths = [str(folder / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def run_command(folder: Path, tools: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command where the extras are hidden, in a fork that has imported none of them."""
    script = folder / "command.py"
    check = f"import sys\nassert not {set(EXTRAS)!r} & {{*sys.modules}}"
    script.write_text(f"{HIDE}\n{check}\nfrom deplodock.tools.cli import main\nmain()\n")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [tools / "python", script, *args]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_says_what_to_install(
    command: tuple[str, ...], run_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_command(*command)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(COMMANDS[command])
    assert not done.stdout


@pytest.mark.parametrize("command", WITHOUT, ids=" ".join)
def test_other_commands_need_no_extra(
    command: tuple[str, ...], run_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_command(*command)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_the_interface_says_what_to_install(folder: Path) -> None:
    done = run(folder, "-c", "import deplodock; deplodock.Error; deplodock.compile")
    assert done.returncode == 1
    said = f"ModuleNotFoundError: deplodock.compile: {TORCH.removeprefix('deplodock: error: ')}"
    assert done.stderr.splitlines()[-1] == said
    assert "No module named" not in done.stderr


def test_a_module_that_is_of_no_extra_keeps_its_traceback(folder: Path) -> None:
    code = "from deplodock.tools.diagnostics import run_tool\nrun_tool('tool', lambda: __import__('nothing.like.that'))"
    done = run(folder, "-c", code)
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("No module named 'nothing'\n")
