"""The caches of keys and values of transformers as nests of tensors, for PyTorch's pytrees.

transformers has such a description, too, but makes a cache again by operations, which would stand in captured graphs.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.fx import _pytree as fx_pytree
from torch.utils import _pytree as pytree

_TENSOR = "a tensor"


def register_caches() -> None:
    """Tell PyTorch which tensors a `DynamicCache` holds, if transformers is imported and has not told it itself."""
    if "transformers.cache_utils" not in sys.modules:
        return
    cache = sys.modules["transformers.cache_utils"].DynamicCache
    if cache not in pytree.SUPPORTED_NODES:
        name = f"{cache.__module__}.{cache.__qualname__}"
        pytree.register_pytree_node(
            cache, _flatten, _unflatten, serialized_type_name=name, flatten_with_keys_fn=_flatten_with_keys
        )
        fx_pytree.register_pytree_flatten_spec(cache, lambda value, _: _flatten(value)[0])


def _flatten(cache: Any) -> tuple[list[Any], Any]:
    """The tensors of all layers, and all else that the cache and its layers hold."""
    tensors: list[torch.Tensor] = []
    layers: list[tuple[type, dict[str, Any]]] = []
    for layer in cache.layers:
        tensors += [value for value in vars(layer).values() if isinstance(value, torch.Tensor)]
        kept = {name: _TENSOR if isinstance(v, torch.Tensor) else v for name, v in vars(layer).items()}
        layers.append((type(layer), kept))
    own = {name: value for name, value in vars(cache).items() if name != "layers"}
    return tensors, (type(cache), own, layers)


def _unflatten(tensors: Any, context: Any) -> Any:
    kind, own, layers = context
    given, cache = iter(tensors), kind.__new__(kind)
    vars(cache).update(own)
    cache.layers = []
    for layer_kind, kept in layers:
        layer = layer_kind.__new__(layer_kind)
        vars(layer).update((name, next(given) if value == _TENSOR else value) for name, value in kept.items())
        cache.layers.append(layer)
    return cache


def _flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
    tensors, context = _flatten(cache)
    return [(pytree.SequenceKey(number), tensor) for number, tensor in enumerate(tensors)], context
