"""Captures PyTorch functions and modules with torch.export, as IR of the torch dialect."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import operator
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import FunctionType, TracebackType
from typing import Any, TypeAlias

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.proxy import TracerBase
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.frontend.assertions import assertions_to_results, name_assertions
from deplodock.frontend.caches import register_caches
from deplodock.frontend.decompositions import decompositions, without_python_kernels
from deplodock.frontend.importer import (
    check_dense,
    has_operation,
    import_graph,
    is_users,
    node_error,
    overload_of,
    tensor_type,
)
from deplodock.frontend.inputs import bind_inputs, writes_of
from deplodock.frontend.overrides import overridden_from_memory
from deplodock.frontend.program import AS_STRIDED, CapturedGraph, CapturedProgram, layout_error, output_values
from deplodock.frontend.recurrences import without_cells
from deplodock.frontend.refusals import refuse_effects, refuse_layouts, refuse_long_recurrences, refuse_writes
from deplodock.frontend.retrace import inlined
from deplodock.frontend.selections import numbers_to_positions, selecting_by_tensors
from deplodock.frontend.source import Source
from deplodock.frontend.tracing import capturing, quiet, tracing_lock
from deplodock.frontend.watch import MetadataChanged, Watch

_ASSERT_METADATA = torch.ops.aten._assert_tensor_metadata.default
_NOTES = (_ASSERT_METADATA, operator.getitem)
"""Calls that compute nothing."""
_READ = (
    "a branch, a number or a size depends on the values of a tensor, which are known only when the program runs; "
    "use operations of tensors, such as torch.where"
)
Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call: those by position, and those by keyword."""
_ATEN = torch.ops.aten
_WITHOUT_REFERENCE = (
    *(_ATEN._grouped_mm.default, _ATEN.topk.default, _ATEN.sort.default, _ATEN.argsort.default),
    *(_ATEN.kthvalue.default, _ATEN.median.dim, _ATEN.nanmedian.dim, _ATEN.mode.default),
)
"""Operations that PyTorch cannot run in float64, or that may give equal elements in any order: their decompositions are
run in their place."""


def export(
    fn_or_module: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    rename: Callable[[str], str] | None = None,
    source: Source | None = None,
    is_called: bool = False,
) -> CapturedProgram:
    """Capture `fn_or_module(*args, **kwargs)` as a program of the torch dialect.

    An operation that the dialect lacks is replaced by PyTorch's own decomposition of it, where there is one.

    Args:
        fn_or_module: a function of tensors, or a module; its parameters and buffers become arguments of `@main`.
        args: example arguments: tensors, nests of tensors, and other values, which are compiled in.
        kwargs: those by keyword.
        names: names for the tensors in the arguments; by default the names of the function's parameters.
        rename: shortens the dotted path of a parameter or buffer before it becomes a name such as `p_weight`.
        source: the text that errors point into.
        is_called: whether the program is to be called, also with other values. It may then write into its inputs and
            buffers: what it writes comes out before its results. What PyTorch checks of such values is asserted.

    Raises:
        InvalidInputError: the program raises, or its result is not a tensor or a nest of tensors.
        UnsupportedError: torch.export cannot capture the program, or it uses an operation, overload, argument or dtype
            outside the torch dialect, or writes into its inputs without `is_called`.
    """
    module = fn_or_module if isinstance(fn_or_module, nn.Module) else as_module(fn_or_module)
    register_caches()
    call: Call = (args, dict(kwargs or {}))
    given = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    if names is None and not isinstance(fn_or_module, nn.Module | FunctionType):
        names = _input_names(len(given))
    check_types(given, names, source)
    # A clone of each argument: torch.export takes one tensor passed twice for a single input.
    call = pytree.tree_map_only(torch.Tensor, _fresh, call)
    exported, original, asks_layout = run_and_export(module, call, source)
    if not is_called:
        refuse_writes(exported, source)
    leaves = pytree.tree_leaves(call)
    captured = captured_graph(exported, leaves, names, rename, is_called, asks_layout)
    whole = {number: captured.names[number] for number in captured.whole()}
    if error := layout_error(whole, [*given, *captured.originals[len(given) :]]):
        raise located(UnsupportedError, error, source)

    @cache
    def as_written() -> CapturedGraph:
        return captured if original is exported else _as_written(original, captured, leaves, names, rename)

    return CapturedProgram(**vars(captured), module=imported(captured, source), as_written=as_written)


