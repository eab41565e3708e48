"""Fixtures shared by all Python tests."""

import os
import subprocess
import sys
from collections.abc import Callable
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
def tool() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a tool of the environment: `tool("deplodock-opt", "-p", "cse", input="...")`."""

    def run(name: str, *args: str, input: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / name), *args]
        environment = {**os.environ, **env}
        return subprocess.run(command, input=input, env=environment, capture_output=True, text=True, check=False)

    return run
