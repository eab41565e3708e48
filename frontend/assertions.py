"""What a program asserts of the values it is called with, and what PyTorch itself does: as results of its graph.

The graph then only computes, and whoever calls it looks at these results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import fx

from deplodock.frontend.decompositions import reads_inside
from deplodock.frontend.importer import node_error, overload_of

_ATEN = torch.ops.aten
_ASSERT, _ASSERT_PLAIN = _ATEN._assert_async.msg, _ATEN._assert_async.default
_PLAIN_MESSAGE = "Expected Tensor with single nonzero value, but got zero"
"""What PyTorch says where the program gives no message."""

_Check: TypeAlias = tuple[fx.Node, str]
"""A boolean without dimensions that must be true, and what to say where it is not."""

_DIVISIONS = (
    *(_ATEN.div.Tensor_mode, _ATEN.floor_divide.default, _ATEN.fmod.Tensor, _ATEN.fmod.Scalar),
    *(_ATEN.remainder.Tensor, _ATEN.remainder.Scalar, _ATEN.remainder.Scalar_Tensor),
)


def name_assertions(graph: fx.Graph) -> None:
    """Give each assertion of a graph a message, without which torch.export may take it for dead."""
    for node in graph.find_nodes(op="call_function", target=_ASSERT_PLAIN):
        node.target = _ASSERT
        node.args = (*node.args, _PLAIN_MESSAGE)


def assertions_to_results(graph: fx.Graph, *, is_called: bool) -> tuple[str, ...]:
    """Replace the assertions of a graph by further results, tensors of one boolean each; returns their messages.

    A graph that `is_called` also asserts what PyTorch checks at each call where operations of the torch dialect cannot:
    positions and divisors. A position outside its dimension is replaced by 0, so that nothing is read there. PyTorch
    refuses to divide integers by 0 on a CPU alone; on a GPU the quotient is any number.

    Raises UnsupportedError where a program for a CPU divides integers by the number 0.
    """
    found = [_taken(node) for node in graph.find_nodes(op="call_function", target=_ASSERT)]
    if is_called:
        found += [check for node in list(graph.nodes) for check in _checks(node)]
    if found:
        (results,) = graph.output_node().args
        assert isinstance(results, tuple | list)
        graph.output_node().args = ((*results, *(condition for condition, _ in found)),)
    return tuple(message for _, message in found)


def _taken(node: fx.Node) -> _Check:
    """An assertion, taken out of its graph."""
    condition, message = node.args
    assert isinstance(condition, fx.Node)
    with node.graph.inserting_before(node):
        condition = _boolean(condition)
    node.graph.erase_node(node)
    caller = overload_of(node)
    return condition, str(message) if caller == str(_ASSERT) else f"{caller}: {message}"


def _checks(node: fx.Node) -> Iterator[_Check]:
    """What PyTorch checks of the values of an operation's operands."""
    value = node.meta.get("val")
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return
    with node.graph.inserting_before(node):
        for index, dim, lowest, extent in _positions(node):
            above, below = _call(_ATEN.ge.Scalar, index, lowest), _call(_ATEN.lt.Scalar, index, extent)
            inside = _call(_ATEN.logical_and.default, above, below)
            node.replace_input_with(index, _call(_ATEN.where.ScalarOther, inside, index, 0))
            message = f"an index is out of bounds for dimension {dim} with size {extent}"
            yield _call(_ATEN.all.default, inside), f"{overload_of(node)}: {message}"
        is_integer = not value.is_floating_point() and value.numel() > 0
        if node.target in _DIVISIONS and is_integer and value.device.type == "cpu":
            divisor = _arguments(node)["other"]
            if isinstance(divisor, fx.Node):
                is_whole = _call(_ATEN.all.default, _call(_ATEN.ne.Scalar, divisor, 0))
                yield is_whole, f"{overload_of(node)}: an integer is divided by zero"
            elif not divisor:
                raise node_error(node, f"{overload_of(node)} divides by the number 0", None)


def _positions(node: fx.Node) -> Iterator[tuple[fx.Node, int, int, int]]:
    """The tensors of positions that an operation reads at: with the dimension, the lowest position, and the extent."""
    if reads_inside(overload_of(node)):
        return
    given = _arguments(node)
    match node.target:
        case _ATEN.gather.default | _ATEN.index_select.default:
            shape = given["self"].meta["val"].shape or (1,)
            dim = given["dim"] % len(shape)
            yield given["index"], dim, 0, shape[dim]
        case _ATEN.embedding.default:
            yield given["indices"], 0, 0, given["weight"].meta["val"].shape[0]
        case _ATEN.index.Tensor:
            shape = given["self"].meta["val"].shape
            for dim, index in enumerate(given["indices"]):
                if index is not None and index.meta["val"].dtype in (torch.int32, torch.int64):
                    yield index, dim, -shape[dim], shape[dim]
        case _:
            pass


def _arguments(node: fx.Node) -> Mapping[str, Any]:
    """The arguments of a call of an ATen operation by name."""
    assert isinstance(node.target, torch._ops.OpOverload)
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _boolean(condition: fx.Node) -> fx.Node:
    """A condition, which may be any tensor of one element, as a boolean without dimensions."""
    value = condition.meta["val"]
    if value.dtype != torch.bool:
        condition = _call(_ATEN.ne.Scalar, condition, 0)
    return _call(_ATEN.all.default, condition) if value.dim() else condition


def _call(target: Any, source: fx.Node, *args: Any) -> fx.Node:
    """A call where its graph inserts, with the position of its first operand."""
    node = source.graph.call_function(target, (source, *args))
    values = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in node.args]
    node.meta = {**source.meta, "val": target(*values)}
    return node
