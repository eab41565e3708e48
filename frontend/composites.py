"""The composite operations that PyTorch keeps while it captures, which are made ready once and not for each program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch._export.utils import (
    _collect_all_valid_cia_ops,
    _collect_all_valid_cia_ops_for_aten_namespace,
    _special_op_to_preserve_cia,
)
from torch._subclasses.fake_impls import _deregister_op_impl, op_implementations_dict
from torch.export import exported_program
from torch.export.exported_program import _override_composite_implicit_decomp

from deplodock.frontend.decompositions import is_known

Kernels = dict[Any, Any]
"""The kernels in Python of an operation, by their dispatch keys."""


def kept_composites() -> contextlib.AbstractContextManager[object]:
    """While it lasts, tracers keep the composite operations that deplodock knows, as torch.export does.

    Those have no gradients meanwhile. Only for a thread that holds the `tracing_lock`: it changes PyTorch's registry.
    """
    return _overridden(dict.fromkeys(_known_composites(), _special_op_to_preserve_cia))


@cache
def _known_composites() -> list[Any]:
    return [overload for overload in _collect_all_valid_cia_ops_for_aten_namespace() if is_known(overload)]


@contextlib.contextmanager
def composites_ready() -> Iterator[None]:
    """While it lasts, torch.export neither looks for all composite operations nor makes their kernels for each program.

    That takes it 0.2 s for a program. Only for a thread that holds the `tracing_lock`: it changes functions of PyTorch.
    """
    ours = {
        "_override_composite_implicit_decomp": _overridden,
        "_collect_all_valid_cia_ops": lambda: _composites(_overloads()),
    }
    names = exported_program.__dict__
    stock = {name: names[name] for name in ours}
    names.update(ours)
    try:
        yield
    finally:
        names.update(stock)


def _overloads() -> tuple[tuple[str, int], ...]:
    """The packages of operations and how many each has: what they have can only grow, but for PyTorch's own."""
    names = sorted(name for name in torch.ops._dir if name != "aten")
    return tuple((name, len(getattr(torch.ops, name)._dir)) for name in names)


@cache
def _composites(overloads: tuple[tuple[str, int], ...]) -> set[Any]:
    return _collect_all_valid_cia_ops()


@contextlib.contextmanager
def _overridden(table: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """PyTorch's `_override_composite_implicit_decomp`: while it lasts, these are how composite operations decompose."""
    before: dict[Any, Kernels] = {}
    try:
        for op, decomposition in table.items():
            before[op] = dict(op.py_kernels)
            kernels, fake = _made(op, decomposition, frozenset(op.py_kernels.items()), op_implementations_dict.get(op))
            _replace(op, kernels)
            op_implementations_dict[op] = fake
        yield
    finally:
        for op, kernels in before.items():
            _replace(op, kernels)
            _deregister_op_impl(op)


@cache
def _made(op: Any, decomposition: Callable[..., Any], before: frozenset[Any], fake: Any) -> tuple[Kernels, Any]:
    """The kernels and the rule for fake tensors that an operation which has those gets from PyTorch to decompose so."""
    with _override_composite_implicit_decomp({op: decomposition}):
        return dict(op.py_kernels), op_implementations_dict[op]


def _replace(op: Any, kernels: Kernels) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()
