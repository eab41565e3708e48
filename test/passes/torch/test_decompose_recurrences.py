"""Recurrent layers: evaluated, and as steps of launches in the simulator, what PyTorch gives in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.host.arguments import callee
from deplodock.dialects.kernel import FuncOp as KernelFuncOp
from deplodock.dialects.kernel import LaunchOp
from deplodock.dialects.loop import RepeatOp
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.torch import recurrences
from deplodock.runtime.plan import program_plan
from deplodock.runtime.simulated import lane_steps, steps_of_cta

torch = pytest.importorskip("torch")

from deplodock.frontend.expression import read_expression  # noqa: E402

nn = torch.nn

CASES: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "lstm.input of several layers": (nn.LSTM(5, 7, 3), (4, 3, 5), 2),
    "lstm.input of both directions without biases": (nn.LSTM(5, 7, 2, bidirectional=True, bias=False), (4, 3, 5), 2),
    "lstm.input with projections": (nn.LSTM(5, 7, 2, proj_size=3, batch_first=True), (3, 4, 5), 2),
    "lstm.input of one step": (nn.LSTM(4, 8, 2), (1, 2, 4), 2),
    "gru.input of several layers": (nn.GRU(5, 7, 3, batch_first=True), (3, 4, 5), 1),
    "gru.input without biases": (nn.GRU(5, 8, 2, bias=False), (4, 3, 5), 1),
    "gru.input of both directions": (nn.GRU(5, 7, 2, bidirectional=True), (4, 1, 5), 1),
    "rnn_tanh.input of one layer": (nn.RNN(5, 7), (4, 3, 5), 1),
    "rnn_relu.input with relu": (nn.RNN(5, 7, 2, nonlinearity="relu", dropout=0.5).eval(), (4, 3, 5), 1),
    "rnn_relu.input with relu of both directions": (
        nn.RNN(5, 7, 1, nonlinearity="relu", bidirectional=True),
        (4, 3, 5),
        1,
    ),
}


def states(layer: Any, batch: int, count: int) -> list[Any]:
    units = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size][-count if count == 1 else 0 :]
    return [torch.randn(units, batch, size) for size in sizes]


@pytest.mark.parametrize("name", CASES)
def test_steps_of_launches_are_right(name: str, check_with_torch: Callable[..., Any]) -> None:
    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.capture import export

    layer, shape, count = CASES[name]
    x, given = torch.randn(shape), states(layer, shape[0 if layer.batch_first else 1], count)

    class Program(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any, *given: Any) -> Any:
            return self.layer(x, tuple(given) if count == 2 else given[0])

    check_with_torch(Program(), x, *given)
    program = export(Program(), (x, *given))
    lower(program.module, new_context(), Level.KERNEL)
    simulation = simulate(program.module, [to_array(value) for value in program.inputs])
    assert simulation.findings == []
    for value, expected in zip(simulation.outputs, program.reference(), strict=True):
        np.testing.assert_allclose(value, to_array(expected), rtol=1e-5, atol=1e-6)


def launches(layer: Any, steps: int) -> tuple[int, int]:
    """How many launches and functions the program of a layer is."""
    from deplodock.frontend.capture import export

    program = export(layer, (torch.ones(steps, 3, 4),))
    lower(program.module, new_context(), Level.KERNEL)
    return len(program_plan(program.module).launches), sum(isinstance(op, FuncOp) for op in program.module.walk())


def test_each_step_of_all_layers_is_one_launch() -> None:
    few, many = launches(nn.GRU(4, 8, 3), 2), launches(nn.GRU(4, 8, 3), 12)
    assert (many[0] - few[0], many[1] - few[1]) == (10, 0)


def test_layers_of_more_work_are_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, check_with_torch: Callable[..., Any]
) -> None:
    monkeypatch.setattr(recurrences, "MOST_TOGETHER", 0)
    few, many = launches(nn.GRU(4, 8, 3), 2), launches(nn.GRU(4, 8, 3), 12)
    assert many[0] - few[0] == 30
    check_with_torch(nn.LSTM(4, 8, 3), torch.randn(2, 3, 4))


def test_dropout_between_layers_is_refused_where_it_draws() -> None:
    from deplodock.frontend.capture import export

    program = export(nn.GRU(4, 8, 2, dropout=0.5), (torch.ones(2, 3, 4),))
    message = r"dropout between its layers draws random numbers; call .eval\(\) on a module in training mode"
    with pytest.raises(PassFailedException, match=message):
        lower(program.module, new_context(), Level.TENSOR)


def test_steps_count_each_time_that_they_run() -> None:
    from deplodock.frontend.capture import export

    program = export(nn.RNN(4, 8), (torch.ones(5, 3, 4),))
    lower(program.module, new_context(), Level.KERNEL)
    (repeat,) = (op for op in program.module.walk() if isinstance(op, RepeatOp))
    (launch,) = (op for op in repeat.body.walk() if isinstance(op, LaunchOp))
    cell = callee(launch)
    assert isinstance(cell, KernelFuncOp)
    assert lane_steps(program.module) > repeat.trips * cell.num_blocks * steps_of_cta(cell)


def test_a_cell_of_which_nothing_is_used_is_erased() -> None:
    program = read_expression("x = torch.randn(3, 1, 6); torch.ones_like(torch.nn.LSTM(6, 4, 2)(x)[0])")
    lower(program.module, new_context(), Level.LOOP)
    assert [op.sym_name.data for op in program.module.ops if isinstance(op, FuncOp)] == ["main", "k_ones_like"]
