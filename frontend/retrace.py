"""Graphs of ATen operations traced once more: at the shapes of a call, and one call as PyTorch decomposes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.traceback import NodeSource

from deplodock.frontend.capture import kept_composites, quiet, tracing_lock
from deplodock.frontend.decompositions import decompositions, without_python_kernels


def is_static(graph: fx.GraphModule) -> bool:
    """Whether all arguments of a graph are tensors of known shapes and strides, or constants."""
    values = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    extents = [v for value in values if isinstance(value, torch.Tensor) for v in (*value.shape, *value.stride())]
    return not any(isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) for value in (*values, *extents))


def at_shapes(graph: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """The graph for tensors of the shapes and strides of `args`, and for the numbers among them.

    What follows from these alone is computed; `meta["val"]` holds fake tensors of known shapes.
    """
    with torch.inference_mode(False), torch.no_grad():
        return _AtShapes(graph).specialised(args)


class _AtShapes(fx.Interpreter):
    """Runs a graph on fake tensors, and copies each call that gives no number."""

    def specialised(self, args: Sequence[Any]) -> fx.GraphModule:
        self._copy = fx.Graph()
        self._copies: dict[fx.Node, Any] = {}
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        with mode:
            given = [
                mode.from_tensor(arg, static_shapes=True) if isinstance(arg, torch.Tensor) else arg for arg in args
            ]
            self.run(*given)
        return fx.GraphModule(self.module, self._copy)

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        is_number = isinstance(value, int | float)
        if n.op == "placeholder" or not is_number:
            copy = self._copy.node_copy(n, self._copies.__getitem__)
            copy.meta["val"] = value
            self._copies[n] = value if is_number else copy
        else:
            self._copies[n] = value
        return value


def decomposed(node: fx.Node) -> fx.GraphModule | None:
    """What `decompositions()` make of a call, as a graph of the call's tensors; None if they have nothing for it."""
    if node.target not in decompositions():
        return None
    sources = node.all_input_nodes

    def call(*tensors: Any) -> Any:
        values = dict(zip(sources, tensors, strict=True))
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), values.__getitem__)
        return node.target(*args, **kwargs)  # pyright: ignore[reportCallIssue]

    values = [source.meta["val"] for source in sources]
    mode = detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)
    with (
        quiet(),
        tracing_lock(),
        kept_composites(),
        without_python_kernels(),
        torch.inference_mode(False),
        torch.no_grad(),
        mode,
        enable_python_dispatcher(),
    ):
        fakes = [mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in values]
        graph = make_fx(call, decomposition_table=decompositions())(*fakes)
    graph.graph.eliminate_dead_code()
    for made in graph.graph.nodes:
        made.meta |= {"stack_trace": node.meta.get("stack_trace"), "from_node": [NodeSource(node)]}
    return graph
