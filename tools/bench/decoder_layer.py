"""A decoder layer of TinyLlama-1.1B or Qwen2.5-7B with random weights: `deplodock.compile` beside PyTorch on a GPU.

    python -m deplodock.tools.bench.decoder_layer --model tinyllama -s 128

Prints errors against float64, launches, and the time of a run in a CUDA graph and from Python. The weights of a layer
are larger than the L2 cache, so that runs on the same inputs read them from memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import deplodock
from deplodock.pytorch.runners import CudaRunner

Tensor = torch.Tensor
_RUNS = 50


class DecoderLayer(nn.Module):
    """Attention with rotary positions and grouped queries, and a gated MLP, each behind a norm and in a residual."""

    def __init__(self, sizes: dict[str, int], *, bias: bool) -> None:
        super().__init__()
        hidden, inner, kv = sizes["hidden"], sizes["inner"], sizes["kv"]
        self.head = sizes["head"]
        self.norm = nn.RMSNorm(hidden, eps=1e-6)
        self.query, self.key, self.value = (nn.Linear(hidden, width, bias=bias) for width in (hidden, kv, kv))
        self.output = nn.Linear(hidden, hidden, bias=False)
        self.inner_norm = nn.RMSNorm(hidden, eps=1e-6)
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The hidden state after the layer, all of shape (1, s, hidden); cos and sin are (s, head)."""
        normed = self.norm(x)
        query, key, value = (
            project(normed).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.output(attended.transpose(1, 2).flatten(-2))
        normed = self.inner_norm(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in the half-split form of transformers."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def measure(model: str, s: int) -> dict[str, Any]:
    """Errors, launches and times of a layer at a sequence length."""
    sizes = tomllib.loads((Path(__file__).parents[2] / "bench" / "table.toml").read_text())["models"][model]
    torch.manual_seed(0)
    layer = DecoderLayer(sizes, bias=model.startswith("qwen")).cuda().requires_grad_(False)
    angles = torch.outer(torch.arange(s), 10000 ** -(torch.arange(0, layer.head, 2) / layer.head))
    angles = torch.cat([angles, angles], -1).cuda()
    args = torch.randn(1, s, sizes["hidden"], device="cuda"), angles.cos(), angles.sin()
    compiled = deplodock.compile(layer, args)
    backend = torch.compile(layer, backend="deplodock")
    inductor = torch.compile(layer)
    contestants = {"eager": layer, "torch.compile": inductor, "deplodock": compiled, "backend": backend}
    results = {name: run(*args) for name, run in contestants.items()}
    reference = layer.double()(*(value.double() for value in args))
    errors = {name: float((got - reference).norm() / reference.norm()) for name, got in results.items()}
    layer.float()
    assert isinstance(compiled.runner, CudaRunner)
    return {
        "model": model,
        "s": s,
        "card": torch.cuda.get_device_name(),
        "launches": len(compiled.runner.executable.plan.launches),
        "errors": errors,
        "graph_us": {name: in_graph(run, args) for name, run in contestants.items()},
        "loop_us": {name: in_loop(run, args) for name, run in contestants.items()},
    }


def in_graph(run: Callable[..., Tensor], args: tuple[Tensor, ...]) -> float:
    """The median time of a replay in microseconds."""
    run(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(*args)
    return in_loop(graph.replay, ())


def in_loop(run: Callable[..., Any], args: tuple[Tensor, ...]) -> float:
    """The median time of a call in microseconds, each waited for."""
    times: list[float] = []
    for _ in range(_RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run(*args)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times)


def main() -> None:
    """Measure the layer of the command line and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("tinyllama", "qwen2_5_7b"), default="tinyllama")
    parser.add_argument("-s", type=int, default=128, help="tokens of the sequence")
    options = parser.parse_args()
    with torch.no_grad():
        print(json.dumps(measure(options.model, options.s), indent=1))


if __name__ == "__main__":
    main()
