"""A graph of ATen operations in parts: compiled where deplodock can, left to PyTorch where it cannot."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import fx, nn
from torch._guards import detect_fake_mode
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.traceback import NodeSource
from torch.utils import _pytree as pytree
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from deplodock.dialects.torch import set_precision
from deplodock.errors import RefusedError
from deplodock.frontend.assertions import assertions_to_results
from deplodock.frontend.importer import has_operation, import_graph, is_scalar, overload_of, place_of, tensor_type
from deplodock.frontend.program import output_values
from deplodock.frontend.retrace import call_key, decomposed
from deplodock.frontend.tracing import quiet
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.pytorch.compiled import assert_holds, check_place, device_of, lower_ahead, lower_on, make_runner
from deplodock.pytorch.counting import note_falls
from deplodock.pytorch.draws import draw_in_front, is_in_front, is_random
from deplodock.pytorch.options import BackendOptions
from deplodock.pytorch.runners import Runner, laid_out
from deplodock.runtime.falls import Fall, FallKind, catches, reason_of

_STRIDED = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)
_CHECKS = (torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg, torch.ops.higher_order.with_effects)
"""Calls that PyTorch makes to check values: it is no loss to have it run them."""
_COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")
"""The namespaces of functional collectives, which PyTorch runs between the parts."""
_BODY = "deplodock_body"
"""The key in a node's `meta` of the graph that PyTorch decomposes its call into."""
_AFTER = "deplodock_after"
"""The keyword argument that keeps a call behind another while parts are made."""


