"""What calls of a module may change: the values of its buffers, and what its plain attributes hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

_OWN = frozenset(vars(nn.Module()))
"""The attributes that a module has for PyTorch."""


class ModuleState:
    """The state that a module had, such as that of a recurrent cell, which may be a buffer or a plain attribute.

    It holds the tensors themselves: CUDA graphs that read them can be replayed as long as it lives, whatever later
    calls put in their place.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._attributes = [_copied(attributes(part)) for part in module.modules()]
        self.tensors = list(_tensors(module))
        """The tensors of the state, in an order that modules built alike share."""
        self.values = [value.clone() for value in self.tensors]
        """What they hold, as copies."""

    def restore(self) -> None:
        """Give the module the same tensors with the values that they had, and all other attributes."""
        for part, known in zip(self._module.modules(), self._attributes, strict=True):
            for name in attributes(part).keys() - known.keys():
                delattr(part, name)
            vars(part).update(_copied(known))
        with torch.no_grad():
            for value, old in zip(self.tensors, self.values, strict=True):
                value.copy_(old)

    def apart(self, values: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Values that `restore` does not change: copies of those in the memory of the state."""
        own = {value.untyped_storage().data_ptr() for value in self.tensors}
        return [value.clone() if value.untyped_storage().data_ptr() in own else value for value in values]


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.buffers()
    for part in module.modules():
        for value in pytree.tree_leaves(attributes(part)):
            if isinstance(value, torch.Tensor):
                yield value


def attributes(part: nn.Module) -> dict[str, Any]:
    """The plain attributes of a module, without those of its parts."""
    return {name: value for name, value in vars(part).items() if name not in _OWN}


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """The same values in lists, tuples and dicts of their own."""
    return pytree.tree_map(lambda value: value, attributes)
