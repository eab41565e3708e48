"""An element type and its instruction are two rows: with those of docs/extending.md, e4m3 reaches warpgroups."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ml_dtypes
import numpy as np
from xdsl.parser import Parser

from deplodock.codegen.cuda import print_module
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context

context = new_context()
module = Parser(context, LOOPS).parse_module()
lower(module, context, Level.KERNEL, target="h200", schedule=SCHEDULE)
assert "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3" in print_module(module)
draw = np.random.default_rng(0)
x, w = (draw.standard_normal((64, 128)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
simulation = simulate(module, [x, w])
assert not simulation.findings, simulation.findings[0]
np.testing.assert_allclose(simulation.outputs[-1], x.astype(np.float64) @ w.astype(np.float64).T, rtol=1e-5, atol=1e-5)
"""

LOOPS = """
func.func @k(%x: memref<64x128xf8E4M3FN>, %w: memref<64x128xf8E4M3FN>, %out: memref<64x64xf32>) {
  loop.for %m = 0 to 64 {
    loop.for %n = 0 to 64 {
      %acc = loop.reduce {arith.addf} %k = 0 to 128 : f32 {
        %a = loop.load %x[%m, %k] : memref<64x128xf8E4M3FN>
        %b = loop.load %w[%n, %k] : memref<64x128xf8E4M3FN>
        %wide = arith.extf %a : f8E4M3FN to f32
        %other = arith.extf %b : f8E4M3FN to f32
        %p = arith.mulf %wide, %other : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<64x64xf32>
    }
  }
  func.return
}
"""

SCHEDULE = (
    "tileify,chunk-matmul-k{bk=64},blockify-launch{m=64 n=64},stage-inputs,tensor-tile{engine=wgmma m=64 n=64},"
    "double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer,mark-unroll"
)

FOLDERS = ("analysis", "codegen", "dialects", "interpreters", "passes", "runtime", "schedule", "tools")


def test_two_rows_are_a_type_of_tensor_cores(repository: Path, tmp_path: Path) -> None:
    package = tmp_path / "deplodock"
    for folder in FOLDERS:
        shutil.copytree(repository / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in repository.glob("*.py"):
        shutil.copy(path, package)
    page = (repository / "docs/extending.md").read_text(encoding="utf-8")
    for name, file in (("Element", "elements"), ("Engine", "engines")):
        (row,) = re.findall(rf"^{name}\(.*\)$", page, re.MULTILINE)
        path = package / "dialects" / f"{file}.py"
        text = path.read_text(encoding="utf-8")
        first = re.search(rf"^    {name}\(", text, re.MULTILINE)
        assert first is not None
        text = f"{text[: first.start()]}    {row},\n{text[first.start() :]}"
        path.write_text(text.replace("import AnyFloat,", "import AnyFloat, Float8E4M3FNType,"), encoding="utf-8")
    script = f"LOOPS = {LOOPS!r}\nSCHEDULE = {SCHEDULE!r}\n{PROGRAM}"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