class Support(OperatorSupportBase):
    """Which nodes deplodock compiles; `reasons` are those why others are left, by the overload that the program calls.

    `places` are the lines of the program that do, where they are known.
    A node is compiled if the operation alone can be, which equal calls are asked once, and passes do not refuse it. In
    a graph with tensors on a GPU, operations of the CPU are left to PyTorch, but for those on its scalars. `device` is
    that of the nodes which are asked for now: where there are several, they are compiled one after the other.
    """

    def __init__(self, graph: fx.Graph, refused: Mapping[fx.Node, str]) -> None:
        """`refused` are nodes that passes refuse, and why."""
        self._refused = refused
        self.devices = _devices(graph)
        self.device: torch.device | None = None
        self.reasons: dict[str, str] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self._of_nodes: dict[fx.Node, str] = {}
        self._of_calls: dict[Any, tuple[str, fx.GraphModule | None]] = {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(submodules, node.all_input_nodes[0])
        if node not in self._of_nodes:
            self._of_nodes[node] = self._refused.get(node) or self._reason(node)
            is_loss = node.target not in _CHECKS and not _is_collective(node) and not is_in_front(node)
            if self._of_nodes[node] and is_loss:
                self.reasons.setdefault(overload_of(node), self._of_nodes[node])
                if (place := place_of(node)) is not None:
                    self.places.setdefault(overload_of(node), place)
        return not self._of_nodes[node] and (self.device is None or _device_of_call(node) in (None, self.device))

    def _reason(self, node: fx.Node) -> str:
        """Why an operation cannot be compiled; empty if it can."""
        if node.target in _STRIDED:
            return "reads memory as it lies"
        if not isinstance(node.target, torch._ops.OpOverload):
            return "it is no operation of tensors alone"
        try:
            device = _device_of_call(node)
            if device is not None and device not in self.devices:
                return "it runs on the CPU, and other operations on a GPU"
            key = call_key(node)
        except Exception as error:
            return reason_of(error)
        if key not in self._of_calls:
            self._of_calls[key] = _asked(node)
        reason, body = self._of_calls[key]
        if body is not None:
            node.meta[_BODY] = body
        return reason


def _device_of_call(node: fx.Node) -> torch.device | None:
    """Where a call runs; None for one on scalars alone, which may be computed wherever they are used."""
    operands, results = [source.meta.get("val") for source in node.all_input_nodes], _tensors(node)
    are_scalars = all(isinstance(value, torch.Tensor) and is_scalar(value) for value in (*operands, *results))
    return None if are_scalars else device_of(operands, results)


def _devices(graph: fx.Graph) -> list[torch.device]:
    """The devices whose operations are compiled: the GPUs, or the CPU where there is none."""
    values = [value for node in graph.nodes for value in _tensors(node)]
    devices = list(dict.fromkeys(value.device for value in values))
    return [device for device in devices if device.type != "cpu"] or devices


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    """What is known of the tensors that a node gives."""
    return [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]


def _asked(node: fx.Node) -> tuple[str, fx.GraphModule | None]:
    """Why an operation cannot be compiled, empty if it can; and the graph that PyTorch decomposes it into, if any."""
    body = None
    try:
        body = None if has_operation(node.target) else decomposed(node)
        if body is not None:
            node.meta[_BODY] = body
        return _reason_against_decomposing(_lowered(_alone(node)).module), body
    except Exception as error:
        return reason_of(error), body


def _reason_against_decomposing(module: ModuleOp) -> str:
    try:
        DecomposePass().apply(Context(), module)
    except Exception as error:
        return reason_of(error)
    return ""


class Part(nn.Module):
    """A compiled part of a graph, called as its submodule is; results are new tensors with the strides of PyTorch's.

    Several results are a tuple.
    """

    def __init__(self, runner: Runner, results: Sequence[torch.Tensor], checks: Sequence[str], is_single: bool) -> None:
        """`results` say shapes and strides; `runner` gives them in the order of memory, then what is checked."""
        super().__init__()
        self._runner = runner
        self._layouts = [(result.shape, result.stride(), _memory_order(result)) for result in results]
        self._checks = checks
        self._is_single = is_single

    def forward(self, *inputs: torch.Tensor) -> Any:
        values = self._runner(inputs)
        count = len(self._layouts)
        for holds, message in zip(values[count:], self._checks, strict=True):
            assert_holds(holds, message)
        results = (*(laid_out(value, *layout) for value, layout in zip(values[:count], self._layouts, strict=True)),)
        return results[0] if self._is_single else results


class PartsRunner:
    """A graph whose parts are compiled, called as the graph is.

    `reasons` says what is left to PyTorch, and why, `places` on which lines; `parts` are the names of those that are
    compiled, `runners` what runs them. Of the graph's operations that are no views, and draw no random numbers in
    front, `compiled` run in them and `left` in PyTorch.
    """

    def __init__(self, graph: fx.GraphModule, options: BackendOptions, name: str) -> None:
        """`name` is the graph's in what is written of it, see `Artifacts`."""
        self.reasons: dict[str, str] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self._options, self._name = options, name
        self.parts: list[str] = []
        self.runners: list[Runner] = []
        self.compiled = 0
        self._run = self._compiled(graph, {})
        self.left = sum(len(_calls(module)) for module in self._run.modules() if isinstance(module, fx.GraphModule))

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)

    def _compiled(self, graph: fx.GraphModule, refused: Mapping[fx.Node, str]) -> fx.GraphModule:
        """A graph with its parts compiled, without the calls that passes refuse, for the reasons given."""
        for node in graph.graph.find_nodes(op="get_attr"):
            node.meta.setdefault("val", getattr(graph, str(node.target)))
        draw_in_front(graph.graph)
        support = Support(graph.graph, refused)
        # Before the order of calls becomes an argument of theirs.
        for node in graph.graph.nodes:
            support.is_node_supported({}, node)
        _keep_order(graph)
        fused = graph
        for number, device in enumerate(support.devices):
            support.device = device
            partitioner = CapabilityBasedPartitioner(fused, support, allows_single_node_partition=True)
            partitions = partitioner.propose_partitions()
            _leave_views(fused, partitions)
            _leave_scalars(partitions, device)
            computing = [p for p in partitions if not all(map(_is_view, p.nodes))]
            with quiet():
                fused = partitioner.fuse_partitions(computing, f"fused{number}_")
        _forget_order(fused)
        self.reasons |= support.reasons
        self.places |= support.places
        parts = _parts(fused)
        taken = [(name, part, *own) for name, part in parts.items() if (own := self._taken(part)) is not None]
        lower_ahead([(lowered.module, device) for *_, lowered, device in taken], self._options)
        for name, part, lowered, device in taken:
            self._compile_part(fused, name, part, lowered, device)
        return fused

    def _taken(self, part: fx.GraphModule) -> tuple[_Lowered, torch.device] | None:
        """A part in operations of the dialect, and where it runs; None for one that is left to PyTorch."""
        try:
            lowered = _lowered(part)
            set_precision(lowered.module, self._options.precision_now)
            inputs = [node.meta["val"] for node in part.graph.find_nodes(op="placeholder")]
            device = device_of(inputs, _results(part))
            check_place(device)
        except Exception as error:
            self._leave(part, error)
            return None
        return lowered, device

    def _compile_part(
        self, fused: fx.GraphModule, name: str, part: fx.GraphModule, lowered: _Lowered, device: torch.device
    ) -> None:
        (result,) = part.graph.output_node().args
        own_name = f"{self._name}/part{len(self.parts)}"
        try:
            runner = make_runner(lowered.module, lowered.graph, device, self._options, own_name)
        except Exception as error:
            self._take_apart(fused, name, part, device, error)
            return
        self.compiled += len(_calls(part))
        fused.set_submodule(name, Part(runner, _results(part), lowered.checks, isinstance(result, fx.Node)))
        self.parts.append(name)
        self.runners.append(runner)

    def _take_apart(
        self, fused: fx.GraphModule, name: str, part: fx.GraphModule, device: torch.device, error: Exception
    ) -> None:
        """Leave the calls of a refused part that passes refuse alone, too, and compile the rest; else leave it whole.

        So it is with a schedule of the user's. Raises `error` where falls are errors.
        """
        if self._options.schedule is not None:
            self._leave(part, error)
            return
        if not catches():
            raise error
        reason_of(error)
        refused = _refused_calls(part, device, self._options)
        falls = [Fall(FallKind.LEFT, "", (_said(node),), reason) for node, reason in refused.items()]
        note_falls(falls or [Fall(FallKind.LEFT, "", tuple(map(_said, _calls(part))), reason_of(error))])
        if refused:
            fused.set_submodule(name, self._compiled(part, refused))
        else:
            self._leave(part, error)

    def _leave(self, part: fx.GraphModule, error: Exception) -> None:
        """Note that PyTorch runs a part, and why."""
        names = ", ".join(dict.fromkeys(map(overload_of, _calls(part))))
        self.reasons[names] = reason_of(error)
        if place := next(filter(None, map(place_of, _calls(part))), None):
            self.places[names] = place


