"""The forms of nests of arguments and results, PyTorch's pytrees, as values of JSON.

A leaf is null. A tuple or a list is `[KIND, CHILDREN]`, a dict or an OrderedDict `[KIND, KEYS, CHILDREN]`, a namedtuple
`["namedtuple", CLASS, CHILDREN]`. Any other class that PyTorch's pytrees know, as the outputs of transformers' models,
is `[CLASS, CONTEXT, CHILDREN]`. In a context an object of one entry stands for what JSON lacks, `{"dtype": "float32"}`.
Reading imports nothing: a class must be there.
"""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from typing import Any

import torch
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.frontend.caches import register_caches

_SEQUENCES: dict[Any, str] = {tuple: "tuple", list: "list"}
_DICTS: dict[Any, str] = {dict: "dict", OrderedDict: "OrderedDict"}
_KINDS = {name: kind for kinds in (_SEQUENCES, _DICTS) for kind, name in kinds.items()}
_PLAIN = (str, int, float, bool, type(None))


def write_form(form: pytree.TreeSpec) -> Any:
    """The form of a nest as values of JSON. Raises UnsupportedError, which names what has no such values."""
    if form.is_leaf():
        return None
    children = [write_form(child) for child in form.children()]
    kind, context = form.type, form.context
    if kind in _SEQUENCES:
        return [_SEQUENCES[kind], children]
    if kind in _DICTS:
        for key in context:
            if type(key) not in _PLAIN:
                raise UnsupportedError(f"a nest with the key {key!r} cannot be saved: keys must be text or numbers")
        return [_DICTS[kind], list(context), children]
    if kind is pytree.namedtuple:
        return ["namedtuple", _name_of(context), children]
    name = _name_of(kind)
    try:
        return [name, _written(context, name.partition(".")[0]), children]
    except TypeError as error:
        raise UnsupportedError(f"a nest of the class {name} cannot be saved: it holds {error}") from None


def read_form(value: Any) -> pytree.TreeSpec:
    """The form that `write_form` wrote.

    Raises:
        InvalidInputError: it is of a class that is not there.
        ValueError, TypeError, KeyError: the value is no form.
    """
    if value is None:
        return pytree.tree_structure(0)
    register_caches()
    kind, *contexts, children = value
    forms = [read_form(child) for child in children]
    match kind, contexts:
        case ("tuple" | "list", []):
            return pytree.TreeSpec(_KINDS[kind], None, forms)
        case ("dict" | "OrderedDict", [keys]):
            if len(keys) != len(forms):
                raise ValueError(f"there are {len(keys)} keys for {len(forms)} children")
            if any(type(key) not in _PLAIN for key in keys) or len({*keys}) < len(keys):
                raise ValueError("the keys of a nest must be text or numbers, each once")
            return pytree.TreeSpec(_KINDS[kind], keys, forms)
        case ("namedtuple", [str(name)]):
            found = _class_of(name)
            if len(getattr(found, "_fields", ())) != len(forms):
                raise _missing(name)
            return pytree.TreeSpec(pytree.namedtuple, found, forms)
        case (str(name), [context]):
            found = _class_of(name)
            if found not in pytree.SUPPORTED_NODES:
                raise _missing(name)
            return pytree.TreeSpec(found, _read(context, name.partition(".")[0]), forms)
        case _:
            raise ValueError(f"{json.dumps(kind)} is no kind of a nest")


def _missing(name: str) -> InvalidInputError:
    module = name.rpartition(".")[0]
    return InvalidInputError(f"the program takes or gives a {name}, which is not there: import {module} first")


def _class_of(name: str) -> Any:
    """The class of a module that is imported, None if there is none."""
    module, _, attribute = name.rpartition(".")
    # Not getattr: a module may import others where it is asked for a name that it lacks.
    found = vars(sys.modules[module]).get(attribute) if module in sys.modules else None
    return found if isinstance(found, type) else None


def _name_of(kind: Any) -> str:
    """The name by which a class is found again. Raises UnsupportedError if there is none."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _class_of(name) is not kind:
        raise UnsupportedError(f"a nest of the class {name} cannot be saved: it stands in no module under its name")
    return name


def _written(value: Any, package: str) -> Any:
    """What a class keeps of its nests as values of JSON. Raises TypeError, which names what has none.

    Classes are those of the package of the nest's own class.
    """
    match value:
        case str() | int() | float() | None if type(value) in _PLAIN:
            return value
        case tuple() | list() if type(value) in _SEQUENCES:
            return {_SEQUENCES[type(value)]: [_written(item, package) for item in value]}
        case dict() if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"dict": {key: _written(item, package) for key, item in value.items()}}
        case type() if value.__module__.partition(".")[0] == package:
            return {"class": _name_of(value)}
        case torch.dtype() | torch.device():
            return {type(value).__name__: str(value).removeprefix("torch.")}
        case _:
            raise TypeError(f"{value!r:.60}")


def _read(value: Any, package: str) -> Any:
    """What `_written` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "tuple" | "list":
            return _KINDS[kind](_read(item, package) for item in content)
        case "dict":
            return {key: _read(item, package) for key, item in content.items()}
        case "class":
            found = _class_of(content) if content.partition(".")[0] == package else None
            if found is None:
                raise _missing(content)
            return found
        case "dtype":
            return dtype_named(content)
        case "device":
            return torch.device(content)
        case _:
            raise ValueError(f"{json.dumps(kind)} is no kind of a value")


def dtype_named(name: str) -> torch.dtype:
    """A dtype of PyTorch. Raises ValueError if there is none of that name."""
    found = vars(torch).get(name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"there is no dtype {json.dumps(name)}")
    return found
