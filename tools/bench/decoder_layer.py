"""A decoder layer of TinyLlama-1.1B or Qwen2.5-7B with random weights: `deplodock.compile` beside PyTorch on a GPU.

    python -m deplodock.tools.bench.decoder_layer --model tinyllama -s 128

Prints errors against float64, launches, and the time of a run in a CUDA graph and from Python. The weights of a layer
are larger than the L2 cache, so that runs on the same inputs read them from memory.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch

import deplodock
from deplodock.dialects.precision import PRECISIONS
from deplodock.frontend.precision import pytorch_beside
from deplodock.pytorch.runners import CudaRunner
from deplodock.tools.bench.layers import layer_and_inputs
from deplodock.tools.bench.report import products_of_pytorch
from deplodock.tools.bench.rows import read_models

Tensor = torch.Tensor
WIDTHS = ("hidden", "inner", "kv", "head", "bias")
"""What of a model's sizes a layer is made of."""

_RUNS = 50


def measure(model: str, s: int, type: torch.dtype, precision: str) -> dict[str, Any]:
    """Errors, launches and times of a layer at a sequence length, in a type of its weights and inputs.

    `precision` is that of our products of FP32; PyTorch's are strict, but beside `medium` ones in TF32.
    """
    with pytorch_beside(precision):
        return _measured(model, s, type, precision)


def _measured(model: str, s: int, type: torch.dtype, precision: str) -> dict[str, Any]:
    sizes = read_models()[model]
    torch.manual_seed(0)
    layer, *inputs = layer_and_inputs(s, **{name: sizes[name] for name in WIDTHS}, type=type)
    layer, args = layer.cuda(), tuple(value.cuda() for value in inputs)
    compiled = deplodock.compile(layer, args, precision=precision)
    backend = torch.compile(layer, backend="deplodock", options={"precision": precision})
    inductor = torch.compile(layer)
    contestants = {"eager": layer, "torch.compile": inductor, "deplodock": compiled, "backend": backend}
    results = {name: run(*args) for name, run in contestants.items()}
    reference = copy.deepcopy(layer).double()(*(value.double() for value in args))
    errors = {name: float((got - reference).norm() / reference.norm()) for name, got in results.items()}
    assert isinstance(compiled.runner, CudaRunner)
    return {
        "model": model,
        "s": s,
        "type": str(type).removeprefix("torch."),
        "precision": precision,
        "pytorch": products_of_pytorch(precision),
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
    parser.add_argument("--type", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--precision", choices=PRECISIONS, default=PRECISIONS[0], help="of our products of FP32")
    options = parser.parse_args()
    with torch.no_grad():
        found = measure(options.model, options.s, getattr(torch, options.type), options.precision)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
