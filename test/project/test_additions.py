"""What docs/extending.md says to add inside deplodock is enough.

A rule is its file and its name in the list: all tools and the fuzzer know it then. An operation of ATen is its schema,
the rule of its shapes and its formula.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deplodock.passes.pipeline import RULES

RULE = '''"""reverse-blocks: walk the tiles of a launch in another order."""

from dataclasses import dataclass

from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects import tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import reorder
from deplodock.passes.tile.rule import LaunchRule, Skip


@dataclass(frozen=True)
class ReverseBlocksPass(LaunchRule):
    """Reverse the first block axes."""

    name = "reverse-blocks"
    after = ("blockify-launch",)
    count: int = option(2, Integers((2, 3), least=2), "how many")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        blocks = launch.bound_to(Binding.BLOCK)
        if len(blocks) < self.count:
            raise Skip("it has too few block axes")
        first = blocks[: self.count]
        reorder(rewriter, launch, [*reversed(first), *(axis for axis in launch.axes if axis not in first)])
'''
LOOPS = """func.func @k(%x: memref<64x50xf32>, %out: memref<64x50xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 50 {
      %v = loop.load %x[%i, %j] : memref<64x50xf32>
      loop.store %v, %out[%i, %j] : memref<64x50xf32>
    }
  }
  func.return
}
"""
HARDSWISH = """func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %y = torch.aten.hardswish %x : tensor<5xf32> -> tensor<5xf32>
  func.return %y : tensor<5xf32>
}
"""
DRAW = """
import random
from deplodock.fuzz.schedules import draw_rules
from deplodock.passes.options import Kind
from deplodock.passes.pipeline import RULES
drawn = {kind: [rule for rule in draw_rules(random.Random(1), kind) if rule.name == "reverse-blocks"] for kind in Kind}
print({kind.value: [rule.given() for rule in rules] for kind, rules in drawn.items()})
"""


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where there is a copy of the package with one more rule, and with the operation of ATen that the page adds."""
    site = tmp_path_factory.mktemp("site")
    copy = shutil.copytree(
        repository,
        site / "deplodock",
        ignore=lambda folder, names: [
            name
            for name in names
            if name.startswith((".", "__pycache__")) or (Path(folder) == repository and name in ("build", "test"))
        ],
    )
    (copy / "passes/tile/reverse_blocks.py").write_text(RULE)
    add(copy / "passes/pipeline.py", f'"{RULES[-1].name}", ', '"reverse-blocks", ')
    section = (repository / "docs/extending.md").read_text().partition("### An operation of ATen\n")[2]
    schema, _, formula = section.partition("```python\n")[2].partition("```")[0].partition("\n")
    add(copy / "dialects/torch/aten.py", '    (TypeRule.SAME, FLOAT, "mish(Tensor self) -> Tensor"),\n', f"{schema}\n")
    add(copy / "dialects/torch/shapes/__init__.py", '    "values:broadcast": """\n', "        hardswish\n")
    with (copy / "passes/torch/elementwise.py").open("a") as file:
        file.write(formula)
    (site / "k.mlir").write_text(LOOPS)
    (site / "hardswish.mlir").write_text(HARDSWISH)
    return site


def add(file: Path, line: str, text: str) -> None:
    """Write a text behind a line of a file."""
    before, found, after = file.read_text().partition(line)
    assert found
    file.write_text(f"{before}{line}{text}{after}")


def run(site: Path, *command: str) -> str:
    """What a command of Python prints, with the copy in the place of the package."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_passes_are_shown_with_it(site: Path) -> None:
    shown = run(site, "-m", "deplodock.tools.opt", "--show-passes")
    assert f"\nt:{RULES[-1].number + 100:03d} reverse-blocks: Reverse the first block axes.\n        count" in shown


def test_a_schedule_names_it(site: Path) -> None:
    schedule = "tileify,blockify-launch{threads=32},reverse-blocks{count=2}"
    text = run(site, "-m", "deplodock.tools.cli", "compile", "k.mlir", "--ir", "tile", "--schedule", schedule)
    assert f'deplodock.schedule = "{schedule}"' in text
    assert "tile.launch (%j_b = 2 : block, %i = 64 : block, %j_t = 32 : thread) {" in text


def test_the_reference_has_it(site: Path) -> None:
    run(site, "-m", "deplodock.tools.docs", "deplodock/docs")
    assert "reverse-blocks" in (site / "deplodock/docs/passes.md").read_text()


def test_the_fuzzer_draws_it(site: Path) -> None:
    pytest.importorskip("torch")
    drawn = eval(run(site, "-c", DRAW))
    assert set(drawn) == {"contraction", "other"}
    assert all(options["count"] in (2, 3) for kind in drawn.values() for options in kind)
    assert all(len(kind) == 1 for kind in drawn.values())


def test_an_operation_of_aten_runs(site: Path) -> None:
    lines = run(site, "-m", "deplodock.tools.cli", "run", "hardswish.mlir", "--device", "sim").splitlines()
    assert lines[-1] == "passed: the result agrees with the evaluator in float64, no findings"
