"""A problem's module and the arguments of a call, on a device."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError
from deplodock.frontend.capture import describe

SEED = 42
"""The seed before a module is built, before its inputs are drawn, and before each call that is compared."""

_PARTS = ("Model", "get_init_inputs", "get_inputs")


def built(path: Path, device: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """The module of a problem as it is built, which is in training mode, and the arguments of a call.

    Both are made on the device, so that no copy of them is elsewhere; on `meta` they have no values.

    Raises:
        OSError: the file cannot be read.
        InvalidInputError: it is no problem, or raises.
    """
    problem = _loaded(path)
    try:
        with torch.device(device):
            torch.manual_seed(SEED)
            module = problem.Model(*problem.get_init_inputs())
        return module.to(device), drawn(path, device)
    except Exception as raised:
        raise InvalidInputError(f"{path}: error: the module raises {describe(raised)}") from raised


def drawn(path: Path, device: str) -> tuple[Any, ...]:
    """The arguments of a call, the same ones each time. Raises as `built`."""
    problem = _loaded(path)
    try:
        with torch.device(device):
            torch.manual_seed(SEED)
            return tuple(on_device(problem.get_inputs(), device))
    except Exception as raised:
        raise InvalidInputError(f"{path}: error: get_inputs raises {describe(raised)}") from raised


def on_device(values: Sequence[Any], device: str) -> Any:
    """The values, with tensors that are elsewhere copied to the device."""
    return pytree.tree_map_only(torch.Tensor, lambda value: value.to(device), values)


def _loaded(path: Path) -> ModuleType:
    """The file as a module of Python. Raises as `built`."""
    name = f"deplodock_problem_{path.stem}"
    if (known := sys.modules.get(name)) is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as raised:
        del sys.modules[name]
        if isinstance(raised, OSError):
            raise
        raise InvalidInputError(f"{path}: error: the file raises {describe(raised)}") from raised
    if missing := [part for part in _PARTS if not hasattr(module, part)]:
        raise InvalidInputError(f"{path}: error: the file has no {' and no '.join(missing)}")
    return module
