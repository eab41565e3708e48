"""Captures PyTorch functions and modules with torch.export, as IR of the torch dialect."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.frontend.importer import import_graph, node_error, tensor_type
from deplodock.frontend.program import CapturedProgram
from deplodock.frontend.source import Source

_STATE_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def export(
    fn_or_module: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    names: Sequence[str] | None = None,
    rename: Callable[[str], str] | None = None,
    source: Source | None = None,
) -> CapturedProgram:
    """Capture `fn_or_module(*args)` as a program of the torch dialect.

    Args:
        fn_or_module: a function of tensors, or a module; its parameters and buffers become arguments of `@main`.
        args: example arguments: tensors, nests of tensors, and other values, which are compiled in. A tensor that is
            not contiguous is copied to a contiguous one.
        names: names for the tensors in `args`; by default the names of the function's parameters.
        rename: shortens the dotted path of a parameter or buffer before it becomes a name such as `p_weight`.
        source: the text that errors point into.

    Raises:
        InvalidInputError: the program raises, or its result is not a tensor or a tuple of tensors.
        UnsupportedError: torch.export cannot capture the program, or it uses an operation, overload, argument or dtype
            outside the torch dialect, or writes into its inputs.
    """
    # A clone of each argument: torch.export takes one tensor passed twice for a single input.
    args = pytree.tree_map_only(torch.Tensor, _fresh, args)
    module = fn_or_module if isinstance(fn_or_module, nn.Module) else as_module(fn_or_module)
    if names is None and not isinstance(fn_or_module, nn.Module | FunctionType):
        names = _input_names(args)
    _check_types(args, names, source)
    exported = _export(module, args, source)
    signature, graph = exported.graph_signature, exported.graph_module
    _refuse_mutation(signature, graph, source)
    inputs = _bind_inputs(exported, args, names, rename or (lambda path: path))
    program = import_graph(graph, [(node, name) for node, name, _ in inputs], source)
    return CapturedProgram(
        module=program,
        inputs=tuple(value for _, _, value in inputs),
        names=tuple(name for _, name, _ in inputs),
        function=fn_or_module,
        args=args,
        graph=graph,
        placeholders=tuple(node.name for node, _, _ in inputs),
    )


def _fresh(value: torch.Tensor) -> torch.Tensor:
    return value.detach().clone(memory_format=torch.contiguous_format)


def as_module(function: Callable[..., Any]) -> nn.Module:
    """A module whose forward is `function`; PyTorch records source lines only of frames that are named `forward`."""
    module = nn.Module()
    if isinstance(function, FunctionType):
        code = function.__code__.replace(co_name="forward")
        forward = FunctionType(code, function.__globals__, "forward", function.__defaults__, function.__closure__)
        forward.__kwdefaults__ = function.__kwdefaults__
    else:

        def forward(*args: Any) -> Any:
            return function(*args)

    module.forward = forward
    return module


def _input_names(args: tuple[Any, ...]) -> list[str]:
    """Names for the tensors of a function that names none: x, y, z, x3, x4, ..."""
    count = sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(args))
    return [*"xyz", *(f"x{i}" for i in range(3, count))][:count]


def _check_types(args: tuple[Any, ...], names: Sequence[str] | None, source: Source | None) -> None:
    """Refuse inputs of other element types before the program runs."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    for number, value in enumerate(tensors):
        what = f"input {number}" if names is None else f"the input {names[number]}"
        try:
            tensor_type(value, what)
        except UnsupportedError as error:
            raise located(UnsupportedError, str(error), source) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings and loggers of PyTorch: what matters of them becomes one error."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def located(kind: type[Error], message: str, source: Source | None, raised: BaseException | None = None) -> Error:
    """An error that points at where `raised` left the user's text, if that is known."""
    if source is None:
        return kind(message)
    return source.error(kind, message, None if raised is None else source.position_of_traceback(raised.__traceback__))


