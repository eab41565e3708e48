"""Models that two processes run together: the backend compiles what each computes, PyTorch what they exchange."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SECONDS = 300
TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, TWO_GPUS])])
def test_two_processes(tmp_path: Path, device: str) -> None:
    """Trained parameters are those of PyTorch; of the operations only an all-reduce and its wait are left to it."""
    worker = Path(__file__).with_name("two_processes.py")
    commands = [[sys.executable, str(worker), str(rank), str(tmp_path / "meeting"), device] for rank in range(2)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    runs = [subprocess.Popen(command, text=True, **pipes) for command in commands]
    try:
        printed = [run.communicate(timeout=SECONDS) for run in runs]
    finally:
        for run in runs:
            run.kill()
    for run, (out, err) in zip(runs, printed, strict=True):
        assert run.returncode == 0, err
        reports = {name: (int(compiled), int(left)) for name, compiled, left in map(str.split, out.splitlines())}
        assert list(reports) == ["data_parallel", "tensor_parallel", "tensor_parallel_training"]
        assert [left for _, left in reports.values()] == [0, 2, 2]
        assert all(compiled >= 5 for compiled, _ in reports.values())
