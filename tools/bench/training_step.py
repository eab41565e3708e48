"""A training step of a decoder layer: our backend of `torch.compile` beside eager PyTorch and Inductor on a GPU.

    python -m deplodock.tools.bench.training_step --model tinyllama -s 512 --type bfloat16

A step is a forward, the mean square of its result, and a backward that makes the gradients of all parameters anew.
Prints the errors of those gradients against float64, how many operations of the backward our kernels run, and the time
of a step called from Python.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from deplodock.tools.bench.decoder_layer import WIDTHS, in_loop
from deplodock.tools.bench.layers import layer_and_inputs
from deplodock.tools.bench.rows import read_models

Tensor = torch.Tensor

_COUNTS = re.compile(r": (\d+) of (\d+) operations")


class _Counts(logging.Handler):
    """Collects how many operations our backend compiles of each graph, and of how many: forward, then backward."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[tuple[int, int]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (match := _COUNTS.search(record.getMessage())) is not None:
            self.found.append((int(match[1]), int(match[2])))


def measure(model: str, s: int, type: torch.dtype) -> dict[str, Any]:
    """Errors of gradients, compiled operations, and microseconds of a step, at a sequence length, in a type."""
    sizes = read_models()[model]
    torch.manual_seed(0)
    layer, *inputs = layer_and_inputs(s, **{name: sizes[name] for name in WIDTHS}, type=type)
    layer, args = layer.cuda().requires_grad_(), [value.cuda() for value in inputs]
    logger, counts = logging.getLogger("deplodock"), _Counts()
    logger.addHandler(counts)
    logger.setLevel(logging.INFO)
    runs = {
        "eager": layer,
        "torch.compile": torch.compile(layer, dynamic=False),
        "deplodock": torch.compile(layer, dynamic=False, backend="deplodock"),
    }
    exact = copy.deepcopy(layer).double()
    reference = gradients(exact, exact, [value.double() for value in args])
    errors = {name: _error(gradients(run, layer, args), reference) for name, run in runs.items()}
    return {
        "model": model,
        "s": s,
        "type": str(type).removeprefix("torch."),
        "card": torch.cuda.get_device_name(),
        "compiled_operations": counts.found,
        "errors": errors,
        "loop_us": {name: in_loop(lambda run=run: step(run, layer, args), ()) for name, run in runs.items()},
    }


def step(run: Callable[..., Tensor], layer: nn.Module, args: Sequence[Tensor]) -> None:
    """A forward and a backward, which leaves new gradients."""
    layer.zero_grad(set_to_none=True)
    run(*args).square().mean().backward()


def gradients(run: Callable[..., Tensor], layer: nn.Module, args: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a layer's parameters after a step."""
    step(run, layer, args)
    return [parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None]


def _error(got: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """The largest relative error, in the norm of each gradient."""
    pairs = zip(got, exact, strict=True)
    return max(float((own - wanted).norm() / wanted.norm()) for own, wanted in pairs)


def main() -> None:
    """Measure the layer of the command line and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("tinyllama", "qwen2_5_7b"), default="tinyllama")
    parser.add_argument("-s", type=int, default=512, help="tokens of the sequence")
    parser.add_argument("--type", choices=("float32", "bfloat16", "float16"), default="bfloat16")
    options = parser.parse_args()
    print(json.dumps(measure(options.model, options.s, getattr(torch, options.type)), indent=1))


if __name__ == "__main__":
    main()
