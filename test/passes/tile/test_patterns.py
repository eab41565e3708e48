"""Rules are patterns: in walks of xDSL's own, without the driver, they do what the passes do, and come to an end."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.shape.nest import kernels
from deplodock.dialects import tile
from deplodock.passes import remarks
from deplodock.passes import tile as tile_rules
from deplodock.passes.clean_up import clean_up
from deplodock.passes.driver import Level, lower, new_context, stages
from deplodock.passes.pipeline import RULES, Stage
from deplodock.passes.tile.register_tile import RegisterTilePass
from deplodock.passes.tile.rule import Rule
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.schedule.choose.kernels import schedule_of

CONTEXT = new_context()

SQUARES = """
func.func @squares(%x: memref<64x64xf32>, %out: memref<64x64xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : memref<64x64xf32>
      %w = arith.mulf %v, %v : f32
      loop.store %w, %out[%i, %j] : memref<64x64xf32>
    }
  }
  func.return
}
"""

PROGRAMS = {
    "relu": "F.relu(torch.randn(1000, 1000))",
    "rms_norm": "F.rms_norm(torch.randn(32, 2048), (2048,))",
    "matmul": "torch.randn(2048, 2048) @ torch.randn(2048, 2048)",
    "bf16 linear": "w = torch.randn(4096, 4096, dtype=torch.bfloat16); F.linear(w, w)",
    "few rows": "t = torch.bfloat16; F.linear(torch.randn(8, 4096, dtype=t), torch.randn(4096, 4096, dtype=t))",
    "attention": "q = torch.randn(1, 8, 512, 64, dtype=torch.bfloat16); F.scaled_dot_product_attention(q, q, q)",
    "convolution": "F.conv2d(torch.randn(2, 16, 32, 32), torch.randn(32, 16, 3, 3))",
}


class SumOfTwo(RewritePattern):
    """A sum in place of a product of a value and itself: a pattern that is none of ours."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MulfOp, rewriter: PatternRewriter, /) -> None:
        if op.lhs is op.rhs:
            rewriter.replace(op, arith.AddfOp(op.lhs, op.rhs))


def walk(module: ModuleOp, *patterns: RewritePattern, listener: PatternRewriterListener | None = None) -> bool:
    """Apply patterns in one walk, over and over, until none finds anything. Returns whether one did."""
    applier = GreedyRewritePatternApplier([*patterns])
    return PatternRewriteWalker(applier, listener=listener or PatternRewriterListener()).rewrite_module(module)


def squares() -> ModuleOp:
    return Parser(CONTEXT, SQUARES).parse_module()


def test_rules_share_a_walk_with_another_pattern() -> None:
    module = squares()
    assert walk(module, TileifyPass(), RegisterTilePass(vector=2), SumOfTwo())
    module.verify()
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    assert [launch.extent(axis) for axis in launch.axes] == [64, 32, 2]
    assert sum(isinstance(op, arith.AddfOp) for op in launch.walk()) == 1
    assert not walk(module, TileifyPass(), RegisterTilePass(vector=2), SumOfTwo())


def test_refusals_are_reasons_for_who_collects_them() -> None:
    module = squares()
    walk(module, TileifyPass())
    with remarks.collect() as refusals:
        assert not walk(module, TileifyPass())
    assert [str(remark) for remark in refusals] == ["t:001_tileify skipped at @squares: the kernel is a launch already"]


def test_functions_of_several_blocks_are_no_match() -> None:
    """Among other patterns a rule leaves what is not for it; as a pass it refuses such a module."""
    text = SQUARES.replace("  func.return\n", "  cf.br ^end\n^end:\n  func.return\n")
    module = Parser(CONTEXT, text).parse_module()
    with remarks.collect() as refusals:
        assert not walk(module, TileifyPass())
    assert "it has several blocks; a kernel is one block of loops" in str(refusals[0])


