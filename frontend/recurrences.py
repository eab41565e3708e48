"""Recurrent layers, whose cells come one after the other: how many there are, and tracing that leaves them out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, wraps
from typing import Any

import torch
from torch import fx
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

MOST_CELLS = 1024
"""The cells of a recurrent layer that are compiled: each is some 20 operations, so that 1000 take about a minute."""

_ATEN = torch.ops.aten
_OVERLOADS: dict[Any, tuple[Any, Any]] = {
    torch.lstm: (_ATEN.lstm.input, _ATEN.lstm.data),
    torch.gru: (_ATEN.gru.input, _ATEN.gru.data),
    torch.rnn_tanh: (_ATEN.rnn_tanh.input, _ATEN.rnn_tanh.data),
    torch.rnn_relu: (_ATEN.rnn_relu.input, _ATEN.rnn_relu.data),
}
"""The overloads of each function: for a tensor of sequences, and for packed sequences."""

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
"""Where PyTorch has Python kernels that go from cell to cell."""


def overload_called(node: fx.Node) -> Any:
    """The overload of a recurrent layer that a node calls; None if it calls none."""
    overloads = _OVERLOADS.get(node.target)
    if overloads is not None:
        # The weights are a list, which comes after the sizes of packed batches.
        return overloads[0] if isinstance(node.args[2], Sequence) else overloads[1]
    return node.target if any(node.target in each for each in _OVERLOADS.values()) else None


def steps_and_cells(node: fx.Node, key: str) -> tuple[int, int]:
    """The steps of a recurrent layer that a node calls, and its cells; `key` of a node's `meta` has its value."""
    given = _given(node)
    if "batch_sizes" in given:
        steps = given["batch_sizes"].meta[key].shape[0]
    else:
        steps = given["input"].meta[key].shape[1 if given["batch_first"] else 0]
    return int(steps), int(steps) * given["num_layers"] * (2 if given["bidirectional"] else 1)


def drops_out(node: fx.Node) -> bool:
    """Whether a recurrent layer that a node calls draws random numbers, as PyTorch's tag says of each of them."""
    given = _given(node)
    return bool(given["dropout"] and given["train"])


def _given(node: fx.Node) -> dict[str, Any]:
    """The arguments of a recurrent layer by their names."""
    names = (argument.name for argument in overload_called(node)._schema.arguments)
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


@contextlib.contextmanager
def without_cells(*, are_traced: bool = True) -> Iterator[None]:
    """While it lasts, PyTorch does not go through the cells of a recurrent layer to learn the shapes of results.

    Its own kernels for that take seconds for hundreds of steps, and torch 2.11 gives the states of an LSTM a
    dimension too many. If cells `are_traced`, they are used all the same for gradients, and where operations are
    traced.
    """
    overloads = [overload for overload, _ in _OVERLOADS.values()]
    taken = [(overload.py_kernels, key, overload) for overload in overloads for key in _KEYS]
    # Tensors without values look there first.
    taken += [(decomposition_table, overload, overload) for overload in overloads]
    kernels = [table[key] for table, key, _ in taken]
    for (table, key, overload), kernel in zip(taken, kernels, strict=True):
        table[key] = _kernel_of_shapes(kernel, are_traced)
        overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for (table, key, overload), kernel in zip(taken, kernels, strict=True):
            table[key] = kernel
            overload._dispatch_cache.clear()


@cache
def _kernel_of_shapes(kernel: Callable[..., Any], are_traced: bool) -> Callable[..., Any]:
    """`_shapes_or` of a kernel: the same function each time, by which what PyTorch's overrides write is known again."""
    return wraps(kernel)(partial(_shapes_or, kernel, are_traced))


def _shapes_or(
    kernel: Callable[..., Any], are_traced: bool, input: torch.Tensor, hx: Any, params: Any, *options: Any
) -> Any:
    """Results of the right shapes without values, or those of a kernel where more than shapes is asked for."""
    states = (hx,) if isinstance(hx, torch.Tensor) else tuple(hx)
    learns = torch.is_grad_enabled() and any(value.requires_grad for value in (input, *states, *params))
    is_traced = are_traced and (learns or get_proxy_mode() is not None)
    if is_traced or not isinstance(input, FakeTensor):
        return kernel(input, hx, params, *options)
    *_, bidirectional, batch_first = options
    # Cells take a step of all sequences at once, so steps are the outer dimension of memory.
    rows = input.transpose(0, 1) if batch_first else input
    made = rows.new_empty((*rows.shape[:2], states[0].shape[-1] * (2 if bidirectional else 1)))
    return made.transpose(0, 1) if batch_first else made, *(state.new_empty(state.shape) for state in states)