def _refused_calls(part: fx.GraphModule, device: torch.device, options: BackendOptions) -> dict[fx.Node, str]:
    """The calls of a part that passes refuse alone, and why; equal ones are tried once."""
    reasons: dict[Any, str] = {}
    for node in _calls(part):
        if (key := call_key(node)) not in reasons:
            try:
                module = _lowered(_alone(node)).module
                set_precision(module, options.precision_now)
                lower_on(module, device, options)
                reasons[key] = ""
            except RefusedError as error:
                reasons[key] = next(iter(error.refusals.values()))
            except Exception as error:
                reasons[key] = reason_of(error)
    return {node: reason for node in _calls(part) if (reason := reasons[call_key(node)])}


def _said(node: fx.Node) -> str:
    """How a fall calls a node: its overload, and its line where that is known."""
    place = place_of(node)
    return overload_of(node) + ("" if place is None else f" ({place[0]}:{place[1]})")


def _parts(fused: fx.GraphModule) -> dict[str, fx.GraphModule]:
    """The graphs that a graph calls, by name. Those that it only hands to an operation of a higher order are its."""
    calls = fused.graph.find_nodes(op="call_module")
    return {str(node.target): fused.get_submodule(str(node.target)) for node in calls}  # pyright: ignore[reportReturnType]


def _results(part: fx.GraphModule) -> list[torch.Tensor]:
    """What is known of the results of a part."""
    return [value.meta["val"] for value in output_values(part) if isinstance(value, fx.Node)]


def _calls(graph: fx.GraphModule) -> list[fx.Node]:
    """The calls of a graph that compute: no views, none that only takes one of several results, no draws in front."""
    calls = (node for node in graph.graph.nodes if node.op == "call_function")
    return [
        node for node in calls if node.target is not operator.getitem and not _is_view(node) and not is_in_front(node)
    ]


def _keep_order(graph: fx.GraphModule) -> None:
    """Make calls that draw random numbers, or do more than compute, depend on the one before of their kind."""
    for kind in (_may_draw, _has_effects):
        for before, node in pairwise([node for node in graph.graph.nodes if kind(node)]):
            node.kwargs = {**node.kwargs, _AFTER: (*node.kwargs.get(_AFTER, ()), before)}


def _forget_order(fused: fx.GraphModule) -> None:
    """Take the order of calls from them again, in the parts too: PyTorch may come to run those."""
    for graph in (fused, *_parts(fused).values()):
        for node in graph.graph.nodes:
            if _AFTER in node.kwargs:
                node.kwargs = {name: value for name, value in node.kwargs.items() if name != _AFTER}
        graph.recompile()


def _is_of_higher_order(node: fx.Node) -> bool:
    """Whether a call runs graphs, into which nobody looks."""
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def _may_draw(node: fx.Node) -> bool:
    return node.op == "call_function" and (_is_of_higher_order(node) or is_random(node))


