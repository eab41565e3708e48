"""Passes that are left out of a program, as it has none of the operations that they act on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.dialects.builtin import ModuleOp

from deplodock.passes.driver import Level, StageRun, lower, new_context, words
from deplodock.passes.pipeline import ORDER, STAGES

pytest.importorskip("torch", reason="needs PyTorch")

from deplodock.frontend.expression import read_expression

PROGRAMS = (
    "torch.relu(torch.randn(64, 64))",
    "nn.RMSNorm(256)(torch.randn(1, 32, 256))",
    "torch.randn(8, 48, 64) @ torch.randn(64, 96)",
    "F.linear(torch.randn(128, 256).bfloat16(), torch.randn(256, 256).bfloat16())",
    "F.scaled_dot_product_attention(*(torch.randn(1, 4, 128, 64).bfloat16() for _ in range(3)), is_causal=True)",
    "F.embedding(torch.randint(0, 9, (3, 5)), torch.randn(9, 16))",
    "torch.cumsum(torch.randn(4, 100), 1)",
    "F.max_pool2d(F.conv2d(torch.randn(1, 8, 12, 12), torch.randn(4, 8, 3, 3), padding=1), 2)",
    "torch.argmax(torch.randn(7, 1000) / 3, 1)",
)


def test_what_passes_act_on_are_operations() -> None:
    context = new_context()
    acted = {name for stage in STAGES for name in stage.acts_on}
    assert acted
    assert not {name for name in acted - {ORDER} if context.get_optional_op(name) is None}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_they_leave_a_program_without_those_as_it_is(program: str, target: str) -> None:
    module, context = read_expression(program).module, new_context()
    left_out = set[str]()

    def apply_the_next(run: StageRun, module: ModuleOp) -> None:
        for stage in STAGES[STAGES.index(run.stage) + 1 :][:1]:
            if stage.acts_on and words(module).isdisjoint(stage.acts_on):
                copy = module.clone()
                stage.load()().apply(context, copy)
                assert str(copy) == str(module), stage.name
                left_out.add(stage.name)

    lower(module, context, Level.KERNEL, target=target, observer=apply_the_next)
    assert left_out


def test_they_are_not_imported() -> None:
    program = """
import sys
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context
lower(read_expression("torch.relu(torch.randn(64, 64))").module, new_context(), Level.KERNEL)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    imported = {*done.stdout.split()}
    assert "deplodock.passes.kernel.outline" in imported
    assert imported.isdisjoint(stage.module for stage in STAGES if "loop.reduce" in stage.acts_on)
    assert imported.isdisjoint(stage.module for stage in STAGES if "kernel.wgmma" in stage.acts_on)