def describe(raised: BaseException) -> str:
    """The class and the first paragraph of an exception of the user's program."""
    text = str(raised).strip().split("\n\n")[0].replace("\n", " ")
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


def _export(module: nn.Module, args: tuple[Any, ...], source: Source | None) -> torch.export.ExportedProgram:
    """Run the program once, so that its own errors are told from those of torch.export; then capture it."""
    fresh = pytree.tree_map_only(torch.Tensor, torch.clone, args)
    with quiet(), torch.no_grad():
        try:
            result = module(*fresh)
        except (Exception, SystemExit) as raised:
            raise located(InvalidInputError, f"the program raises {describe(raised)}", source, raised) from raised
        _check_result(result, source)
        try:
            # The program has printed what it prints in the first run; torch.export itself writes to stderr.
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return torch.export.export(module, args).run_decompositions({})
        except GuardOnDataDependentSymNode as raised:
            message = "a branch or a size depends on the values of a tensor; that cannot be captured"
            raise located(UnsupportedError, message, source, raised) from raised
        except (Exception, SystemExit) as raised:
            message = f"torch.export cannot capture the program: {describe(raised)}"
            raise located(UnsupportedError, message, source, raised) from raised


def _check_result(result: object, source: Source | None) -> None:
    values = list(result) if isinstance(result, tuple | list) else [result]
    for value in values:
        if not isinstance(value, torch.Tensor):
            message = f"the program must compute a tensor or a tuple of tensors, not {type(value).__name__}"
            raise located(InvalidInputError, message, source)
    if not values:
        raise located(InvalidInputError, "the program computes no tensor", source)


def _refuse_mutation(signature: ExportGraphSignature, graph: fx.GraphModule, source: Source | None) -> None:
    for spec in signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            continue
        what = "input" if spec.kind == OutputKind.USER_INPUT_MUTATION else "state"
        message = f"the program writes into its {what} '{spec.target}'; use operations that return a new tensor"
        node = next(node for node in graph.graph.nodes if node.name == spec.arg.name)
        raise node_error(node, message, source)


def _bind_inputs(
    exported: torch.export.ExportedProgram,
    args: tuple[Any, ...],
    names: Sequence[str] | None,
    rename: Callable[[str], str],
) -> list[tuple[fx.Node, str, torch.Tensor]]:
    """The arguments of `@main` (graph node, name, value): tensors of the user, then the parameters and buffers used."""
    nodes = {node.name: node for node in exported.graph_module.graph.find_nodes(op="placeholder")}
    leaves = iter(pytree.tree_leaves(args))
    user: list[tuple[fx.Node, str, torch.Tensor]] = []
    state: list[tuple[fx.Node, str, torch.Tensor]] = []
    for spec in exported.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            value = next(leaves)
            if isinstance(spec.arg, TensorArgument):
                name = names[len(user)] if names is not None else spec.arg.name
                user.append((nodes[spec.arg.name], name, value))
        elif spec.kind not in _STATE_KINDS:
            raise UnsupportedError(f"the program captures an object that is not a tensor: {spec.arg.name}")
        elif nodes[spec.arg.name].users:
            state.append((nodes[spec.arg.name], *_state_input(exported, spec, rename)))
    return user + state


def _state_input(
    exported: torch.export.ExportedProgram, spec: InputSpec, rename: Callable[[str], str]
) -> tuple[str, torch.Tensor]:
    """The name (`p_weight`, `b_mean`, `c_lifted_tensor`) and value of a parameter, buffer or constant."""
    assert spec.target is not None
    value = exported.state_dict[spec.target] if spec.target in exported.state_dict else exported.constants[spec.target]
    prefix = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b", InputKind.CONSTANT_TENSOR: "c"}[spec.kind]
    assert isinstance(value, torch.Tensor)
    return f"{prefix}_{rename(spec.target).replace('.', '_')}", value.detach().contiguous()
