"""A suite of three small problems: one of plain operations, one with buffers that it writes, one with dropout."""

from pathlib import Path

import pytest

SCALE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, factor):
        return torch.relu(x) * factor


def get_inputs():
    return [torch.rand(7, 9) - 0.5, 2.5]


def get_init_inputs():
    return []
"""
NORM = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 5, 3)
        self.norm = nn.BatchNorm2d(5)

    def forward(self, x):
        return self.norm(self.conv(x))


def get_inputs():
    return [torch.rand(2, 3, 9, 9)]


def get_init_inputs():
    return [3]
"""
DROPOUT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return torch.softmax(self.dropout(self.linear(x)), 1)


def get_inputs():
    return [torch.rand(6, 8)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The folder of the suite."""
    folder = tmp_path / "small"
    problems = {"level1/10_norm": NORM, "level1/2_scale": SCALE, "level2/3_dropout": DROPOUT}
    for name, text in problems.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
