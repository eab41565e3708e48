"""Programs that torch.export captures once for all shapes, and that are specialised for those of each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.utils import _pytree as pytree

from deplodock.errors import UnsupportedError
from deplodock.frontend.caches import register_caches
from deplodock.frontend.capture import (
    Call,
    as_module,
    captured_graph,
    check_types,
    describe,
    imported,
    run_and_export,
    with_graph,
)
from deplodock.frontend.program import CapturedProgram
from deplodock.frontend.retrace import at_shapes, inlined
from deplodock.frontend.selections import numbers_to_positions
from deplodock.frontend.tracing import quiet

_LAYOUT = (
    "the program asks where its arguments lie in memory, which is captured for one set of shapes alone: leave out "
    "dynamic"
)


@dataclass(frozen=True)
class _Leaf:
    """A tensor among the arguments: its place, its name, what it must be, and which of its extents are free."""

    place: int
    name: str
    dtype: torch.dtype
    device: torch.device
    rank: int
    free: tuple[int, ...]


class SymbolicProgram:
    """A program that was captured for tensors of many shapes, as a graph whose extents are symbols.

    Extents that are 0 or 1 where it was captured are so for all calls, and free ones are neither: PyTorch takes another
    way for these. None of the arguments is kept.
    """

    def __init__(self, exported: ExportedProgram) -> None:
        """`exported` writes into nothing in place."""
        self._exported = exported
        self._guards = getattr(exported.module(), "_guards_fn", None)
        exported._example_inputs = None
        self._names = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.target is None]
        values = {node.name: node.meta["val"] for node in exported.graph.find_nodes(op="placeholder")}
        self._leaves = [
            _Leaf(place, name, value.dtype, value.device, value.dim(), _free(value))
            for place, name in enumerate(self._names)
            if isinstance(value := values[name], torch.Tensor)
        ]

    @staticmethod
    def of(function: Callable[..., Any], call: Call, dynamic_shapes: Any = None) -> SymbolicProgram:
        """Capture `function(*args, **kwargs)`.

        Args:
            function: a function of tensors, or a module.
            call: example arguments.
            dynamic_shapes: what torch.export takes; by default each extent of each tensor may vary that the program
                does not ask to be a number.

        Raises what `capture.export` raises, and UnsupportedError for a program that asks where tensors lie in memory.
        """
        register_caches()
        module = function if isinstance(function, nn.Module) else as_module(function)
        check_types([leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)], None, None)
        # Calls are for contiguous tensors. A tensor that is passed twice is two inputs.
        call = pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone().contiguous(), call)
        if dynamic_shapes is None:
            dynamic_shapes = ShapesCollection()
            for leaf in pytree.tree_leaves(call):
                if isinstance(leaf, torch.Tensor):
                    dynamic_shapes[leaf] = dict.fromkeys(range(leaf.dim()), Dim.AUTO)
        exported, _, asks_layout = run_and_export(module, call, None, dynamic_shapes)
        if asks_layout:
            raise UnsupportedError(_LAYOUT)
        return SymbolicProgram(exported)

    def refusal(self, call: Call) -> str:
        """Why a call's arguments are none of those that the program was captured for; empty if they are."""
        leaves = pytree.tree_leaves(call)
        if len(leaves) != len(self._names):
            return f"there are {len(leaves)} arguments, not {len(self._names)}"
        for leaf in self._leaves:
            value = leaves[leaf.place]
            is_tensor = isinstance(value, torch.Tensor) and value.device == leaf.device
            if not is_tensor or value.layout != torch.strided or value.is_nested:
                return f"{leaf.name} is no dense tensor on {leaf.device}"
            if value.dtype != leaf.dtype or value.dim() != leaf.rank:
                return f"{leaf.name} is no tensor of {leaf.dtype} of rank {leaf.rank} on {leaf.device}"
            for dim in leaf.free:
                if value.shape[dim] < 2:
                    return f"{leaf.name}.size()[{dim}] is {value.shape[dim]}"
        try:
            if self._guards is not None:
                self._guards.forward(*leaves)
        except AssertionError as error:
            return f"not {str(error).removeprefix('Guard failed: ')}"
        return ""

    def at(self, call: Call) -> CapturedProgram:
        """The program for tensors of the shapes of a call that it does not refuse, contiguous ones.

        Raises UnsupportedError for an operation, overload, argument or dtype outside the torch dialect.
        """
        leaves = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in pytree.tree_leaves(call)]
        with quiet():
            try:
                graph = inlined(at_shapes(self._exported.graph_module, self._arguments(leaves)))
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                message = f"the program cannot be specialised for these shapes: {describe(error)}"
                raise UnsupportedError(message) from error
        numbers_to_positions(graph.graph)
        concrete = with_graph(self._exported, graph)
        captured = captured_graph(concrete, leaves, None, None, is_called=True, asks_layout=False)
        return CapturedProgram(**vars(captured), module=imported(captured, None), as_written=lambda: captured)

    def _arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments of the graph: state of the program, and the leaves of the call."""
        given, exported = iter(leaves), self._exported
        state = {**exported.constants, **exported.state_dict}
        return [
            next(given) if spec.target is None else state[spec.target] for spec in exported.graph_signature.input_specs
        ]


def _free(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(dim for dim, extent in enumerate(value.shape) if isinstance(extent, torch.SymInt))
