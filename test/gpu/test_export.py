"""Exported programs on the GPU: their launchers give the very bits that the runtime gives."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kinds import Kind

pytest.importorskip("torch")

import torch

from deplodock.frontend.arrays import to_array, to_tensor
from deplodock.runtime.device import Executable
from deplodock.runtime.export import export


def test_launchers_give_the_same_bits(kind: Kind, lowered: dict[str, Any], nvcc: Path, tmp_path: Path) -> None:
    program, folder = lowered[kind.name], tmp_path / kind.name
    export(program.module, folder)
    subprocess.run(["make", "-C", str(folder), f"NVCC={nvcc}"], check=True, capture_output=True)
    spec = importlib.util.spec_from_file_location(kind.name, folder / f"{kind.name}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = Executable(program.module).run(program.inputs)
    inputs = [to_tensor(values).cuda() for values in program.inputs]
    outputs = [torch.empty(shape, dtype=getattr(torch, dtype), device="cuda") for dtype, shape in module.OUTPUTS]
    launcher = module.Program()
    launcher(inputs, outputs, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    launcher.close()
    for number, (result, expected) in enumerate(zip(outputs, wanted, strict=True)):
        assert to_array(result.cpu()).tobytes() == expected.tobytes(), f"output {number}"