def _has_effects(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    return _is_of_higher_order(node) or _is_collective(node) or node.is_impure(impure_random=False)


def _is_collective(node: fx.Node) -> bool:
    """Whether a call talks to other processes, which must all do that in one order."""
    return getattr(node.target, "namespace", "") in _COLLECTIVES


def _leave_views(graph: fx.GraphModule, partitions: Sequence[Partition]) -> None:
    """Let PyTorch make the views that leave a partition, from what the partition computes.

    So a result that is a view shares memory with what it views, and has its strides.
    """
    owners = {node: partition for partition in partitions for node in partition.nodes}
    for node in reversed(list(graph.graph.nodes)):
        partition = owners.get(node)
        if partition is None or not _is_view(node):
            continue
        outside = [user for user in node.users if owners.get(user) is not partition]
        if outside:
            with graph.graph.inserting_after(node):
                twin = graph.graph.node_copy(node)
            for user in outside:
                user.replace_input_with(node, twin)
        if not node.users:
            partition.remove_node(node)
            graph.graph.erase_node(node)


def _leave_scalars(partitions: Sequence[Partition], device: torch.device) -> None:
    """Let PyTorch compute the scalars of the CPU that leave a partition of another device, and what they come from."""
    for partition in partitions if device.type != "cpu" else ():
        for node in sorted(partition.nodes, reverse=True):
            is_used = any(user not in partition.nodes for user in node.users)
            if is_used and _device_of_call(node) is None:
                partition.remove_node(node)


def _is_view(node: fx.Node) -> bool:
    """Whether a node moves no data in PyTorch: a view, or one of several."""
    if node.target is operator.getitem:
        return _is_view(node.all_input_nodes[0])
    return bool(getattr(node.target, "is_view", False))


@dataclass(frozen=True)
class _Lowered:
    """A graph that calls operations of the dialect alone, its IR, and the messages of what its last results check."""

    graph: fx.GraphModule
    module: ModuleOp
    checks: Sequence[str]


def _lowered(part: fx.GraphModule) -> _Lowered:
    """A part in operations of the dialect. Its results come in the order of memory, then what PyTorch checks."""
    graph = fx.Graph()
    values: dict[fx.Node, Any] = {}
    for node in part.graph.nodes:
        # A placeholder has the `meta` of the call outside that it stands for.
        body = node.meta.get(_BODY) if node.op == "call_function" else None
        if body is not None:
            sources = [values[source] for source in node.all_input_nodes]
            places = dict(zip(body.graph.find_nodes(op="placeholder"), sources, strict=True))
            known = set(graph.nodes)
            values[node] = graph.graph_copy(body.graph, places)
            # The body may be that of an equal call elsewhere.
            for made in graph.nodes:
                if made not in known:
                    made.meta |= {"stack_trace": node.meta.get("stack_trace"), "from_node": [NodeSource(node)]}
        elif node.target is operator.getitem and isinstance(values[node.args[0]], tuple | list):
            values[node] = values[node.args[0]][node.args[1]]
        else:
            values[node] = graph.node_copy(node, values.__getitem__)
    # What PyTorch decomposes a call into may order memory in another way than the call.
    pairs = zip(output_values(fx.GraphModule(part, graph)), output_values(part), strict=True)
    graph.output_node().args = (tuple(_in_memory_order(*pair) for pair in pairs),)
    mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    with mode or contextlib.nullcontext():
        checks = assertions_to_results(graph, is_called=True)
    lowered = fx.GraphModule(part, graph)
    arguments = [(node, node.name) for node in graph.find_nodes(op="placeholder")]
    return _Lowered(lowered, import_graph(lowered, arguments, None, checks), checks)


def _alone(node: fx.Node) -> fx.GraphModule:
    """A graph of one call. Raises UnsupportedError if its tensors are on several devices or of no type of the IR."""
    graph = fx.Graph()
    places: dict[fx.Node, fx.Node] = {}
    for source in node.all_input_nodes:
        tensor_type(source.meta["val"], f"the operand {source.name}")
        places[source] = graph.placeholder(source.name)
        places[source].meta = source.meta
    call = graph.node_copy(node, places.__getitem__)
    found = node.meta["val"]
    values = list(found) if isinstance(found, tuple | list) else [found]
    device_of([source.meta["val"] for source in node.all_input_nodes], values)
    results = [call]
    if isinstance(found, tuple | list):
        results = []
        for number, value in enumerate(values):
            if value is not None:
                results.append(graph.call_function(operator.getitem, (call, number)))
                results[-1].meta["val"] = value
    graph.output(tuple(results))
    return fx.GraphModule(node.graph.owning_module or nn.Module(), graph)


def _in_memory_order(node: Any, wanted: Any) -> fx.Node:
    """A result with its dimensions permuted so that contiguous memory holds the elements as that of `wanted` does."""
    order = _memory_order(wanted.meta["val"])
    if order == sorted(order):
        return node
    with node.graph.inserting_before(node.graph.output_node()):
        permuted = node.graph.call_function(torch.ops.aten.permute.default, (node, order))
    permuted.meta = {**node.meta, "val": node.meta["val"].permute(order)}
    return permuted


def _memory_order(value: torch.Tensor) -> list[int]:
    """The dimensions of a tensor by falling strides."""
    return sorted(range(value.dim()), key=lambda dim: -value.stride(dim))