def imported(captured: CapturedGraph, source: Source | None) -> ModuleOp:
    """The IR of a captured graph. Raises what `import_graph` raises."""
    nodes = {node.name: node for node in captured.graph.graph.find_nodes(op="placeholder")}
    arguments = [(nodes[place], name) for place, name in zip(captured.placeholders, captured.names, strict=True)]
    return import_graph(captured.graph, arguments, source, captured.checks)


def _as_written(
    original: torch.export.ExportedProgram,
    captured: CapturedGraph,
    leaves: Sequence[Any],
    names: Sequence[str] | None,
    rename: Callable[[str], str] | None,
) -> CapturedGraph:
    """A program before decompositions, its writes in place made results, and without what it asserts.

    torch.export leaves the ATen operations that the user's calls reach as they are if no decomposition is given. That
    graph, rather than the user's function, is run in float64, since constants and dtypes in the function's code are
    arguments of operations there, which can be replaced.
    """
    if not captured.writes and all(map(_stays, original.graph.nodes)):
        functional = original
    else:
        with quiet(), torch.no_grad(), contextlib.redirect_stderr(io.StringIO()), _tracing():
            known = decompositions()
            functional = original.run_decompositions({op: known[op] for op in _WITHOUT_REFERENCE if op in known})
    written = captured_graph(functional, leaves, names, rename, is_called=False, asks_layout=captured.asks_layout)
    if written.checks:
        output = written.graph.graph.output_node()
        output.args = (output_values(written.graph)[: -len(written.checks)],)
        written.graph.recompile()
    return replace(written, checks=())


def captured_graph(
    exported: torch.export.ExportedProgram,
    leaves: Sequence[Any],
    names: Sequence[str] | None,
    rename: Callable[[str], str] | None,
    is_called: bool,
    asks_layout: bool,
) -> CapturedGraph:
    """What torch.export captured of a call with these leaves of its arguments; see `export`.

    Its graph is changed: tied state is used under one name, nothing asserts the types of intermediates, and what it
    asserts of values are its last results.
    """
    for node in exported.graph.find_nodes(op="call_function", target=_ASSERT_METADATA):
        exported.graph.erase_node(node)
    # A call that raised, and whose error the program caught, is in the graph without a result.
    exported.graph.eliminate_dead_code()
    checks = assertions_to_results(exported.graph, is_called=is_called)
    exported.graph_module.recompile()
    inputs = bind_inputs(exported, leaves, names, rename or (lambda path: path))
    assert exported.call_spec.out_spec is not None
    return CapturedGraph(
        inputs=tuple(given.value.contiguous() for given in inputs),
        originals=tuple(given.value for given in inputs),
        names=tuple(given.name for given in inputs),
        graph=exported.graph_module,
        placeholders=tuple(given.node.name for given in inputs),
        paths=tuple(given.path for given in inputs),
        ties=tuple((number, path) for number, given in enumerate(inputs) for path in given.tied),
        writes=writes_of(exported, inputs),
        checks=checks,
        asks_layout=asks_layout,
        result_spec=exported.call_spec.out_spec,
    )


