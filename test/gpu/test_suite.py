"""`deplodock bench --suite` on the GPU: right problems are measured in loops and graphs, a wrong one fails alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential({layers})

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.rand({shape})]


def get_init_inputs():
    return []
"""
CELL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(80, 64)
        self.hidden = torch.zeros(256, 64)

    def forward(self, x, start):
        self.hidden = self.hidden.to(x.device)
        self.hidden.copy_(start)
        self.hidden = torch.tanh(self.mix(torch.cat((x, self.hidden), 1)))
        return self.hidden


def get_inputs():
    return [torch.rand(256, 16), torch.rand(256, 64)]


def get_init_inputs():
    return []
"""
PROBLEMS = {
    "level1/1_linear": MODEL.format(layers="nn.Linear(512, 256), nn.GELU()", shape="128, 512"),
    "level1/2_norm": MODEL.format(layers="nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)", shape="4, 8, 32, 32"),
    "level2/3_dropout": MODEL.format(layers="nn.Linear(64, 64), nn.Dropout(0.3), nn.Softmax(1)", shape="32, 64"),
    "level2/5_cell": CELL,
    "level2/4_fails": MODEL.format(layers="nn.Linear(64, 64)", shape="32, 65"),
}


def test_a_suite_is_measured(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    for name, text in PROBLEMS.items():
        path = tmp_path / "suite" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + text, encoding="utf-8")
    done = run_tool("deplodock.tools.cli", "bench", "--suite", str(tmp_path / "suite"), "-o", str(tmp_path / "results"))
    assert done.returncode == 1, done.stderr
    lines = (tmp_path / "results" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    results = {row["name"]: row for row in map(json.loads, lines)}
    assert {name for name, row in results.items() if row["error"]} == {"level2/4_fails"}, lines
    for name in ("level1/1_linear", "level1/2_norm"):
        bench = results[name]["bench"]
        assert {timing["name"] for timing in bench["timings"]} == {
            *("deplodock", "deplodock, loop", "PyTorch, graph", "PyTorch, loop"),
            *("torch.compile, graph", "torch.compile, loop"),
        }
        assert not bench["left"]
    assert {timing["name"] for timing in results["level2/5_cell"]["bench"]["timings"]} >= {
        "deplodock",
        "PyTorch, graph",
    }
    assert "dropout" in results["level2/3_dropout"]["bench"]["left"][0]
    assert "| problems | 2 | 3 | 5 |" in (tmp_path / "results" / "results.md").read_text(encoding="utf-8")
