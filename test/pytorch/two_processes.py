"""One of two processes that run models through the backend together: `two_processes.py RANK FILE cpu|cuda`.

Prints a line for each model, `NAME COMPILED LEFT`: the operations that were compiled, and those that PyTorch runs.
"""

from __future__ import annotations

import copy
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

Tensor = torch.Tensor


class Feed(nn.Module):
    """Two projections around an activation, on the rows of an input."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Counted(logging.Handler):
    """Counts the operations of what the backend compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled = self.left = 0

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r": (\d+) of (\d+) operations", record.getMessage()):
            compiled, calls = map(int, found.groups())
            self.compiled += compiled
            self.left += calls - compiled


@contextmanager
def reported(name: str) -> Iterator[None]:
    """Print what the backend does meanwhile, which warns of nothing."""
    log, counted = logging.getLogger("deplodock"), Counted()
    log.addHandler(counted)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "deplodock")
        yield
    log.removeHandler(counted)
    print(name, counted.compiled, counted.left, flush=True)


def train(model: Callable[[Tensor], Tensor], parameters: Iterator[nn.Parameter], seed: int) -> None:
    """Two steps on drawn inputs."""
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(2):
        x = torch.randn(3, 8, generator=torch.Generator().manual_seed(10 * step + seed)).to(DEVICE)
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()


def data_parallel(rank: int) -> None:
    """Each process trains on inputs of its own; gradients are averaged in several buckets."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1
    models = [DistributedDataParallel(copy.deepcopy(MODEL), bucket_cap_mb=1e-3) for _ in range(2)]
    with reported("data_parallel"):
        train(torch.compile(models[0], backend="deplodock"), models[0].parameters(), rank)
    train(models[1], models[1].parameters(), rank)
    for own, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(own, other)


def tensor_parallel(rank: int) -> None:
    """Each process has half of the inner features of a module; both see the same inputs."""
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model, whole = parallelize_module(copy.deepcopy(MODEL), init_device_mesh(DEVICE, (2,)), plan), copy.deepcopy(MODEL)
    compiled, x = torch.compile(model, backend="deplodock"), torch.ones(3, 8, device=DEVICE)
    with reported("tensor_parallel"), torch.no_grad():
        torch.testing.assert_close(compiled(x), whole(x))
    with reported("tensor_parallel_training"):
        train(compiled, model.parameters(), 0)
    train(whole, whole.parameters(), 0)
    for own, other in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(own.full_tensor(), other)


if __name__ == "__main__":
    _, rank, meeting, DEVICE = sys.argv
    if DEVICE == "cuda":
        torch.cuda.set_device(int(rank))
    torch.manual_seed(1)
    MODEL = Feed().to(DEVICE)
    torch.set_num_threads(1)
    logging.getLogger("deplodock").setLevel(logging.INFO)
    exchange = "nccl" if DEVICE == "cuda" else "gloo"
    dist.init_process_group(exchange, init_method=f"file://{meeting}", rank=int(rank), world_size=2)
    data_parallel(dist.get_rank())
    tensor_parallel(dist.get_rank())
    dist.destroy_process_group()
