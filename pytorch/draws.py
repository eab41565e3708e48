"""Random numbers, which PyTorch draws: in front of what is compiled, where no data decides about them.

So a seed gives what it gives without compilation, in the order of the program, and dropout cuts no program: its mask is
an input.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from deplodock.frontend.recurrences import drops_out, overload_called

_ATEN = torch.ops.aten
_DROPOUT, _EMPTY = _ATEN.native_dropout.default, _ATEN.empty_strided.default
_OF_SHAPES = (
    *(_ATEN.bernoulli.p, _ATEN.cauchy.default, _ATEN.exponential.default, _ATEN.geometric.default),
    *(_ATEN.log_normal.default, _ATEN.normal_functional.default, _ATEN.uniform.default),
    *(_ATEN.random.default, getattr(_ATEN.random, "from"), _ATEN.random.to),
    *(_ATEN.rand_like.default, _ATEN.rand_like.generator, _ATEN.randn_like.default, _ATEN.randn_like.generator),
    *(_ATEN.randint_like.default, _ATEN.randint_like.low_dtype),
    *(_ATEN.randint_like.generator, _ATEN.randint_like.low_generator_dtype),
)
"""Calls that draw for each element of their first operand, whose values they do not read."""
_WIDEST = 16
"""The bytes of memory to whose multiples kernels of PyTorch look when they choose how many numbers a thread draws."""


def draw_in_front(graph: fx.Graph) -> None:
    """Have calls that draw for the elements of a tensor depend on its shape, strides and type alone.

    Dropout becomes a product with the mask that PyTorch draws for such a tensor.
    """
    for node in list(graph.nodes):
        if node.target is _DROPOUT:
            _draw_mask(node)
        elif node.target in _OF_SHAPES:
            source = node.args[0]
            if _is_known(source.meta["val"]):
                with graph.inserting_before(node):
                    node.replace_input_with(source, _empty_like(node, source))
                if not source.users and source.op == "call_function":
                    graph.erase_node(source)


def is_random(node: fx.Node) -> bool:
    """Whether a call draws random numbers."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    if overload_called(node) is not None:
        return drops_out(node)
    return bool(_arguments(node).get("dropout_p", True))


def is_in_front(node: fx.Node) -> bool:
    """Whether a call draws random numbers about which no data decides, or makes the memory for them."""
    return node.target is _EMPTY or (
        is_random(node) and all(source.target is _EMPTY for source in node.all_input_nodes)
    )


def _draw_mask(node: fx.Node) -> None:
    """Replace dropout by a product with its mask, if PyTorch draws the same for other tensors of such a shape."""
    given = _arguments(node)
    source, share = given["input"], given["p"]
    value = source.meta["val"]
    is_aligned = value.storage_offset() * value.element_size() % _WIDEST == 0
    if given["train"] is False or not _is_known(value) or not is_aligned:
        return
    graph = node.graph
    with graph.inserting_before(node):
        if share < 1:
            drawn = graph.call_function(_DROPOUT, (_empty_like(node, source), share, True))
            drawn.meta = {**node.meta}
            mask = graph.call_function(operator.getitem, (drawn, 1))
            mask.meta = {**node.meta, "val": node.meta["val"][1]}
        else:
            # Where all is dropped, the function of the program draws nothing.
            mask = _call(node, _ATEN.zeros_like.default, source, dtype=torch.bool)
        kept = _call(node, _ATEN.mul.Tensor, source, mask)
        scaled = _call(node, _ATEN.mul.Tensor, kept, 1 / (1 - share) if share < 1 else 0.0)
    for user in list(node.users):
        user.replace_all_uses_with(mask if user.args[1] else scaled)
        graph.erase_node(user)
    graph.erase_node(node)


def _is_known(value: torch.Tensor) -> bool:
    """Whether shape and strides are numbers."""
    return all(isinstance(extent, int) for extent in (*value.shape, *value.stride()))


def _empty_like(node: fx.Node, source: fx.Node) -> fx.Node:
    """Memory with the shape, strides and type of a tensor."""
    value = source.meta["val"]
    layout = (list(value.shape), list(value.stride()))
    made = node.graph.call_function(_EMPTY, layout, {"dtype": value.dtype, "device": value.device})
    made.meta = {**node.meta, "val": value.new_empty_strided(*layout)}
    return made


def _call(node: fx.Node, target: Any, *args: Any, **options: Any) -> fx.Node:
    """A call in the place of another."""
    made = node.graph.call_function(target, args, options)
    made.meta = {**node.meta, "val": target(*fx.map_arg(args, lambda source: source.meta["val"]), **options)}
    return made


def _arguments(node: fx.Node) -> Mapping[str, Any]:
    """The arguments of a call of an operation by name, those that are left out with their defaults."""
    parameters = node.target._schema.arguments  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    names = [parameter.name for parameter in parameters]
    defaults = {parameter.name: parameter.default_value for parameter in parameters if parameter.has_default_value()}
    return {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
