"""Recurrent layers: what does not depend on the steps before is computed for all steps at once, the rest is a cell.

The first layer's share of the gates of all steps is one product before the loop. A cell computes several units at once:
the directions of a layer, the second on the steps in reverse; or, where a step is little work, all layers of one
direction, each a step behind the one below it, whose last output it takes. So a step waits for one launch, not for one
of each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects.tensor import RecurrenceOp
from deplodock.passes.copying import Symbols
from deplodock.passes.tensor.group import FUSE
from deplodock.passes.torch.elementwise import sigmoid
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.matmul import contract, multiplied
from deplodock.passes.torch.tensors import Tensor, TensorBuilder, concat, maximum, tanh, where

MOST_TOGETHER = 1 << 26
"""The most multiplications of a step that take no longer than a launch: 2 us at the rate of an H200."""

Cell = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]
"""What a step computes of what is carried, of the rows of this step, and of what is fixed: what is carried on."""


@dataclass(frozen=True)
class _Weights:
    """Those of one direction of a layer: of the input, of the state, both biases, the projection of outputs."""

    input: Tensor
    state: Tensor
    biases: Sequence[Tensor]
    projection: Tensor | None


@lowers("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(
    operands: Sequence[Tensor],
    name: str,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Sequence[Tensor]:
    """The formulas of torch.nn.LSTM, GRU and RNN, layer by layer. Dropout between layers is refused in training."""
    if dropout and train and num_layers > 1:
        raise ValueError("dropout between its layers draws random numbers; call .eval() on a module in training mode")
    x, *given = operands
    count = 2 if name == "lstm" else 1
    states, rest = given[:count], given[count:]
    weights = list(_weights(rest, has_biases, is_projected=states[0].shape[2] != states[-1].shape[2]))
    directions = 2 if bidirectional else 1
    x = x.read([AffineExpr.dimension(d) for d in (1, 0, 2)], _swapped(x.shape)) if batch_first else x
    if num_layers > 1 and directions == 1 and weights[0].projection is None and _work(weights, x) <= MOST_TOGETHER:
        x, last = _layers_at_once(name, x, states, weights)
    else:
        x, last = _layer_by_layer(name, x, states, weights, directions)
    return x.read([AffineExpr.dimension(d) for d in (1, 0, 2)], _swapped(x.shape)) if batch_first else x, *last


def _work(weights: Sequence[_Weights], x: Tensor) -> int:
    """The multiplications of a step of all layers."""
    return x.shape[1] * sum(2 * prod(each.state.shape) for each in weights)


def _layer_by_layer(
    name: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[_Weights], directions: int
) -> tuple[Tensor, Sequence[Tensor]]:
    """The outputs of the last layer [steps, batch, directions * size], and the last states of all units."""
    last: list[list[Tensor]] = [[] for _ in states]
    for first in range(0, len(weights), directions):
        units = slice(first, first + directions)
        sequences = _layer(name, x, [_rows(state, units) for state in states], weights[units])
        x = _joined(sequences[0])
        for found, sequence in zip(last, sequences, strict=True):
            found.append(_rows_of_units(sequence, x.shape[0] - 1, 0))
    return x, [concat(found, 0) for found in last]


def _layers_at_once(
    name: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[_Weights]
) -> tuple[Tensor, Sequence[Tensor]]:
    """As `_layer_by_layer`, of layers of one direction: layer `n` is `n` steps behind the first one.

    It keeps its state until it starts. What it computes after its last step nobody reads.
    """
    steps, layers = x.shape[0], len(weights)
    count, hidden = steps + layers - 1, states[0].shape[2]
    share = _input_share(name, x, weights[0])
    share = share.padded(AffineMap.identity(3), (count, *share.shape[1:]))
    build = x.build
    starts = build.iota(0, (count, layers)) >= build.iota(1, (count, layers))
    zeros = build.constant(0, x.element, (weights[0].state.shape[0], hidden))
    below = [zeros, *(each.input for each in weights[1:])]
    parts: list[Tensor] = []
    for own, under in zip((each.state for each in weights), below, strict=True):
        parts += _gate_blocks(name, own, under)
    fixed = [concat(parts, 0)]
    if weights[0].biases:
        fixed.append(concat([bias for each in weights for bias in _gate_biases(name, each)], 0))
    carried = _recurrence(f"{name}_layers", states, [share, starts], fixed, _layers(name))
    dims = [*map(AffineExpr.dimension, range(3))]
    output = carried[0].read(
        [dims[0] + (layers - 1), AffineExpr.constant(layers - 1), dims[1], dims[2]], (steps, *x.shape[1:2], hidden)
    )
    return output, [_rows_of_units(sequence, steps - 1, 1) for sequence in carried]


def _swapped(shape: Sequence[int]) -> tuple[int, ...]:
    return shape[1], shape[0], shape[2]


def _weights(given: Sequence[Tensor], has_biases: bool, is_projected: bool) -> Sequence[_Weights]:
    """The weights of each direction of each layer."""
    each = 2 + 2 * has_biases + is_projected
    return [
        _Weights(unit[0], unit[1], unit[2:4] if has_biases else (), unit[-1] if is_projected else None)
        for unit in (given[start : start + each] for start in range(0, len(given), each))
    ]


def _rows(x: Tensor, which: slice) -> Tensor:
    """Some rows of the first dimension."""
    dims = [AffineExpr.dimension(d) for d in range(x.rank)]
    return x.read([dims[0] + which.start, *dims[1:]], (which.stop - which.start, *x.shape[1:]))


def _rows_of_units(sequence: Tensor, first: int, behind: int) -> Tensor:
    """What each unit carries after a step, which each has so many steps `behind` the one before it."""
    n, b, j = map(AffineExpr.dimension, range(3))
    return sequence.read([n * behind + first, n, b, j], sequence.shape[1:])


def _joined(sequence: Tensor) -> Tensor:
    """The outputs of a layer [steps, batch, directions * size] of those of its directions in their own order."""
    steps, directions, batch, size = sequence.shape
    step, b, h = map(AffineExpr.dimension, range(3))
    return concat(
        [
            sequence.read([_own_step(step, steps, d), AffineExpr.constant(d), b, h], (steps, batch, size))
            for d in range(directions)
        ],
        2,
    )


def _own_step(step: AffineExpr, steps: int, direction: int) -> AffineExpr:
    """The number of a step in the order in which a direction goes; this is its own inverse."""
    return -step + (steps - 1) if direction else step


def _layer(name: str, x: Tensor, starts: Sequence[Tensor], weights: Sequence[_Weights]) -> list[Tensor]:
    """What a layer carries [steps, directions, batch, size] on an input [steps, batch, features]."""
    steps = x.shape[0]
    shares: list[Tensor] = []
    for direction, each in enumerate(weights):
        step, *rest = map(AffineExpr.dimension, range(3))
        own = x.read([_own_step(step, steps, direction), *rest], x.shape)
        shares.append(_input_share(name, own, each))
    fixed = [concat([each.state for each in weights], 0)]
    if name == "gru" and weights[0].biases:
        hidden = starts[0].shape[2]
        fixed.append(concat([_rows(each.biases[1], slice(2 * hidden, 3 * hidden)) for each in weights], 0))
    projections = [each.projection for each in weights if each.projection is not None]
    if projections:
        fixed.append(concat(projections, 0))
    return _recurrence(name, starts, [concat(shares, 2)], fixed, _CELLS[name])


def _input_share(name: str, x: Tensor, weights: _Weights) -> Tensor:
    """What an input [steps, batch, features] adds to the gates [steps, batch, gates * hidden], with biases.

    A gate scales what the state adds to the new value of a GRU, its bias too, which is none of these.
    """
    rows, features = weights.input.shape
    space = (*x.shape[:2], rows, features)
    t, b, r, k = map(AffineExpr.dimension, range(4))
    value = contract(x.read([t, b, k], space), weights.input.read([r, k], space))
    if not weights.biases:
        return value
    own, other = weights.biases
    if name == "gru":
        scaled = other.build.iota(0, (rows,)) >= 2 * (rows // 3)
        other = where(scaled, 0, other)
    return value + (own + other)


def _gates(h: Tensor, weights: Tensor, count: int) -> list[Tensor]:
    """What a state [directions, batch, size] adds to each gate, of `hidden` units in rows one gate after the other."""
    directions, batch, size = h.shape
    hidden = weights.shape[0] // (directions * count)
    n, b, j, k = map(AffineExpr.dimension, range(4))
    space = (directions, batch, hidden, size)
    state = h.read([n, b, k], space)
    rows = (weights.read([(n * count + gate) * hidden + j, k], space) for gate in range(count))
    return _together([contract(state, each) for each in rows])


def _gate(share: Tensor, like: Tensor, gate: int, count: int) -> Tensor:
    """The input's share of a gate, where the state's is of this shape [directions, batch, hidden]."""
    n, b, j = map(AffineExpr.dimension, range(3))
    return share.read([b, (n * count + gate) * like.shape[2] + j], like.shape)


def _lstm(carried: Sequence[Tensor], each: Sequence[Tensor], fixed: Sequence[Tensor]) -> Sequence[Tensor]:
    """`c = f * c + i * g`, `h = o * tanh(c)`, which may be projected."""
    (h, c), (share,), (weights, *projections) = carried, each, fixed
    h, c = _lstm_unit(c, [x + _gate(share, x, gate, 4) for gate, x in enumerate(_gates(h, weights, 4))])
    for projection in projections:
        # Its units are summed over in each unit of the projection.
        _fuse(h, "never")
        size = projection.shape[0] // h.shape[0]
        n, b, j, k = map(AffineExpr.dimension, range(4))
        space = (*h.shape[:2], size, h.shape[2])
        h = contract(h.read([n, b, k], space), projection.read([n * size + j, k], space)).named("h")
    return h, c


def _gru(carried: Sequence[Tensor], each: Sequence[Tensor], fixed: Sequence[Tensor]) -> Sequence[Tensor]:
    """`h = n + z * (h - n)` with `n = tanh(input's share + r * (state's share + bias))`."""
    (h,), (share,), (weights, *biases) = carried, each, fixed
    r, z, n = _gates(h, weights, 3)
    for bias in biases:
        unit, _, j = map(AffineExpr.dimension, range(3))
        n = n + bias.read([unit * h.shape[2] + j], h.shape)
    r, z = (x + _gate(share, x, gate, 3) for gate, x in enumerate((r, z)))
    return [_gru_unit(h, [r, z, n, _gate(share, n, 2, 3)])]


def _rnn_tanh(carried: Sequence[Tensor], each: Sequence[Tensor], fixed: Sequence[Tensor]) -> Sequence[Tensor]:
    """`h = tanh(input's share + state's share)`."""
    (x,) = _gates(carried[0], fixed[0], 1)
    return [tanh(x + _gate(each[0], x, 0, 1)).named("h")]


def _rnn_relu(carried: Sequence[Tensor], each: Sequence[Tensor], fixed: Sequence[Tensor]) -> Sequence[Tensor]:
    """`h = relu(input's share + state's share)`."""
    (x,) = _gates(carried[0], fixed[0], 1)
    return [maximum(x + _gate(each[0], x, 0, 1), 0).named("h")]


def _lstm_unit(c: Tensor, gates: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The new `h` and `c`."""
    i, f, g, o = gates
    c = (sigmoid(f) * c + sigmoid(i) * tanh(g)).named("c")
    return (sigmoid(o) * tanh(c)).named("h"), c


