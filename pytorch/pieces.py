"""A graph of TorchDynamo in pieces: long recurrent layers, which PyTorch runs, and what is compiled between them.

AOTAutograd traces a layer cell by cell where it learns, or its sequences are packed. Autograd connects the pieces, as
it connects graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx, nn
from torch.fx.passes.split_module import split_module

from deplodock.frontend.importer import has_operation
from deplodock.frontend.recurrences import MOST_CELLS, overload_called, steps_and_cells

Compile = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]
"""Compiles a graph that gives a tuple, for example arguments."""

_VALUE = "example_value"
"""The key in `meta` of what TorchDynamo knows of a node's value."""


def long_recurrences(graph: fx.GraphModule, *, are_traced: bool) -> Mapping[fx.Node, str]:
    """The calls of recurrent layers that take too long to compile, with the reasons.

    `are_traced` is whether the operations of the torch dialect are traced in their steps.
    """
    reasons: dict[fx.Node, str] = {}
    for node in graph.graph.nodes:
        overload = overload_called(node)
        if overload is None or (has_operation(overload) and not are_traced):
            continue
        steps, cells = steps_and_cells(node, _VALUE)
        if cells > MOST_CELLS:
            reasons[node] = f"{steps} steps are {cells} cells one after the other, the most are {MOST_CELLS}"
    return reasons


def in_pieces(graph: fx.GraphModule, left: Mapping[fx.Node, str], compile: Compile) -> Callable[..., Any]:
    """A graph whose calls `left` run in PyTorch; what lies between two of them, or beside all, is compiled."""
    numbers: dict[fx.Node, int] = {}
    last = 0
    for node in graph.graph.nodes:
        if node in left:
            last += 2
        # Each has an odd number, and takes with it what picks one of its results.
        is_result = node.target is operator.getitem and node.args[0] in left
        numbers[node] = numbers[node.args[0]] if is_result else last - 1 if node in left else last
    pieces = split_module(graph, graph, numbers.__getitem__, keep_original_order=True)
    for name, piece in list(pieces.named_children()):
        if isinstance(piece, fx.GraphModule) and not any(map(overload_called, piece.graph.nodes)):
            inputs = [node.meta[_VALUE] for node in piece.graph.find_nodes(op="placeholder")]
            pieces.set_submodule(name, _Piece(piece, inputs, compile))
    return pieces


class _Piece(nn.Module):
    """A compiled piece, called as its graph is."""

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any], compile: Compile) -> None:
        super().__init__()
        output = graph.graph.output_node()
        (given,) = output.args
        self._is_single = not isinstance(given, tuple)
        if self._is_single:
            output.args = ((given,),)
            graph.recompile()
        self._run = compile(graph, inputs)

    def forward(self, *args: Any) -> Any:
        results = self._run(*args)
        return results[0] if self._is_single else results
