"""Models that two processes run together: the backend compiles what each computes, PyTorch what they exchange."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

import pytest
import torch

SECONDS = 300
TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, TWO_GPUS])])
def test_two_processes(tools_with_torch: Path, tmp_path: Path, device: str) -> None:
    """Trained parameters are those of PyTorch; of the operations only an all-reduce and its wait are left to it."""
    worker = Path(__file__).with_name("two_processes.py")
    commands = [[tools_with_torch / "python", worker, str(rank), tmp_path / "meeting", device] for rank in range(2)]
    outputs = [(tmp_path / f"{rank}.out", tmp_path / f"{rank}.err") for rank in range(2)]
    with contextlib.ExitStack() as files:
        runs = [
            subprocess.Popen(
                command, stdout=files.enter_context(out.open("w")), stderr=files.enter_context(err.open("w"))
            )
            for command, (out, err) in zip(commands, outputs, strict=True)
        ]
        deadline = time.monotonic() + SECONDS
        # A process waits for one that has failed, so the first failure ends both.
        while any(run.poll() is None for run in runs) and not any(run.poll() for run in runs):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        codes = [run.poll() for run in runs]
        for run in runs:
            run.kill()
            run.wait()
    for code, (_, err) in zip(codes, outputs, strict=True):
        assert code in (0, None), err.read_text()
    assert codes == [0, 0], f"{SECONDS} s have passed"
    for out, _ in outputs:
        reports = {
            name: (int(compiled), int(left)) for name, compiled, left in map(str.split, out.read_text().splitlines())
        }
        assert list(reports) == ["data_parallel", "tensor_parallel", "tensor_parallel_training"]
        assert [left for _, left in reports.values()] == [0, 2, 2]
        assert all(compiled >= 5 for compiled, _ in reports.values())
