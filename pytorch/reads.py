"""What a function or module reads beside its arguments, as facts that a call compares in microseconds."""

from __future__ import annotations

import argparse
import functools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from functools import cached_property
from operator import attrgetter, is_
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils import _device

from deplodock.frontend.importer import is_users
from deplodock.frontend.inputs import has_memory, span_of

_MOST = 1000
"""The entries of a list, dict or set that are looked at; of a longer one, only how many it has."""

_MOST_VALUES = 20_000
"""The values that are looked at in all; others count by which object they are."""

_PLAIN = {
    *(type(None), type(...), bool, int, float, complex, str, bytes, slice, range),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
}
"""Types of values that are told by their text."""

_NAMESPACES = (SimpleNamespace, argparse.Namespace)
_CLOSED = {*sys.stdlib_module_names, "torch", "numpy", "deplodock"}
"""Packages whose objects count by which object they are, their attributes aside."""

_STOCK = frozenset(vars(nn.Module())) - {"training"}
"""Attributes of all modules."""

_HOOKS = tuple(sorted(name for name in _STOCK if name.startswith("_forward_")))
_IMPLIED = ("forward", "__call__", "__init__")
"""Methods that are called without their name."""

_CELL, _DTYPE = attrgetter("cell_contents"), attrgetter("dtype")
_ADDRESS = torch.Tensor.data_ptr
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")


