"""PyTorch's overrides of composite operations, from memory.

To keep or decompose the composite operations of a program, PyTorch looks for all that are registered, overrides what
some 500 of them do, and takes that back, for each program anew: that is 0.1 s, ten times what capturing a small program
takes else. All of it follows from the operations that are registered and from a table of what each is to become.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_impls import op_implementations_dict as fake_rules
from torch.export import exported_program as stock

Table: TypeAlias = Mapping[Any, Callable[..., Any]]
"""What composite overloads become."""

_Kernels: TypeAlias = dict[Any, dict[Any, Any]]
"""The kernels in Python of overloads, by dispatch key."""

_split = stock._split_decomp_table_to_cia_and_python_decomp
_override = stock._override_composite_implicit_decomp
_PATCHED = ("_split_decomp_table_to_cia_and_python_decomp", "_override_composite_implicit_decomp")


@dataclass(frozen=True)
class _Override:
    """What PyTorch has written for a table: the kernels before and after, and the rules for fake tensors."""

    table: Table
    before: _Kernels
    after: _Kernels
    rules: dict[Any, Any]


@dataclass(frozen=True)
class _Split:
    """A table of decompositions in two: of composite overloads, with those to keep, and of others."""

    registered: list[str]
    table: Table
    composites: Table
    others: Table


_KEPT = 8
"""How many of each are remembered, the latest first; a program needs three tables."""

_written: list[_Override] = []
_splits: list[_Split] = []


@contextlib.contextmanager
def overridden_from_memory() -> Iterator[None]:
    """While it lasts, torch.export finds composite operations and overrides them by the functions of this file.

    Only for a thread that holds the `tracing_lock`.
    """
    replaced = {name: getattr(stock, name) for name in _PATCHED}
    for name, function in zip(_PATCHED, (split_table, override_composites), strict=True):
        setattr(stock, name, function)
    try:
        yield
    finally:
        for name, function in replaced.items():
            setattr(stock, name, function)


def split_table(table: Table) -> tuple[Table, Table]:
    """A table of decompositions in two, as torch.export has it: other operations may have been registered since."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    known = next((found for found in _splits if found.registered == registered and found.table == table), None)
    if known is None:
        known = _Split(registered, dict(table), *_split(dict(table)))
        _splits[:] = [known, *_splits[: _KEPT - 1]]
    return known.composites, dict(known.others)


@contextlib.contextmanager
def override_composites(table: Table) -> Iterator[None]:
    """While it lasts, composite overloads are what a table says, as in torch.export.

    Only for a thread that holds the `tracing_lock`: it changes PyTorch's registry.
    """
    before = {overload: dict(overload.py_kernels) for overload in table}
    known = next((found for found in _written if found.table == table and found.before == before), None)
    if known is None:
        has_rules = not fake_rules.keys().isdisjoint(table)
        with _override(table):
            if not has_rules:
                after = {overload: dict(overload.py_kernels) for overload in table}
                known = _Override(dict(table), before, after, {op: fake_rules[op] for op in table})
                _written[:] = [known, *_written[: _KEPT - 1]]
            yield
        return
    _set_kernels(known.after)
    fake_rules.update({op: rule for op, rule in known.rules.items() if op not in fake_rules})
    try:
        yield
    finally:
        _set_kernels(before)
        for overload in table:
            fake_rules.pop(overload, None)


def _set_kernels(kernels: _Kernels) -> None:
    for overload, own in kernels.items():
        overload.py_kernels.clear()
        overload.py_kernels.update(own)
        overload._dispatch_cache.clear()