def _gru_unit(h: Tensor, gates: Sequence[Tensor]) -> Tensor:
    """The new `h`, of two gates and of the state's and the input's share of the new value."""
    r, z, state, own = gates
    n = tanh(own + sigmoid(r) * state)
    return (n + sigmoid(z) * (h - n)).named("h")


_CELLS: dict[str, Cell] = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _rnn_tanh, "rnn_relu": _rnn_relu}


def _layers(name: str) -> Cell:
    """The cell of all layers of a direction, which carry states [layers, batch, hidden]."""
    sums = len(_SUMS[name])

    def cell(carried: Sequence[Tensor], each: Sequence[Tensor], fixed: Sequence[Tensor]) -> Sequence[Tensor]:
        h, (share, starts), (weights, *biases) = carried[0], each, fixed
        layer, b, j = map(AffineExpr.dimension, range(3))
        is_first = h.build.iota(0, h.shape) == 0
        gates = _gates_of_layers(h, weights, sums)
        for number, gate in enumerate(_SUMS[name]):
            at = [layer * sums * h.shape[2] + number * h.shape[2] + j]
            added = biases[0].read(at, h.shape) if biases else h.like(0)
            if gate is not None:
                added = where(is_first, share.read([b, j + gate * h.shape[2]], h.shape), added)
            gates[number] = gates[number] + added
        match name:
            case "lstm":
                new = _lstm_unit(carried[1], gates)
            case "gru":
                new = [_gru_unit(h, gates)]
            case "rnn_tanh":
                new = [tanh(gates[0])]
            case _:
                new = [maximum(gates[0], 0)]
        runs = starts.read([layer], h.shape)
        return [where(runs, value, old).named("h") for value, old in zip(new, carried, strict=True)]

    return cell