def modes() -> Hashable:
    """How PyTorch runs any function: autocast, and which type and device new tensors have."""
    autocast = [(kind, torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return tuple(autocast), torch.get_default_dtype(), _device.CURRENT_DEVICE


class Reads:
    """What decides what a function computes, beside its arguments, `modes` and the values of a module's own state.

    Of a module, and of each module in it: its class, its attributes, its forward hooks, and which of its parameters and
    buffers there are and share memory. Of a function: its code, defaults and closure, and the globals that it names.
    What these hold is looked at, too: entries of lists, dicts and sets, attributes of objects, and functions that are
    named. Code of installed packages, of Python's library and of PyTorch does not change, and is not looked at; nor
    are the elements of arrays, and what `getattr` finds by a computed name in a class or a module of Python.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._last: _Snapshot | None = None

    def facts(self) -> ReadFacts:
        """What is read, as it is now. Equal if nothing of it differs."""
        last = self._last
        if last is None or not last.holds():
            last = _Look(self._function).snapshot()
            self._last = last
        return last.facts


class ReadFacts:
    """What was read: pairs of where it was found and what it was."""

    def __init__(self, pairs: Iterable[tuple[str, Hashable]]) -> None:
        self._pairs = tuple(pairs)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ReadFacts) and self._pairs == other._pairs)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._pairs)

    def change_from(self, other: ReadFacts) -> str:
        """The first thing that is other than before, in words; empty if nothing is."""
        pairs = zip(self._pairs, other._pairs, strict=False)
        found = next(((new, old) for new, old in pairs if new != old), None)
        if found is not None:
            (place, new), (old_place, old) = found
            values = f" was {_shown(old)}" if place == old_place and isinstance(new, _Plain) else " is another"
            return f"{place}{values}"
        return "" if len(self._pairs) == len(other._pairs) else "there are more or fewer attributes"


class _Plain(str):
    """The type and the text of a value."""

    __slots__ = ()


def _shown(fact: Hashable) -> str:
    return fact.partition(" ")[2][:40] if isinstance(fact, _Plain) else "another"


class _Same:
    """A fact that is true of one object alone, which it does not keep."""

    def __init__(self, value: object) -> None:
        self._hash = id(value)
        try:
            self._get: Callable[[], object] = weakref.ref(value)
        except TypeError:
            self._get = lambda: value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        value = self._get()
        return self is other or (value is not None and value is other._get())

    def __hash__(self) -> int:
        return self._hash


class _Snapshot:
    """What a look found, and how to tell quickly that it would find the same."""

    def __init__(self, look: _Look) -> None:
        self.facts = ReadFacts(look.pairs)
        self._reads, self._found = look.reads, look.found
        self._sized, self._sizes = look.sized, [*map(len, look.sized)]
        self._state, self._dtypes = look.state, [*map(_DTYPE, look.state)]
        self._tensors, self._addresses = look.tensors, [*map(_ADDRESS, look.tensors)]

    def holds(self) -> bool:
        """Whether every value is the same object."""
        now: list[Any] = []
        try:
            for read, names in self._reads:
                now += map(read, names)
        except (LookupError, AttributeError, ValueError):
            return False
        return (
            all(map(is_, now, self._found))
            and [*map(len, self._sized)] == self._sizes
            and [*map(_DTYPE, self._state)] == self._dtypes
            and [*map(_ADDRESS, self._tensors)] == self._addresses
        )


class _Look:
    """A walk over what a function reads.

    `reads` are pairs of a function and what to call it with, which give `found`; `sized` have as many entries as long
    as nothing is added or removed, `state` are parameters and buffers of the module, and `tensors` others, and those of
    the module that share memory, which lie where they lie.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.pairs: list[tuple[str, Hashable]] = []
        self.reads: list[tuple[Callable[[Any], Any], Sequence[Any]]] = []
        self.found: list[Any] = []
        self.sized: list[Sized] = []
        self.state: list[torch.Tensor] = []
        self.tensors: list[torch.Tensor] = []
        self._owned = {id(module) for module in function.modules()} if isinstance(function, nn.Module) else set[int]()
        self._memory: dict[Any, tuple[int, torch.Tensor]] = {}
        self._numbers: dict[int, int] = {}
        self._names = dict.fromkeys(_IMPLIED)
        self._holders: dict[type | ModuleType, set[str]] = {}
        self._todo = deque[tuple[str, Any]]([("", function)])

    def snapshot(self) -> _Snapshot:
        """All that is found."""
        hooks = {name: table for name, table in vars(nn_module).items() if name.startswith("_global_forward_")}
        for name, table in hooks.items():
            self._dict(name, table)
        while True:
            while self._todo:
                self._visit(*self._todo.popleft())
            for holder, known in list(self._holders.items()):
                self._named(holder, [name for name in self._names if name not in known])
                known.update(self._names)
            if not self._todo:
                return _Snapshot(self)

    def _visit(self, path: str, value: Any) -> None:
        if type(value) in _PLAIN:
            self._note(path, _Plain(f"{type(value).__name__} {value!r}"))
        elif isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, MethodType):
            self._todo += [(path, value.__func__), (path, value.__self__)]
        elif id(value) in self._numbers:
            self._note(path, self._numbers[id(value)])
        else:
            self._numbers[id(value)] = len(self._numbers)
            self._open(path, value)

    def _open(self, path: str, value: Any) -> None:
        """Look into a value that was not met before."""
        wrapped = vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None
        if len(self.found) > _MOST_VALUES:
            self._note(path, _Same(value))
        elif isinstance(value, nn.Module):
            self._module(path, value)
        elif isinstance(value, FunctionType) and _is_followed(value.__code__.co_filename):
            self._function(path, value)
        elif isinstance(value, type | ModuleType):
            self._note(path, _Same(value))
            self._hold(value)
        elif wrapped is not None:
            self._todo.append((path, wrapped))
        elif isinstance(value, functools.partial):
            self._todo += [(path, value.func), (path, value.args), (path, value.keywords)]
        elif isinstance(value, property):
            self._todo.append((path, value.fget))
        elif isinstance(value, staticmethod | classmethod):
            self._todo.append((path, value.__func__))
        elif isinstance(value, dict):
            self._dict(path, value)
        elif isinstance(value, list | tuple | set | frozenset):
            self._items(path, value)
        elif hasattr(value, "__dict__") and _is_open(type(value)):
            self._note(path, _Same(type(value)))
            self._hold(type(value))
            self._dict(path, vars(value))
        else:
            self._note(path, _Same(value))

    def _note(self, path: str, fact: Hashable) -> None:
        self.pairs.append((path, fact))

    def _hold(self, holder: type | ModuleType) -> None:
        """Look for what code names in a module of Python, or in a class."""
        bases = holder.__mro__ if isinstance(holder, type) else (holder,)
        for base in bases:
            if _is_users_own(base if isinstance(base, ModuleType) else sys.modules.get(base.__module__)):
                self._holders.setdefault(base, set())

    def _named(self, holder: type | ModuleType, names: Iterable[str]) -> None:
        table = vars(holder)
        self._entries(holder.__name__, table, [name for name in names if name in table])

    def _entries(self, path: str, table: Any, names: Sequence[Any]) -> None:
        """Look at entries of a mapping."""
        values = [table[name] for name in names]
        self.reads.append((table.__getitem__, names))
        self.found += values
        self._todo += [(_at(path, name), value) for name, value in zip(names, values, strict=True)]

    def _dict(self, path: str, table: dict[Any, Any]) -> None:
        self.sized.append(table)
        names = [*table]
        self._note(path, tuple(_Plain(name) if type(name) in (str, int) else _Same(name) for name in names[:_MOST]))
        if 0 < len(names) <= _MOST:
            self._entries(path, table, names)

    def _items(self, path: str, values: Any) -> None:
        self.sized.append(values)
        items = [*values][: _MOST + 1]
        self._note(path, (_Same(type(values)), len(values)))
        if len(items) > _MOST:
            return
        if isinstance(values, set | frozenset):
            self.reads.append((values.__contains__, items))
            self.found += [True] * len(items)
            self._note(path, frozenset(item if type(item) in _PLAIN else _Same(item) for item in items))
            return
        self.reads.append((values.__getitem__, range(len(items))))
        self.found += items
        self._todo += [(f"{path}[{number}]", item) for number, item in enumerate(items)]

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        """A tensor that is compiled in: which it is, and where its elements are."""
        self._note(path, _Same(value))
        if has_memory(value):
            self._note(path, span_of(value))
            self.tensors.append(value)

    def _module(self, path: str, module: nn.Module) -> None:
        table = vars(module)
        self._note(path, _Same(type(module)))
        self._hold(type(module))
        self.sized.append(table)
        self._entries(path, table, [name for name in table if name not in _STOCK])
        for name in _HOOKS:
            if (hooks := table.get(name)) is not None:
                self.sized.append(hooks)
                self._todo += [(f"{path}.{name}", hook) for hook in hooks.values()]
        self._dict(path, module._modules)
        for state in (module._parameters, module._buffers):
            if id(module) not in self._owned:
                self._dict(path, state)
            elif state:
                self._state(path, state)

    def _state(self, path: str, state: Mapping[str, torch.Tensor | None]) -> None:
        """Parameters or buffers that are looked up at each call: which there are, and which share memory."""
        self.sized.append(state)
        self.reads.append((state.__getitem__, [*state]))
        self.found += state.values()
        for name, value in state.items():
            known = None
            if value is not None and has_memory(value):
                self.state.append(value)
                known, first = self._memory.setdefault(span_of(value), (len(self._memory), value))
                if known < len(self._memory) - 1:
                    self.tensors += [first, value]
            facts = None if value is None else (known, type(value), value.dtype, value.device)
            self._note(_at(path, name), facts)

    def _function(self, path: str, function: FunctionType) -> None:
        code = function.__code__
        self._note(path, code)
        self.reads.append((function.__getattribute__, _OF_FUNCTIONS))
        self.found += map(function.__getattribute__, _OF_FUNCTIONS)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        filled = {name: cell for name, cell in cells.items() if _is_filled(cell)}
        self.reads.append((_CELL, [*filled.values()]))
        self.found += map(_CELL, filled.values())
        self._todo += [(name, cell.cell_contents) for name, cell in filled.items()]
        self._todo += [(path, function.__defaults__), (path, function.__kwdefaults__)]
        names = dict.fromkeys(_names(code))
        self._names |= names
        self._entries("", function.__globals__, [name for name in names if name in function.__globals__])


def _at(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _is_filled(cell: CellType) -> bool:
    """Whether a variable of a closure has a value."""
    try:
        _CELL(cell)
    except ValueError:
        return False
    return True


def _names(code: CodeType) -> list[str]:
    """What code, and functions in it, name: globals and attributes."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inner]


def _is_followed(filename: str) -> bool:
    """Whether code of a file is the user's own, not that of an installed package."""
    return is_users(filename) and not any(folder in filename for folder in ("site-packages", "dist-packages"))


def _is_users_own(module: ModuleType | None) -> bool:
    """Whether a module of Python is the user's own."""
    file = getattr(module, "__file__", None)
    return module is not None and (module.__name__ == "__main__" if file is None else _is_followed(file))


def _is_open(kind: type) -> bool:
    """Whether the attributes of objects of a class are looked at."""
    return kind in _NAMESPACES or kind.__module__.partition(".")[0] not in _CLOSED
