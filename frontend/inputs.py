"""The arguments of a captured program: tensors of the user, then parameters, buffers and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, TensorArgument

from deplodock.errors import UnsupportedError

_STATE_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_WRITES = (OutputKind.USER_INPUT_MUTATION, OutputKind.BUFFER_MUTATION)


@dataclass(frozen=True)
class BoundInput:
    """An argument of `@main`: its node in the graph, its name, its example, and its path if it is a module's state.

    `tied` are the other paths of that state.
    """

    node: fx.Node
    name: str
    value: torch.Tensor
    path: str | None = None
    tied: list[str] = field(default_factory=list)


def writes_of(exported: torch.export.ExportedProgram, inputs: Sequence[BoundInput]) -> tuple[int, ...]:
    """The numbers of the inputs that the first results of the graph are written into."""
    places: dict[str | None, int] = {given.path: place for place, given in enumerate(inputs) if given.path is not None}
    places |= {given.node.name: place for place, given in enumerate(inputs) if given.path is None}
    written = [spec for spec in exported.graph_signature.output_specs if spec.kind != OutputKind.USER_OUTPUT]
    for spec in written:
        if spec.kind not in _WRITES:
            what = spec.kind.name.lower().replace("_", " ")
            raise UnsupportedError(f"the program computes a {what} ({spec.target}), which cannot be returned")
    return tuple(places[spec.target] for spec in written)


def bind_inputs(
    exported: torch.export.ExportedProgram,
    given: Sequence[Any],
    names: Sequence[str] | None,
    rename: Callable[[str], str],
) -> list[BoundInput]:
    """The arguments of `@main`: tensors of the user, then the parameters and buffers used, tied ones once."""
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    leaves = iter(given)
    user: list[BoundInput] = []
    state: dict[tuple[Any, ...], BoundInput] = {}
    unused: list[BoundInput] = []
    written = {spec.target for spec in exported.graph_signature.output_specs}
    for spec in exported.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            value = next(leaves)
            if isinstance(spec.arg, TensorArgument):
                name = names[len(user)] if names is not None else spec.arg.name
                user.append(BoundInput(nodes[spec.arg.name], name, value))
            continue
        if spec.kind not in _STATE_KINDS:
            continue
        own = _state_input(exported, spec, nodes[spec.arg.name], rename)
        if not own.node.users and spec.target not in written:
            unused.append(own)
        elif (known := state.setdefault(_identity(own), own)) is not own:
            own.node.replace_all_uses_with(known.node)
            known.tied.extend([own.path] if own.path is not None else [])
    # torch.export uses one name of a tensor that has several.
    for own in unused:
        if own.path is not None and (known := state.get(_identity(own))) is not None:
            known.tied.append(own.path)
    return user + list(state.values())


def _identity(own: BoundInput) -> tuple[Any, ...]:
    """What two inputs have in common that are one: a module's state is looked up by its path, a constant is not."""
    return own.path is None, *span_of(own.value)


def has_memory(value: torch.Tensor) -> bool:
    """Whether a tensor has elements in memory of its own, of which PyTorch gives the address."""
    is_plain = type(value) in (torch.Tensor, nn.Parameter) and value.layout == torch.strided
    return is_plain and not value.is_nested and torch._C._has_storage(value)


def span_of(value: torch.Tensor) -> tuple[Any, ...]:
    """What dense tensors have in common that are the same elements in the same order."""
    return value.untyped_storage()._cdata, value.storage_offset(), value.dtype, value.shape, value.stride()


def _state_input(
    exported: torch.export.ExportedProgram, spec: InputSpec, node: fx.Node, rename: Callable[[str], str]
) -> BoundInput:
    """A parameter, buffer or constant: its name is `p_weight`, `b_mean`, `c_lifted_tensor`."""
    assert spec.target is not None
    value = exported.state_dict[spec.target] if spec.target in exported.state_dict else exported.constants[spec.target]
    prefix = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b", InputKind.CONSTANT_TENSOR: "c"}[spec.kind]
    assert isinstance(value, torch.Tensor)
    path = None if spec.kind == InputKind.CONSTANT_TENSOR else spec.target
    return BoundInput(node, f"{prefix}_{rename(spec.target).replace('.', '_')}", value.detach(), path)
