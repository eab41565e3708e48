"""A driver of CUDA that notes its calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builds import build


@pytest.fixture(scope="session")
def toolkit(nvcc: Path) -> Path:
    """The folder of nvcc's toolkit, which has cuda.h; there must be a C compiler, too."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: put cc on PATH")
    return nvcc.parent.parent


@pytest.fixture(scope="session")
def driver(toolkit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda that notes its calls."""
    folder = tmp_path_factory.mktemp("driver")
    build([Path(__file__).with_name("recording_driver.c")], folder / "libcuda.so.1", toolkit)
    return folder