_SUMS: dict[str, Sequence[int | None]] = {
    "lstm": (0, 1, 2, 3),
    "gru": (0, 1, None, 2),
    "rnn_tanh": (0,),
    "rnn_relu": (0,),
}
"""The sums over a layer's own state and that of the layer below, each by the gate whose share of the input it has.

The third one of a GRU is what its state adds to the new value, which a gate scales.
"""


def _gates_of_layers(h: Tensor, weights: Tensor, sums: int) -> list[Tensor]:
    """The sums [layers, batch, hidden] over the units of each layer, then over those of the layer below."""
    layers, batch, hidden = h.shape
    n, b, j, below, k = map(AffineExpr.dimension, range(5))
    space = (layers, batch, hidden, 2, hidden)
    layer, which, row, unit = map(AffineExpr.dimension, range(4))
    both = h.padded(AffineMap(4, 0, (layer - which, row, unit)), (layers, 2, batch, hidden))
    state = both.read([n, below, b, k], space)
    found: list[Tensor] = []
    for number in range(sums):
        rows = weights.read([((n * 2 + below) * sums + number) * hidden + j, k], space)
        found.append(multiplied(state, rows).sum([3, 4], None))
    return _together(found)


def _together(values: list[Tensor]) -> list[Tensor]:
    """Sums that one kernel is to compute: they share a factor, and few threads would wait for a further launch."""
    for value in values:
        _fuse(value, "always")
    return values


