"""What torch.export captures, and deplodock refuses for the whole of a program, at the line that is why."""

from __future__ import annotations

import torch
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind

from deplodock.frontend.importer import has_operation, node_error, overload_of
from deplodock.frontend.recurrences import MOST_CELLS, overload_called, steps_and_cells
from deplodock.frontend.source import Source


def refuse_layouts(graph: fx.Graph, source: Source | None) -> None:
    """Refuse tensors that are not dense, of which PyTorch's decompositions make errors of other kinds."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout != torch.strided:
            message = f"the result of {overload_of(node)} is of layout {value.layout}; supported are dense tensors"
            raise node_error(node, message, source)


def refuse_long_recurrences(graph: fx.Graph, source: Source | None) -> None:
    """Refuse recurrent layers of so many cells, each of which is operations of its own, that nobody waits for them.

    Those of packed sequences are: the others are one operation of the torch dialect.
    """
    for node in graph.nodes:
        if overload_called(node) is None or has_operation(node.target):
            continue
        steps, cells = steps_and_cells(node, "val")
        if cells > MOST_CELLS:
            message = (
                f"{overload_of(node)} over {steps} steps is {cells} cells one after the other, which take too long to "
                f'compile (the most are {MOST_CELLS}); torch.compile(.., backend="deplodock") leaves it to PyTorch'
            )
            raise node_error(node, message, source)


def refuse_effects(exported: torch.export.ExportedProgram, source: Source | None) -> None:
    """Refuse operations that raise or print, which torch.export orders by tokens, and objects that are no tensors."""
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    for spec in exported.graph_signature.input_specs:
        if spec.kind == InputKind.TOKEN:
            node = next(iter(nodes[spec.arg.name].users))
            raise node_error(node, f"{overload_of(node)} is not supported", source)
        if spec.kind == InputKind.CUSTOM_OBJ and (users := nodes[spec.arg.name].users):
            node = next(iter(users))
            message = (
                f"{overload_of(node)} reads an object that is no tensor, such as a torch.Generator: draw what it gives "
                "outside of the program, and pass that"
            )
            raise node_error(node, message, source)


def refuse_writes(exported: torch.export.ExportedProgram, source: Source | None) -> None:
    """Refuse programs that write into their inputs or their state."""
    for spec in exported.graph_signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            continue
        what = "input" if spec.kind == OutputKind.USER_INPUT_MUTATION else "state"
        message = f"the program writes into its {what} '{spec.target}'; use operations that return a new tensor"
        message += "" if what == "input" else ", and .eval() on a module in training mode"
        node = next(node for node in exported.graph.nodes if node.name == spec.arg.name)
        raise node_error(node, message, source)
