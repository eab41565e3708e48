"""A graph of ATen operations in parts: compiled where deplodock can, left to PyTorch where it cannot."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from xdsl.context import Context
from xdsl.utils.exceptions import DiagnosticException

from deplodock.frontend.capture import quiet
from deplodock.frontend.importer import import_graph, import_node, overload_of
from deplodock.frontend.program import CapturedGraph
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.pytorch.compiled import device_of, make_runner
from deplodock.pytorch.runners import Runner

_STRIDED = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)


class Support(OperatorSupportBase):
    """Which nodes deplodock compiles; `reasons` are those why others are left, by the overload that the program calls.

    A node is compiled if the operation alone can be: what that says is kept by the text of its IR.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(submodules, node.all_input_nodes[0])
        reason = self._reason(node)
        if reason:
            self.reasons.setdefault(overload_of(node), reason)
        return not reason

    def _reason(self, node: fx.Node) -> str:
        """Why an operation cannot be compiled; empty if it can."""
        try:
            module = import_node(node)
        except DiagnosticException as error:
            return _first_line(error)
        text = str(module)
        if text not in self._known:
            try:
                DecomposePass().apply(Context(), module)
                self._known[text] = ""
            except DiagnosticException as error:
                self._known[text] = _first_line(error)
        return self._known[text]


class Part(nn.Module):
    """A compiled part of a graph, called as its submodule is."""

    def __init__(self, runner: Runner, is_single: bool) -> None:
        super().__init__()
        self._runner = runner
        self._is_single = is_single

    def forward(self, *inputs: torch.Tensor) -> Any:
        results = self._runner(inputs)
        return results[0] if self._is_single else results


class PartsRunner:
    """Runs a graph whose parts are compiled. Raises UnsupportedError if its tensors are on several devices.

    `reasons` says what is left to PyTorch, and why; `parts` are the names of those that are compiled; `draws` is
    whether what is left draws random numbers.
    """

    def __init__(self, captured: CapturedGraph) -> None:
        self.device = device_of(captured)
        self.reasons: dict[str, str] = {}
        self.parts: list[str] = []
        self._captured = captured
        self._graph = self._compiled(captured.graph)
        self.draws = any(_is_random(node) for node in self._graph.graph.nodes)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        return [value for value in self._graph(*self._captured.arguments(inputs)) if value is not None]

    def _compiled(self, graph: fx.GraphModule) -> fx.GraphModule:
        strided = [node for node in graph.graph.nodes if node.target in _STRIDED]
        if strided:
            self.reasons[overload_of(strided[0])] = (
                "reads memory as it lies, so that all that is around it is left, too"
            )
            return graph
        support = Support()
        partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
        partitions = [found for found in partitioner.propose_partitions() if not all(map(_is_view, found.nodes))]
        with quiet():
            fused = partitioner.fuse_partitions(partitions)
        self.reasons |= support.reasons
        for name, part in list(fused.named_children()):
            self._compile_part(fused, name, part)
        return fused

    def _compile_part(self, fused: fx.GraphModule, name: str, part: nn.Module) -> None:
        assert isinstance(part, fx.GraphModule)
        placeholders = part.graph.find_nodes(op="placeholder")
        try:
            module = import_graph(part, [(node, node.name) for node in placeholders], None)
            runner = make_runner(module, part, self.device)
        except DiagnosticException as error:
            self.reasons[f"a part of {len(part.graph.nodes)} operations"] = _first_line(error)
            return
        (result,) = part.graph.output_node().args
        fused.set_submodule(name, Part(runner, isinstance(result, fx.Node)))
        self.parts.append(name)


def _is_random(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _is_view(node: fx.Node) -> bool:
    """Whether a node moves no data in PyTorch, so that it alone is no work for a kernel."""
    return node.target is operator.getitem or bool(getattr(node.target, "is_view", False))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
