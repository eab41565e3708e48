"""Elements and slices that an integer tensor without dimensions selects, as in `x[i]` and `x[i] = y`.

PyTorch reads the tensor as a number, which is known only when a program runs. Here the tensor stays the position.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

_ATEN = torch.ops.aten
_READ = _ATEN._local_scalar_dense.default
_MASKS = (torch.bool, torch.uint8)


@contextlib.contextmanager
def selecting_by_tensors(module: nn.Module) -> Iterator[None]:
    """While this holds, indexing inside of `module` selects by such tensors, which torch.export takes for integers."""
    forward, own = module.forward, "forward" in vars(module)

    @functools.wraps(forward)
    def selecting(*args: Any, **kwargs: Any) -> Any:
        with _Selecting():
            return forward(*args, **kwargs)

    module.forward = selecting
    try:
        yield
    finally:
        if own:
            module.forward = forward
        else:
            del module.forward


class _Selecting(TorchFunctionMode):
    """Takes positions that are tensors without dimensions out of an index, by a select each."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            items = list(args[1]) if isinstance(args[1], tuple) else [args[1]]
            if any(_is_position(item) for item in items):
                x, rest = _selected(args[0], items)
                return func(x, tuple(rest), *args[2:])
        return func(*args, **(kwargs or {}))


def _is_position(item: object) -> bool:
    if not isinstance(item, torch.Tensor) or item.dim() or item.dtype in _MASKS:
        return False
    return not item.is_floating_point() and not item.is_complex()


def _selected(x: torch.Tensor, items: list[Any]) -> tuple[torch.Tensor, list[Any]]:
    """The view of `x` that the positions among the items of an index select, and the items that are left."""
    taken = [_dims_of(item) for item in items]
    known = sum(count for count in taken if count is not None)
    dims: list[tuple[int, Any]] = []
    dim = 0
    for item, count in zip(items, taken, strict=True):
        if _is_position(item):
            dims.append((dim, item))
        dim += x.dim() - known if count is None else count
    for dim, item in reversed(dims):
        x = torch.select(x, dim, item.item())
    # An index without items is the whole tensor.
    return x, [item for item in items if not _is_position(item)] or [...]


def _dims_of(item: object) -> int | None:
    """How many dimensions an item of an index takes; None for the ellipsis, which takes those that are left."""
    if item is Ellipsis:
        return None
    if item is None or isinstance(item, bool):
        return 0
    return item.dim() if isinstance(item, torch.Tensor) and item.dtype in _MASKS else 1


def numbers_to_positions(graph: fx.Graph) -> None:
    """Let selects at the number that a tensor holds select at the tensor, in a graph that writes into nothing."""
    for target, at, made in ((_ATEN.select.int, 2, _taken), (_ATEN.select_scatter.default, 3, _written)):
        for node in graph.find_nodes(op="call_function", target=target):
            position = _position(node.args[at])
            if position is not None:
                with graph.inserting_before(node):
                    node.replace_all_uses_with(made(_CallBuilder(node), position, *node.args))
                graph.erase_node(node)
    for node in graph.find_nodes(op="call_function", target=_ATEN._assert_scalar.default):
        if _is_offset(node.args[0]):
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _is_offset(value: object) -> bool:
    """Whether a number is computed from where views start in memory alone, which says nothing of values."""
    if not isinstance(value, fx.Node) or value.target is _ATEN.sym_storage_offset.default:
        return isinstance(value, fx.Node)
    return bool(value.all_input_nodes) and all(map(_is_offset, value.all_input_nodes))


def _position(number: object) -> fx.Node | None:
    """The tensor that a number was read from, but not one of a type that indexing takes for a mask."""
    if not isinstance(number, fx.Node) or number.target is not _READ:
        return None
    (tensor,) = number.all_input_nodes
    return None if tensor.meta["val"].dtype in _MASKS else tensor


@dataclass(frozen=True)
class _CallBuilder:
    """Calls operations where a graph inserts, on behalf of a node."""

    node: fx.Node

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A call with the node's place in the source."""
        new = self.node.graph.call_function(target, args, kwargs)
        values: Any = fx.map_arg(args, lambda arg: arg.meta["val"])
        new.meta = {**self.node.meta, "val": target(*values, **kwargs)}
        return new

    def long(self, position: fx.Node) -> fx.Node:
        """A position in int64."""
        is_long = position.meta["val"].dtype == torch.int64
        return position if is_long else self(_ATEN._to_copy.default, position, dtype=torch.int64)


def _taken(call: _CallBuilder, position: fx.Node, x: fx.Node, dim: int, _: object) -> fx.Node:
    """The slice of `x` at a position."""
    return call(_ATEN.index.Tensor, x, [*[None] * (dim % x.meta["val"].dim()), call.long(position)])


def _written(call: _CallBuilder, position: fx.Node, x: fx.Node, source: fx.Node, dim: int, _: object) -> fx.Node:
    """`x` with `source` in the place of the slice at a position."""
    value, position = x.meta["val"], call.long(position)
    dim %= value.dim()
    extent = value.shape[dim]
    not_below, not_above = call(_ATEN.ge.Scalar, position, -extent), call(_ATEN.lt.Scalar, position, extent)
    message = f"an index is out of bounds for dimension {dim} with size {extent}"
    call(_ATEN._assert_async.msg, call(_ATEN.logical_and.default, not_below, not_above), message)
    from_end = call(_ATEN.add.Tensor, position, extent)
    place = call(_ATEN.where.self, call(_ATEN.lt.Scalar, position, 0), from_end, position)
    hit = call(_ATEN.eq.Tensor, call(_ATEN.arange.default, extent, device=value.device), place)
    hit = call(_ATEN.view.default, hit, [-1, *[1] * (value.dim() - dim - 1)])
    return call(_ATEN.where.self, hit, call(_ATEN.unsqueeze.default, source, dim), x)
