"""What goes wrong on the GPU ends the process with one message that names the kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WILD = """
kernel.func @k_wild(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %v = loop.load %x[%thread + 500000000] : memref<4xf32>
  loop.store %v, %out[%thread] : memref<4xf32>
}
"""

LARGE = """
func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
  %out = memref.alloc() : memref<4xf32>
  kernel.launch @k_large(%x, %out) : memref<4xf32>, memref<4xf32>
  func.return %out : memref<4xf32>
}
kernel.func @k_large(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %s = kernel.alloc : memref<60000xf32, #tile.memory<shared>>
  %v = loop.load %x[%thread] : memref<4xf32>
  loop.store %v, %s[%thread] : memref<60000xf32, #tile.memory<shared>>
  %w = loop.load %s[%thread] : memref<60000xf32, #tile.memory<shared>>
  loop.store %w, %out[%thread] : memref<4xf32>
}
"""


def test_a_fault(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "wild.mlir"
    file.write_text(WILD, encoding="utf-8")
    done = run_tool("deplodock.tools.cli", "run", str(file), "--device", "cuda")
    assert done.returncode == 1
    assert done.stderr.startswith("deplodock: error: the GPU reports a fault in @k_wild: ")
    assert done.stderr.count("\n") == 1


def test_a_launch_that_the_driver_refuses(tmp_path: Path) -> None:
    """What verify-resources refuses before, where passes run; the runtime takes any kernel."""
    file = tmp_path / "large.mlir"
    file.write_text(LARGE, encoding="utf-8")
    script = Path(__file__).with_name("run_kernels.py")
    done = subprocess.run([sys.executable, str(script), str(file)], capture_output=True, text=True, check=False)
    if "the program is for sm_90" in done.stderr:
        pytest.skip("the kernel is for sm_90")
    assert done.returncode == 1
    assert (
        "DeviceError: the GPU cannot start @k_large with 1 blocks of 4 threads and 240000 bytes of dynamic shared "
        in done.stderr
    )
