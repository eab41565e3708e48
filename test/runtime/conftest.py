"""A driver of CUDA, and GPUs, that note their calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builds import build
from recording import Recorder, encoder

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
def calls(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """GPUs that note their calls are the GPUs; gives the calls since the last time."""
    recorder = Recorder()
    monkeypatch.setattr(driver_module, "pycuda", lambda: recorder.pycuda)
    monkeypatch.setattr(driver_module, "bindings", lambda: recorder.bindings)
    monkeypatch.setattr("deplodock.runtime.device._context", driver_module.Context)
    monkeypatch.setattr("deplodock.runtime.device._driver", lambda: recorder.pycuda)
    monkeypatch.setattr("deplodock.runtime.tensor_maps._encoder", lambda: encoder)
    return recorder
