"""The gradients of a program as a program: what AOTAutograd compiles, captured for a check at every level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from deplodock.frontend.capture import imported
from deplodock.frontend.decompositions import without_python_kernels
from deplodock.frontend.program import CapturedGraph, CapturedProgram, output_values
from deplodock.frontend.retrace import inlined
from deplodock.frontend.tracing import quiet


def cotangents(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Random gradients of the results that have one, the same for the same shapes."""
    generator = torch.Generator().manual_seed(0)
    kept = [result for result in results if result.requires_grad]
    return [torch.randn(result.shape, generator=generator).to(result.dtype) for result in kept]


def gradients(
    results: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], given: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The gradients of the leaves that have one, for given ones of the results that have one."""
    kept = [result for result in results if result.requires_grad]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    found = torch.autograd.grad(kept, wanted, given, allow_unused=True) if kept else ()
    return [gradient for gradient in found if gradient is not None]


def gradient_program(captured: CapturedProgram, wanted: Sequence[str]) -> CapturedProgram:
    """The program of the gradients of inputs, by their names, for random gradients of the results.

    As it is written it is what PyTorch's autograd runs, before any decomposition. Raises UnsupportedError where an
    operation of it is none of the torch dialect, and has no decomposition, and RuntimeError where PyTorch does.
    """
    with torch.enable_grad():
        results = _results(captured, captured.inputs, _numbers(captured, wanted))[0]
    given = cotangents(results)
    graph = _joint(captured, wanted, given)
    graph = replace(graph, graph=_without_assertions(inlined(graph.graph)))
    written = _joint(captured.as_written(), wanted, given)
    return CapturedProgram(**vars(graph), module=imported(graph, None), as_written=lambda: written)


def _without_assertions(graph: fx.GraphModule) -> fx.GraphModule:
    """A graph that asserts nothing of its values: the program itself has done so."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_async.msg):
        graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _numbers(captured: CapturedGraph, wanted: Sequence[str]) -> list[int]:
    """The numbers of the inputs of these names that have gradients."""
    numbers = map(captured.names.index, wanted)
    return [number for number in numbers if captured.inputs[number].is_floating_point()]


def _results(
    captured: CapturedGraph, inputs: Sequence[torch.Tensor], numbers: Sequence[int]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The results of a graph, and the inputs of these numbers as leaves."""
    own = [value.detach() for value in inputs]
    leaves = [own[number].requires_grad_() for number in numbers]
    return pytree.tree_leaves(captured.graph(*captured.arguments(own))), leaves


def _joint(captured: CapturedGraph, wanted: Sequence[str], given: Sequence[torch.Tensor]) -> CapturedGraph:
    """The graph of the gradients; the given ones of the results are its last inputs."""
    count, numbers = len(captured.inputs), _numbers(captured, wanted)

    def run(*args: Any) -> list[torch.Tensor]:
        with torch.enable_grad():
            results, leaves = _results(captured, args[:count], numbers)
            return gradients(results, leaves, args[count:])

    inputs = (*captured.inputs, *given)
    with quiet(), sdpa_kernel(SDPBackend.MATH), without_python_kernels():
        graph = make_fx(run, tracing_mode="fake")(*inputs)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return CapturedGraph(
        inputs=inputs,
        originals=inputs,
        names=(*captured.names, *(f"gradient{number}" for number in range(len(given)))),
        graph=graph,
        placeholders=tuple(node.name for node in graph.graph.find_nodes(op="placeholder")),
        paths=(None,) * len(inputs),
        ties=(),
        writes=(),
        checks=(),
        asks_layout=False,
        result_spec=pytree.tree_structure([*output_values(graph)]),
    )
