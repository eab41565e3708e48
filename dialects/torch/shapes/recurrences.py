"""The shapes of the results of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from deplodock.dialects.shapes import Shape
from deplodock.dialects.tensor.indexing import shape_of
from deplodock.dialects.torch.schema import AtenCall

GATES = {"lstm.input": 4, "gru.input": 3, "rnn_tanh.input": 1, "rnn_relu.input": 1}
"""How many rows of weights each hidden unit has."""


def recurrent(op: AtenCall) -> Sequence[Shape]:
    """The outputs of all steps, then the last states, which are of the shapes of the first."""
    name = op.schema().name
    x, *given = map(shape_of, op.tensors)
    count = 2 if name == "lstm.input" else 1
    states, weights = given[:count], given[count:]
    directions = 2 if op.value("bidirectional") else 1
    units = op.value("num_layers") * directions
    if len(x) != 3 or len(states) < count or any(len(state) != 3 or state[0] != units for state in states):
        raise ValueError(f"the input has 3 dimensions, and so has each of {count} states, {units} the first of them")
    batch, steps = (x[0], x[1]) if op.value("batch_first") else (x[1], x[0])
    size, hidden = states[0][2], states[-1][2]
    if any(state[1] != batch for state in states) or not steps:
        raise ValueError(f"the states are those of {batch} sequences of one step or more, got {list(states[0])}")
    wanted: list[Shape] = []
    rows = GATES[name] * hidden
    for unit in range(units):
        wanted += [(rows, x[2] if unit < directions else size * directions), (rows, size)]
        wanted += [(rows,), (rows,)] if op.value("has_biases") else []
        wanted += [(size, hidden)] if size != hidden else []
    if list(weights) != wanted:
        raise ValueError(f"the weights must be of the shapes {[*map(list, wanted)]}, not {[*map(list, weights)]}")
    output = (steps, batch) if not op.value("batch_first") else (batch, steps)
    return [(*output, size * directions), *states]
