"""What a call of a compiled program costs in Python: counted in calls of functions, with kernels that do nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from deplodock.frontend.capture import export
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch import runners
from deplodock.pytorch.compiled import CompiledProgram, ProgramState
from deplodock.pytorch.signature import signature_of
from deplodock.runtime.plan import program_plan

Tensor = torch.Tensor


class Launches:
    """Keeps no addresses."""

    def place(self, addresses: Sequence[int]) -> None:
        pass


class Executable:
    """A program whose kernels do nothing."""

    def __init__(self, program: Any, gpu: int) -> None:
        self.plan = program_plan(program)

    def bind(self, numbers: Sequence[int]) -> Launches:
        return Launches()

    def is_capturing(self, stream: int) -> bool:
        return True

    def launch(self, launches: Launches, stream: int) -> None:
        pass


@pytest.fixture(autouse=True)
def _on_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(runners, "Executable", Executable)
    monkeypatch.setattr(runners, "current_stream", lambda gpu: 0)


def program(function: Callable[..., Any], *args: Any) -> CompiledProgram:
    """A function on the runner of the GPU."""
    captured = export(function, args, is_called=True)
    signature = signature_of(captured, (args, {}))
    owner = function if isinstance(function, nn.Module) else None
    lower(captured.module, new_context(), Level.KERNEL)
    runner = runners.CudaRunner(captured.module, torch.device("cpu"), signature.outputs, len(signature.writes))
    paths = [path for path in signature.paths if path is not None]
    return CompiledProgram(signature, ProgramState(owner, paths), runner, lambda: pytest.fail("saved"), learns=False)


def calls(run: Callable[..., Any], *args: Any) -> int:
    """How many functions a call calls, in Python and in C, once it has run."""
    with torch.no_grad():
        run(*args)
        count = 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            run(*args)
        finally:
            sys.setprofile(None)
    return count


class Layers(nn.Module):
    """So many vectors are added, and so many buffers counted up."""

    def __init__(self, added: int, counted: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Module() for _ in range(max(added, counted)))
        for number, layer in enumerate(self.layers):
            if number < added:
                layer.register_parameter("weight", nn.Parameter(torch.ones(4)))
            if number < counted:
                layer.register_buffer("count", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if hasattr(layer, "weight"):
                x = x + layer.weight
            if hasattr(layer, "count"):
                layer.count += 1
        return x


def test_a_kernel_of_one_tensor() -> None:
    assert calls(program(torch.relu, torch.ones(4)), torch.ones(4)) < 70


def test_a_further_tensor_of_the_module() -> None:
    few, many = (calls(program(Layers(count, 0), torch.ones(4)), torch.ones(4)) for count in (5, 15))
    assert (many - few) / 10 < 7


def test_a_further_written_buffer() -> None:
    few, many = (calls(program(Layers(1, count), torch.ones(4)), torch.ones(4)) for count in (5, 15))
    assert (many - few) / 10 < 7
