"""The compiler stays small enough to read: what there is of it, and what the smallest programs run through, as budgets.

A budget that is no longer needed is lowered in the same commit: it is at most as far above what there is as SLACK says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import Walk, double_definitions, engine_comparisons, files, rooms

CODE = {
    "dialects": 1104,
    "dialects/kernel": 1508,
    "dialects/loop": 515,
    "dialects/tensor": 475,
    "dialects/tile": 665,
    "dialects/torch": 811,
    "dialects/torch/shapes": 476,
    "analysis": 34,
    "analysis/access": 497,
    "analysis/affine": 315,
    "analysis/host": 161,
    "analysis/machine": 831,
    "analysis/order": 1023,
    "analysis/shape": 1240,
    "schedule": 52,
    "schedule/choose": 1941,
    "passes": 839,
    "passes/kernel": 3303,
    "passes/loop": 1636,
    "passes/tensor": 1605,
    "passes/tile": 3753,
    "passes/torch": 1884,
    "codegen": 1233,
}
"""The lines of code of each folder: 25,901 together."""

FILES = 240
"""The files of the core."""

WALKS = {
    "torch.relu(torch.randn(64, 64))": Walk(functions=634, lines=4671, files=82, modules=113),
    "torch.randn(512, 512) @ torch.randn(512, 512)": Walk(functions=1090, lines=8262, files=143, modules=174),
}
"""What lowering a program to CUDA runs and imports."""

ENGINE_COMPARISONS = 0
"""Comparisons with the name of an engine outside of the table of engines."""

DOUBLE_DEFINITIONS = 0
"""Names that several files define alike."""

SLACK = 20


def is_within(found: int, budget: int) -> bool:
    return budget - SLACK <= found <= budget


def test_lines_of_code() -> None:
    found = rooms()
    assert found.keys() == CODE.keys()
    assert not {room: size for room, size in found.items() if not is_within(size, CODE[room])}


def test_files() -> None:
    assert is_within(len(files()), FILES)


def test_engines_are_told_apart_in_their_table() -> None:
    found = engine_comparisons()
    assert is_within(len(found), ENGINE_COMPARISONS), "\n".join(found)


def test_names_are_defined_once() -> None:
    found = double_definitions()
    assert is_within(len(found), DOUBLE_DEFINITIONS), found


@pytest.mark.parametrize("text", WALKS)
def test_what_a_program_runs_through(text: str, repository: Path) -> None:
    pytest.importorskip("torch", reason="needs PyTorch")
    command = [sys.executable, str(repository / "test/shared/sizes.py"), "walk", text]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    budgets = vars(WALKS[text])
    assert not {name: size for name, size in found.items() if not is_within(size, budgets[name])}
