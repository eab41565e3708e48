"""Graphs of ATen operations traced once more: at the shapes of a call, and calls as PyTorch decomposes them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _is_preservable_cia_op
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.traceback import NodeSource

from deplodock.frontend.composites import kept_composites
from deplodock.frontend.decompositions import decompositions, without_python_kernels
from deplodock.frontend.importer import has_operation
from deplodock.frontend.tracing import quiet, tracing_lock

_ASSERT_METADATA = torch.ops.aten._assert_tensor_metadata.default
"""Asserts what a graph says of an intermediate, which is computed anew."""


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
        self._mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        with self._mode:
            self.run(*map(self._fake, args))
        return fx.GraphModule(self.module, self._copy)

    def _fake(self, value: Any) -> Any:
        return self._mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value

    def run_node(self, n: fx.Node) -> Any:
        if n.target is _ASSERT_METADATA:
            return None
        value = super().run_node(n)
        is_number = isinstance(value, int | float)
        if n.op == "placeholder" or not is_number:
            copy = self._copy.node_copy(n, self._copies.__getitem__)
            # A constant is run as it is, since numbers may be read from it, and known as what it is among the others.
            copy.meta["val"] = self._fake(value) if n.op == "get_attr" else value
            self._copies[n] = value if is_number else copy
        else:
            self._copies[n] = value
        return value


def decomposed(node: fx.Node, *, composites: bool = False) -> fx.GraphModule | None:
    """What `decompositions()` make of a call, as a graph of the call's tensors; None if they have nothing for it.

    With `composites`, also what PyTorch itself makes of a composite operation that torch.export never keeps.
    """
    if node.target not in decompositions() and not (composites and _is_never_kept(node.target)):
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


def _is_never_kept(target: Any) -> bool:
    """Whether torch.export takes an operation apart even without a decomposition given for it: a view, for one."""
    is_composite = isinstance(target, torch._ops.OpOverload) and target._can_decompose()
    return is_composite and not _is_preservable_cia_op(target)


def inlined(graph: fx.GraphModule) -> fx.GraphModule:
    """The graph with what decomposes into operations of the torch dialect decomposed, equal calls once.

    Calls have the names that they have where PyTorch traces the whole graph.
    """
    copy, values = fx.Graph(), dict[fx.Node, Any]()
    bodies: dict[Any, fx.GraphModule | None] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            values[node] = _copied(copy, node, values)
            continue
        if has_operation(node.target):
            body = None
        else:
            key = call_key(node)
            body = bodies[key] = bodies[key] if key in bodies else decomposed(node, composites=True)
        values[node] = _copied(copy, node, values) if body is None else _replayed(copy, node, body, values)
    made = fx.GraphModule(graph, copy)
    made.graph.eliminate_dead_code()
    return made


def _copied(copy: fx.Graph, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """A node in the copy; of an element of several results that were decomposed, the element."""
    if node.target is operator.getitem and isinstance(values[node.all_input_nodes[0]], tuple | list):
        return values[node.all_input_nodes[0]][node.args[1]]  # pyright: ignore[reportArgumentType, reportCallIssue]
    name = node.name
    if isinstance(node.target, torch._ops.OpOverload):
        name = copy._target_to_str(node.target.overloadpacket.__name__)
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    made = copy.create_node(node.op, node.target, args, kwargs, name, node.type)
    made.meta = {**node.meta}
    return made


def _replayed(copy: fx.Graph, node: fx.Node, body: fx.GraphModule, values: Mapping[fx.Node, Any]) -> Any:
    """The results of a decomposition in the copy, in the place of a call."""
    given = [values[source] for source in node.all_input_nodes]
    known: dict[fx.Node, Any] = dict(zip(body.graph.find_nodes(op="placeholder"), given, strict=True))
    result: Any = None
    for inner in body.graph.nodes:
        if inner.op == "output":
            result = fx.map_arg(inner.args[0], known.__getitem__)
        elif inner.op != "placeholder":
            known[inner] = _copied(copy, inner, known)
            known[inner].meta |= {"stack_trace": node.meta.get("stack_trace"), "from_node": [NodeSource(node)]}
    return result


def call_key(node: fx.Node) -> Any:
    """What a decomposition of a call depends on: the operation, the tensors' types and shapes, and the numbers."""
    numbers = {source: number for number, source in enumerate(node.all_input_nodes)}
    given = fx.map_arg((node.args, dict(node.kwargs)), lambda source: f"%{numbers[source]}")
    types = [
        (v.shape, v.stride(), v.dtype, v.device, v.storage_offset()) if isinstance(v, torch.Tensor) else v
        for v in (source.meta["val"] for source in numbers)
    ]
    return node.target, repr(given), repr(types)