def _fuse(value: Tensor, mode: str) -> None:
    """Say whether what was just computed shares the kernel that needs it."""
    assert isinstance(value.ssa.owner, Operation)
    value.ssa.owner.attributes[FUSE] = StringAttr(mode)


def _gate_blocks(name: str, own: Tensor, below: Tensor) -> list[Tensor]:
    """The weights of a layer's sums over its own units, and over those of the layer below."""
    if name != "gru":
        return [own, below]
    hidden = own.shape[1]
    zeros = own.build.constant(0, own.element, (hidden, hidden))
    return [own, zeros, _rows(below, slice(0, 2 * hidden)), zeros, _rows(below, slice(2 * hidden, 3 * hidden))]


def _gate_biases(name: str, weights: _Weights) -> list[Tensor]:
    """The biases of a layer's sums."""
    own, other = weights.biases
    if name != "gru":
        return [own + other]
    hidden = own.shape[0] // 3
    gates, new = slice(0, 2 * hidden), slice(2 * hidden, 3 * hidden)
    return [_rows(own, gates) + _rows(other, gates), _rows(other, new), _rows(own, new)]


def _recurrence(
    name: str, carried: Sequence[Tensor], each: Sequence[Tensor], fixed: Sequence[Tensor], cell: Cell
) -> list[Tensor]:
    """The sequences of what is carried, by a cell that becomes a function of the module."""
    build = carried[0].build
    shapes = [*(x.shape for x in carried), *(x.shape[1:] for x in each), *(x.shape for x in fixed)]
    operands = (*carried, *each, *fixed)
    types: list[Attribute] = [TensorType(x.element, shape) for x, shape in zip(operands, shapes, strict=True)]
    block = Block([ReturnOp()], arg_types=types)
    assert block.last_op is not None
    inside = TensorBuilder(PatternRewriter(block.last_op), build.location, precision=build.precision)
    arguments = [Tensor(value, inside) for value in block.args]
    for argument, operand in zip(arguments, operands, strict=True):
        argument.named(operand.ssa.name_hint or "x")
    first, rows = len(carried), len(carried) + len(each)
    results = cell(arguments[:first], arguments[first:rows], arguments[rows:])
    block.erase_op(block.last_op)
    block.add_op(ReturnOp(*(x.ssa for x in results)))
    block.last_op.location = build.location
    main, module = _function_of(build.rewriter.insertion_point.block)
    function = FuncOp(Symbols(module).fresh(f"{name}_cell"), (types, types[:first]), Region(block))
    function.location = build.location
    module.body.block.insert_op_after(function, main)
    op = RecurrenceOp(
        function.sym_name.data,
        each[0].shape[0],
        *([x.ssa for x in values] for values in (carried, each, fixed)),
    )
    return build.insert(op)


def _function_of(block: Block) -> tuple[Operation, ModuleOp]:
    """The function of a module of which a block is, and the module."""
    function = block.parent_op()
    assert function is not None
    while not isinstance(module := function.parent_op(), ModuleOp):
        assert module is not None
        function = module
    return function, module
