"""Fixtures shared by all Python tests."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from deplodock.runtime.nvcc import find_nvcc


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """nvcc; without one the test is skipped, or fails if `DEPLODOCK_REQUIRE_NVCC` is set."""
    path = find_nvcc()
    if path is not None:
        return path
    message = "no nvcc: install the dev extra, or set CUDA_HOME"
    if os.environ.get("DEPLODOCK_REQUIRE_NVCC"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def tools() -> Iterator[Path]:
    """The folder of scripts that run the tools in forks of one process, see fork_server.py."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "fork_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    yield Path(server.stdout.readline().strip())
    server.stdin.close()
    server.wait()


Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def tool(tools: Path) -> Tool:
    """Run a tool: `tool("deplodock-opt", "-p", "cse", input="...")`."""
    return partial(run, tools)


@pytest.fixture(scope="session")
def process() -> Tool:
    """Run a tool as users do, from the start of Python on."""
    return partial(run, Path(sys.executable).parent)


def run(folder: Path, name: str, *args: str, input: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run an executable of a folder, with `env` on top of this process's environment."""
    environment = {**os.environ, **env}
    return subprocess.run(
        [str(folder / name), *args], input=input, env=environment, capture_output=True, text=True, check=False
    )
