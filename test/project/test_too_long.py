"""Text whose loops would run for hours: `run` says so at once, at every level, with the place and what to do."""

import contextlib
import io
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.tools.cli.app import app
from deplodock.tools.diagnostics import run_tool

LOOP = """
func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 1000000000000 : f32 {
      %in = loop.load %x[%k mod 64] : memref<64xf32>
      loop.yield %in : f32
    }
    loop.store %sum, %out[%i] : memref<64xf32>
  }
  func.return
}
"""
NESTED = """
func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 1000000 : f32 {
      %inner = loop.reduce {arith.addf} %l = 0 to 1000000 : f32 {
        %in = loop.load %x[(%k + %l) mod 64] : memref<64xf32>
        loop.yield %in : f32
      }
      loop.yield %inner : f32
    }
    loop.store %sum, %out[%i] : memref<64xf32>
  }
  func.return
}
"""
DYNAMIC = """
func.func @k(%n: index, %x: memref<64xf32>, %out: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to %n * 1000000000000 : f32 {
      %in = loop.load %x[%k mod 64] : memref<64xf32>
      loop.yield %in : f32
    }
    loop.store %sum, %out[%i] : memref<64xf32>
  }
  func.return
}
"""
TILE = """
func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {
  tile.launch (%i = 64 : thread) {
    %sum = loop.reduce {arith.addf} %k = 0 to 1000000000000 : f32 {
      %in = loop.load %x[%k mod 64] : memref<64xf32>
      loop.yield %in : f32
    }
    loop.store %sum, %out[%i] : memref<64xf32>
  }
  func.return
}
"""
KERNEL = """
kernel.func @k(%x: memref<64xi64>, %out: memref<64xi64>) blocks(%block = 1) threads(%thread = 64) {
  %acc = kernel.alloc : memref<i64, #tile.memory<register>>
  %zero = arith.constant 0 : i64
  loop.store %zero, %acc[] : memref<i64, #tile.memory<register>>
  loop.for %k = 0 to 1000000000000 {
    %in = loop.load %x[%k mod 64] : memref<64xi64>
    %old = loop.load %acc[] : memref<i64, #tile.memory<register>>
    %new = arith.addi %old, %in : i64
    loop.store %new, %acc[] : memref<i64, #tile.memory<register>>
  }
  %sum = loop.load %acc[] : memref<i64, #tile.memory<register>>
  loop.store %sum, %out[%thread] : memref<64xi64>
}
"""
COUNT = """%one = arith.constant 1000000000000 : i64
  %count = arith.index_cast %one : i64 to index
  loop.for %k = 0 to %count {"""
DYNAMIC_KERNEL = KERNEL.replace("loop.for %k = 0 to 1000000000000 {", COUNT)


def run(text: str, tmp_path: Path) -> tuple[int, str]:
    """The exit code of a run of text, and what it writes."""
    path = tmp_path / "k.mlir"
    path.write_text(text, encoding="utf-8")
    results = []

    def command() -> int:
        result = CliRunner().invoke(app, ["run", str(path), "--device", "sim"])
        results.append(result)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code

    stderr = io.StringIO()
    with pytest.raises(SystemExit) as exit, contextlib.redirect_stderr(stderr):
        run_tool("deplodock", command)
    assert isinstance(exit.value.code, int)
    return exit.value.code, stderr.getvalue() + results[0].stdout


@pytest.mark.parametrize(
    ("text", "line", "op"),
    [
        (LOOP, 4, "loop.reduce"),
        (NESTED, 5, "loop.reduce"),
        (DYNAMIC, 4, "loop.reduce"),
        (TILE, 4, "loop.reduce"),
        (DYNAMIC_KERNEL, 8, "loop.for"),
    ],
    ids=["loop", "nested", "dynamic", "tile", "dynamic kernel"],
)
def test_long_loops_are_refused_at_once(tmp_path: Path, text: str, line: int, op: str) -> None:
    start = time.process_time()
    code, output = run(text, tmp_path)
    assert time.process_time() - start < 10
    assert code == 1, output
    assert f"k.mlir:{line}:" in output
    assert f"with {op} the program takes " in output
    assert "make the loops shorter, or run it on a GPU" in output


def test_a_long_kernel_is_not_run(tmp_path: Path) -> None:
    code, output = run(KERNEL, tmp_path)
    assert code == 3
    assert "\n  not run: 1 of the CTAs must run together, of about " in output
    assert "lane steps each, which is too long for a CPU (the limit is 4e+09); make the loops shorter" in output
    assert "\nnot run: nothing to compare with at kernel level" in output