def test_listeners_hear_of_each_edit() -> None:
    inserted: list[Operation] = []
    erased: list[str] = []
    listener = PatternRewriterListener(
        operation_insertion_handler=[inserted.append],
        operation_removal_handler=[lambda op: erased.append(op.name)],
    )
    walk(squares(), TileifyPass(), listener=listener)
    assert sum(isinstance(op, tile.LaunchOp) for op in inserted) == 1
    assert erased.count("loop.for") == 3, "the nest outside of the launch, and the two loops of its copy"


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_a_schedule_rule_by_rule_in_walks(text: str, target: str) -> None:
    frontend = pytest.importorskip("deplodock.frontend.expression", reason="needs PyTorch")
    module = frontend.read_expression(text).module
    lower(module, CONTEXT, Level.LOOP, target=target)
    by_passes, by_patterns = module, module.clone()
    lower(by_passes, CONTEXT, Level.TILE)
    choose = stages(Level.LOOP, Level.TILE)[0].load()
    choose().apply(CONTEXT, by_patterns)
    (function,) = kernels(by_patterns)
    for step in schedule_of(function):
        walk(by_patterns, pattern(step.rule, dict(step.options)))
        clean_up(CONTEXT, function)
    assert str(by_patterns) == str(by_passes)


def pattern(name: str, options: dict[str, int | str]) -> Rule[Any]:
    (cls,) = (stage.load() for stage in RULES if stage.name == name)
    assert issubclass(cls, Rule)
    return cls(**options)


@pytest.mark.parametrize("path", sorted(Path(tile_rules.__path__[0]).glob("*.py")), ids=lambda path: path.stem)
def test_rules_edit_by_the_rewriter_of_their_pattern(path: Path) -> None:
    imported = re.findall(r"^from xdsl\.rewriter import (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(imported) <= {"InsertPoint"}


LANES = """
func.func @lanes(%x: memref<8x64xf32>, %out: memref<8x64xf32>) {
  tile.launch (%t = 8 : thread, %v = 64 : thread, %u = 8 : lane %t) {
    %a = loop.load %x[%u, %v] : memref<8x64xf32>
    %max = tile.combine {arith.maximumf} %a over (%u) : f32
    %row = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %b = loop.load %x[%t, %k] : memref<8x64xf32>
      loop.yield %b : f32
    }
    %sum = arith.addf %max, %row : f32
    loop.store %sum, %out[%t, %v] : memref<8x64xf32>
  }
  func.return
}
"""


@pytest.mark.parametrize("stage", RULES, ids=lambda stage: stage.name)
def test_launches_with_lane_axes_are_rewritten_or_refused(stage: Stage) -> None:
    """Whatever ran before: a rule that splits threads refuses those that carry lane axes."""
    module = Parser(CONTEXT, LANES).parse_module()
    module.verify()
    options = {"blockify-launch": {"threads": 32}, "register-tile": {"vector": 4}}.get(stage.name, {})
    with suppress(PassFailedException):
        pattern(stage.name, dict(options)).rewritten(module)
    module.verify()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "blockify-launch",
            {"threads": 4},
            "the launch has lane axes; blockify-launch runs before what adds those",
        ),
        ("register-tile", {"vector": 4}, "%t carries lane axes; register-tile runs before what adds those"),
    ],
)
def test_rules_that_split_threads_refuse_carriers(name: str, options: dict[str, int | str], message: str) -> None:
    text = """
    func.func @lanes(%x: memref<8xf32>, %out: memref<8xf32>) {
      tile.launch (%t = 8 : thread, %u = 8 : lane %t) {
        %a = loop.load %x[%u] : memref<8xf32>
        %max = tile.combine {arith.maximumf} %a over (%u) : f32
        loop.store %max, %out[%t] : memref<8xf32>
      }
      func.return
    }"""
    module = Parser(CONTEXT, text).parse_module()
    with pytest.raises(PassFailedException, match=message):
        pattern(name, options).rewritten(module)