def _fresh(value: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, at the same offset of memory of its own."""
    value = value.detach().resolve_neg()
    offset, shape, strides = value.storage_offset(), value.shape, value.stride()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if value.numel() else 0
    memory = value.new_empty(offset + extent)
    memory[offset:].copy_(value.as_strided((extent,), (1,), offset))
    return value.new_empty(0).set_(memory.untyped_storage(), offset, shape, strides)


def as_module(function: Callable[..., Any]) -> nn.Module:
    """A module whose forward is `function`; PyTorch records source lines only of frames that are named `forward`."""
    module = nn.Module()
    if isinstance(function, FunctionType):
        code = function.__code__.replace(co_name="forward")
        forward = FunctionType(code, function.__globals__, "forward", function.__defaults__, function.__closure__)
        forward.__kwdefaults__ = function.__kwdefaults__
    else:

        def forward(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    module.forward = forward
    return module


def _input_names(count: int) -> list[str]:
    """Names for the tensors of a function that names none: x, y, z, x3, x4, ..."""
    return [*"xyz", *(f"x{i}" for i in range(3, count))][:count]


def check_types(tensors: Sequence[torch.Tensor], names: Sequence[str] | None, source: Source | None) -> None:
    """Refuse inputs of other element types before the program runs."""
    for number, value in enumerate(tensors):
        what = f"input {number}" if names is None else f"the input {names[number]}"
        try:
            check_dense(value, what)
            tensor_type(value, what)
        except UnsupportedError as error:
            raise located(UnsupportedError, str(error), source) from None


def located(
    kind: type[Error], message: str, source: Source | None, raised: BaseException | TracebackType | None = None
) -> Error:
    """An error that points at where `raised`, or a traceback, left the user's text, if that is known."""
    frames = raised.__traceback__ if isinstance(raised, BaseException) else raised
    if source is not None:
        return source.error(kind, message, source.position_of_traceback(frames))
    place = next((frame for frame in reversed(traceback.extract_tb(frames)) if is_users(frame.filename)), None)
    return kind(message if place is None else f"{place.filename}:{place.lineno}: error: {message}")


def describe(raised: BaseException) -> str:
    """The class and the first paragraph of an exception of the user's program."""
    text = str(raised).strip().split("\n\n")[0].replace("\n", " ")
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


def run_and_export(
    module: nn.Module, call: Call, source: Source | None, dynamic_shapes: Any = None
) -> tuple[torch.export.ExportedProgram, torch.export.ExportedProgram, bool]:
    """Run the program once, so that its own errors are told from those of torch.export; then capture it.

    Returns the program in operations of the torch dialect, as it was before any was decomposed, and whether it asks
    where tensors lie in memory. For `dynamic_shapes`, as torch.export takes them, the first has the operations that the
    program calls, but for those that write in place.
    """
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        check_dense(value, name)
    fresh: Call = pytree.tree_map_only(torch.Tensor, _fresh, call)
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    inputs = [leaf for leaf in (*pytree.tree_leaves(fresh), *buffers.values()) if isinstance(leaf, torch.Tensor)]
    with quiet(), torch.no_grad(), capturing():
        try:
            with Watch(inputs) as watch:
                result = torch.func.functional_call(module, buffers, *fresh)
            watch.finish()
        except MetadataChanged as raised:
            raise located(UnsupportedError, str(raised), source, raised) from raised
        except Error as raised:
            raise located(type(raised), str(raised), source, raised) from raised
        except (Exception, SystemExit) as raised:
            raise located(InvalidInputError, f"the program raises {describe(raised)}", source, raised) from raised
        _check_result(result, source)
        # The program has printed what it prints in the first run.
        with contextlib.redirect_stdout(io.StringIO()):
            return *_captured(module, call, source, watch, dynamic_shapes), watch.asks_layout


def _captured(
    module: nn.Module, call: Call, source: Source | None, watch: Watch, dynamic_shapes: Any
) -> tuple[torch.export.ExportedProgram, torch.export.ExportedProgram]:
    try:
        # torch.export writes to stderr what it raises, and TorchDynamo must not trace in another thread meanwhile.
        with contextlib.redirect_stderr(io.StringIO()), _tracing():
            with selecting_by_tensors(module), _functions_in_traces():
                original = torch.export.export(module, *call, dynamic_shapes=dynamic_shapes)
            refuse_layouts(original.graph, source)
            refuse_long_recurrences(original.graph, source)
            name_assertions(original.graph)
            if dynamic_shapes is not None:
                exported = original.run_decompositions({}) if _writes_in_place(original.graph) else original
            else:
                exported = original if _is_decomposed(original.graph) else _decomposed(original, source)
    except Error:
        raise
    except (GuardOnDataDependentSymNode, DataDependentOutputException) as raised:
        raise located(UnsupportedError, _READ, source, raised) from raised
    except (Exception, SystemExit) as raised:
        message, place = watch.obstacle or (f"torch.export cannot capture the program: {describe(raised)}", raised)
        raise located(UnsupportedError, message, source, place) from raised
    if watch.obstacle and any(isinstance(n.target, torch._ops.HigherOrderOperator) for n in exported.graph.nodes):
        message, place = watch.obstacle
        raise located(UnsupportedError, message, source, place)
    refuse_effects(exported, source)
    return exported, original


@contextlib.contextmanager
def _functions_in_traces() -> Iterator[None]:
    """While it lasts, PyTorch notes with a call the user's functions that `forward` calls, not only `forward`."""

    stock = TracerBase._filter_traceback_frames

    def noted(self: TracerBase, user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
        forward = stock(self, user_stack_summary)
        inside = itertools.dropwhile(lambda frame: frame not in forward, user_stack_summary)
        return traceback.StackSummary.from_list(
            [frame for frame in inside if frame in forward or is_users(frame.filename)]
        )

    TracerBase._filter_traceback_frames = noted
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = stock


def _decomposed(exported: torch.export.ExportedProgram, source: Source | None) -> torch.export.ExportedProgram:
    """The program in operations of the torch dialect, as far as decompositions go."""
    if (graph := _inlined(exported)) is not None:
        numbers_to_positions(graph.graph)
        return with_graph(exported, graph)
    try:
        decomposed = exported.run_decompositions(decompositions())
    except Exception as raised:
        node = _running_node(raised)
        if node is None or not isinstance(node.target, torch._ops.OpOverload):
            raise
        is_read = isinstance(raised, GuardOnDataDependentSymNode)
        reason = "depends on the values of a tensor" if is_read else f"raises {describe(raised)}"
        message = f"{overload_of(node)} is not supported: its decomposition {reason}"
        raise node_error(node, message, source) from raised
    numbers_to_positions(decomposed.graph)
    return decomposed


def _inlined(exported: torch.export.ExportedProgram) -> fx.GraphModule | None:
    """The graph in operations of the torch dialect, call by call, which takes a tenth of the time of a new trace.

    None where it has more than calls of operations, or something writes in place or reads memory: PyTorch resolves
    that. So it does where a call cannot be decomposed, which it says with its place.
    """
    if not _is_plain(exported.graph):
        return None
    try:
        graph = inlined(exported.graph_module)
    except Exception:
        return None
    return graph if _is_plain(graph.graph) and _is_decomposed(graph.graph) else None


def _is_plain(graph: fx.Graph) -> bool:
    """Whether all nodes of a graph are its arguments, its results, and calls of operations that write into nothing."""
    calls = [node.target for node in graph.nodes if node.op not in ("placeholder", "output")]
    is_pure = all(isinstance(target, torch._ops.OpOverload) or target is operator.getitem for target in calls)
    return is_pure and not _writes_in_place(graph)


def with_graph(exported: torch.export.ExportedProgram, graph: fx.GraphModule) -> torch.export.ExportedProgram:
    """An exported program with another graph of the same arguments and results."""
    # torch.export names placeholders in its signature as it likes, a copied graph as Python can.
    places = graph.graph.find_nodes(op="placeholder")
    for node, spec in zip(places, exported.graph_signature.input_specs, strict=True):
        node.name = spec.arg.name
    made = copy.copy(exported)
    made._graph_module = graph
    return made


def _running_node(raised: BaseException) -> fx.Node | None:
    """The node that an interpreter of a graph ran when an exception was raised."""
    frames = (frame for frame, _ in traceback.walk_tb(raised.__traceback__))
    nodes = [frame.f_locals.get("n") for frame in frames if frame.f_code.co_name == "run_node"]
    return next((node for node in reversed(nodes) if isinstance(node, fx.Node)), None)


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """While it lasts, this thread traces, and PyTorch decomposes as deplodock wants it to."""
    with tracing_lock(), without_python_kernels(), overridden_from_memory(), without_cells(are_traced=False):
        yield


def _is_decomposed(graph: fx.Graph) -> bool:
    """Whether all operations are the torch dialect's own: PyTorch takes longer to look for others than to capture.

    `as_strided` reads the memory that its operand views, and only a trace of the whole graph notes which views share
    memory: a graph with one counts as not decomposed until there is such a trace.
    """
    calls = [node.target for node in graph.nodes if node.op == "call_function"]
    return all(target not in AS_STRIDED and (target in _NOTES or has_operation(target)) for target in calls)


def _stays(node: fx.Node) -> bool:
    """Whether `_as_written` has a node as it is: no operation that writes, or gives its operand in some cases."""
    overload = node.target
    if node.op != "call_function" or overload is operator.getitem or has_operation(overload):
        return True
    if not isinstance(overload, torch._ops.OpOverload) or overload in _WITHOUT_REFERENCE:
        return False
    values = (*overload._schema.arguments, *overload._schema.returns)
    return torch.Tag.maybe_aliasing_or_mutating not in overload.tags and not any(value.alias_info for value in values)


def _writes_in_place(graph: fx.Graph) -> bool:
    """Whether operations of a graph write into their operands."""
    targets = {node.target for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    return any(target._schema.is_mutable for target in targets)


def _check_result(result: object, source: Source | None) -> None:
    values = [value for value in pytree.tree_leaves(result) if value is not None]
    for value in values:
        if not isinstance(value, torch.Tensor):
            message = f"the program must compute a tensor or a tuple of tensors, not {type(value).__name__}"
            raise located(InvalidInputError, message, source)
    if not values:
        raise located(InvalidInputError, "the program computes no tensor", source)
