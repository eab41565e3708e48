"""Recurrent layers: tracing that leaves out their cells knows the results, and PyTorch's kernels come back."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
import torch
from torch import nn
from torch._decomp import decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from deplodock.frontend.capture import export
from deplodock.frontend.recurrences import without_cells

STEPS = 5


def layout(results: Any) -> list[tuple[Any, ...]]:
    output, states = results
    states = states if isinstance(states, tuple) else (states,)
    return [(value.shape, value.stride(), value.dtype) for value in (output, *states)]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [(nn.LSTM, {}), (nn.LSTM, {"proj_size": 2}), (nn.GRU, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"})],
)
def test_results_are_known_without_cells(kind: Any, options: dict[str, Any], first: bool, both: bool) -> None:
    def run() -> Any:
        layer = kind(3, 4, 2, batch_first=first, bidirectional=both, **options)
        return layer(torch.ones((2, STEPS, 3) if first else (STEPS, 2, 3)))

    with torch.no_grad():
        expected = run()
        with FakeTensorMode() as mode, enable_python_dispatcher(), without_cells():
            assert layout(run()) == layout(expected)
        mode.cache_clear()


def test_cells_are_there_for_graphs_and_gradients_and_afterwards() -> None:
    overload, x = torch.ops.aten.gru.input, torch.ones(STEPS, 2, 3)
    kernels, layer = dict(overload.py_kernels), nn.GRU(3, 4).requires_grad_(False)
    with without_cells():
        assert overload.py_kernels != kernels
        traced = make_fx(lambda x: layer(x)[0], tracing_mode="fake", _allow_non_fake_inputs=True)(x)
        with FakeTensorMode(), enable_python_dispatcher():
            assert nn.GRU(3, 4)(torch.ones(STEPS, 2, 3))[0].requires_grad
    assert overload.py_kernels == kernels
    torch.testing.assert_close(traced(x), layer(x)[0])


def test_states_have_their_shapes_whatever_a_version_of_pytorch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    overload = torch.ops.aten.lstm.input
    kernel = decomposition_table[overload]

    @wraps(kernel)
    def of_torch_2_11(*args: Any) -> Any:
        output, *states = kernel(*args)
        return output, *(state.unsqueeze(1) for state in states)

    monkeypatch.setitem(decomposition_table, overload, of_torch_2_11)
    layer, x = nn.LSTM(3, 4, 2).eval(), torch.rand(STEPS, 7, 3)

    def split(x: torch.Tensor) -> list[torch.Tensor]:
        """The states are read by an operation that PyTorch decomposes."""
        output, states = layer(x)
        return [output, *(state.unflatten(2, (2, 2)) for state in states)]

    captured = export(split, (x,))
    assert "torch.aten.lstm" in str(captured.module)
    with torch.no_grad():
        wanted = split(x)
    for value, expected in zip(captured.eager(), wanted, strict=True):
        torch.testing.assert_close(value, expected)
