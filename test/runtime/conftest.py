"""A driver of CUDA that notes its calls."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import build

from deplodock.runtime import driver as driver_module


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


@pytest.fixture
def calls(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The driver that notes its calls is the driver; gives the calls since the last time."""
    library = ctypes.CDLL(str(driver / "libcuda.so.1"))
    monkeypatch.setattr(driver_module, "library", lambda: library)
    monkeypatch.setattr("deplodock.runtime.tensor_maps.library", lambda: library)
    path = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(path))

    def read() -> list[str]:
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    return read
