"""The backend of `torch.compile(model, backend="deplodock")`."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._guards import CompileContext, TracingContext, compile_context
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from deplodock.frontend.capture import describe
from deplodock.frontend.composites import kept_composites
from deplodock.frontend.decompositions import without_python_kernels
from deplodock.frontend.importer import place_of
from deplodock.frontend.recurrences import overload_called
from deplodock.frontend.retrace import at_shapes, is_static
from deplodock.pytorch.artifacts import new_name
from deplodock.pytorch.options import BackendOptions, read_options
from deplodock.pytorch.partition import PartsRunner
from deplodock.pytorch.pieces import in_pieces, long_recurrences
from deplodock.pytorch.report import GraphReport
from deplodock.pytorch.runners import overlaps_of
from deplodock.pytorch.shapes import Shapes

_DIFFERENTIATES = ("autograd", "_functorch", "requires_grad", "vmap")
"""Words in the names of calls that derive other calls, for which these must be those that PyTorch can derive."""

GraphCompiler: TypeAlias = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]
"""Makes a function of a graph of ATen operations and examples of its arguments."""


def backend(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph that TorchDynamo captured.

    PyTorch's AOTAutograd makes graphs of ATen operations of it, one of the results and one of the gradients, without
    writes; it sees to aliases, writes into arguments, and the order of memory. Both graphs are compiled on their first
    call with each set of shapes. Operations that deplodock does not support are left to PyTorch, with one warning that
    names them; so are long recurrent layers that learn, at which the graph is split before AOTAutograd sees it. `mode`
    and `options` are those of `torch.compile`; see `read_options`.

    Raises InvalidInputError for a mode or an option that there is not.
    """
    given, report = read_options(mode, options), GraphReport(graph)
    try:
        if left := long_recurrences(graph, are_traced=_derives(graph, example_inputs)):
            names = {node: str(overload_called(node)) for node in left}
            places = {names[node]: place for node in left if (place := place_of(node)) is not None}
            report.left({names[node]: reason for node, reason in left.items()}, places)
            return in_pieces(graph, left, partial(_compiled, report=report, options=given))
        return _compiled(graph, example_inputs, report, given)
    except TorchDynamoException:
        raise
    except Exception as error:
        report.left({"the graph": f"AOTAutograd does not take it: {describe(error)}"}, {})
        return graph


def _compiled(
    graph: fx.GraphModule, example_inputs: Sequence[Any], report: GraphReport, options: BackendOptions
) -> Callable[..., Any]:
    """A graph that AOTAutograd takes, with its gradients, compiled on the first call with each set of shapes."""
    name = new_name("graph")

    def compiler(kind: str) -> GraphCompiler:
        return lambda graph, _: make_boxed_func(_ByShapes(graph, report, options, f"{name}/{kind}"))

    compiled = traced(graph, example_inputs, compiler)
    return _SameOverlaps(compiled, graph) if _writes() else compiled


def traced(
    graph: fx.GraphModule, example_inputs: Sequence[Any], compiler: Callable[[str], GraphCompiler]
) -> Callable[..., Any]:
    """A graph that AOTAutograd takes: `compiler("forward")` makes a function of the graph of ATen operations.

    Where results have gradients, `compiler("backward")` makes one of their graph.
    """
    compile_graph = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        partition_fn=min_cut_rematerialization_partition,
    )
    kept = _steps_of_attention(graph) if _derives(graph, example_inputs) else kept_composites()
    with kept, without_python_kernels():
        return compile_graph(graph, example_inputs)


def _derives(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether composite operations are traced in their steps, which have gradients, or other classes of tensors."""
    return _is_differentiated(graph, example_inputs) or any(map(is_traceable_wrapper_subclass, example_inputs))


def _writes() -> bool:
    """Whether the graph that AOTAutograd took last writes into its arguments."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return metadata is None or any(info.mutates_data for info in metadata.input_info)


class _SameOverlaps:
    """A graph that writes into its arguments, compiled for those that share memory as the arguments of the first call.

    AOTAutograd takes no note of that, nor does TorchDynamo; for other arguments PyTorch runs the graph.
    """

    def __init__(self, compiled: Callable[..., Any], graph: fx.GraphModule) -> None:
        self._compiled = compiled
        self._graph = graph
        self._overlaps: set[tuple[int, int, int]] | None = None

    def __call__(self, *args: Any) -> Any:
        overlaps = overlaps_of(args)
        if self._overlaps is None:
            self._overlaps = overlaps
        return self._compiled(*args) if overlaps == self._overlaps else self._graph(*args)


def _is_differentiated(graph: fx.GraphModule, args: Sequence[Any]) -> bool:
    """Whether results of the graph may have gradients, or calls in it transform others."""
    if torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
        return True
    names = (f"{getattr(node.target, '__module__', '')}.{node.target}" for node in graph.graph.nodes)
    return any(word in name for name in names for word in _DIFFERENTIATES)


def _steps_of_attention(graph: fx.GraphModule) -> contextlib.AbstractContextManager[object]:
    """While it lasts, attention is traced in its steps, which are compiled, not as a kernel of PyTorch's.

    So it is where composite operations are not kept: their gradients are those of their steps, and classes of tensors
    such as DTensor know what to do in the steps alone.

    One that drops out stays such a kernel: its steps would draw other random numbers.
    """
    calls = graph.graph.find_nodes(op="call_function", target=scaled_dot_product_attention)
    drops = any(node.kwargs.get("dropout_p", (*node.args, 0, 0, 0)[4]) for node in calls)
    return contextlib.nullcontext() if drops else sdpa_kernel(SDPBackend.MATH)


class _ByShapes:
    """A graph of AOTAutograd, compiled on the first call with each set of shapes, strides and numbers.

    It is compiled anew where PyTorch is set to another precision of products, which TorchDynamo does not tell apart.
    """

    def __init__(self, graph: fx.GraphModule, report: GraphReport, options: BackendOptions, name: str) -> None:
        self._graph = graph
        self._report = report
        self._options = options
        self._name = name
        self._is_static = is_static(graph)
        self._compiled = Shapes[PartsRunner](options.max_shapes)
        self._last: tuple[Any, ...] = ()
        # What PyTorch notes of a compilation, it notes of this one.
        self._context = CompileContext.try_get()

    def __call__(self, *args: Any) -> Any:
        # TorchDynamo itself compiles anew for other arguments than those of a graph without symbols.
        key = self._options.precision_now, *(() if self._is_static else map(_key, args))
        run = self._compiled.get(key)
        if run is None:
            with self._compiled.lock, compile_context(self._context):
                run = self._compiled.get(key) or self._compile(key, args)
        return run(*args)

    def _compile(self, key: tuple[Any, ...], args: Sequence[Any]) -> PartsRunner:
        start, name, count = time.perf_counter(), self._name, self._compiled.count
        self._compiled.check(name)
        if count:
            name = f"{name}_{count}"
            self._report.recompiles(self._name, self._last, key, count + 1)
        graph = _copied(self._graph) if self._is_static else at_shapes(self._graph, args)
        runner = PartsRunner(graph, self._options, name)
        kept = self._compiled.add(key, runner)
        self._last = key
        self._report.compiled(name, runner, time.perf_counter() - start, kept)
        return runner


def _copied(graph: fx.GraphModule) -> fx.GraphModule:
    """A copy of a graph: what is compiled is changed."""
    return fx.GraphModule(graph, copy.deepcopy(graph.graph))


def _key(arg: Any) -> Any:
    return (arg.shape, arg.stride()) if isinstance(arg, torch.Tensor) else arg
