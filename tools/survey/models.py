"""The models of a survey, from a Python file of the user's, and their arguments without values."""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError


class SurveyModel(Protocol):
    """A model of the list `ZOO` of a file of models."""

    name: str
    train: bool
    """Whether it is one of those that are surveyed in training."""

    def build(self, size: str) -> nn.Module:
        """The model in float32, of a size; a survey asks for `"full"`, on the device `meta` if that is possible."""
        ...

    def inputs(self, model: nn.Module, size: str, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and the named arguments of a call."""
        ...

    def loss(self, result: Any) -> torch.Tensor:
        """The number that is differentiated in training, of what a call gives."""
        ...


def read_models(path: Path) -> list[SurveyModel]:
    """The models of a file, which is run. Raises InvalidInputError where it has none, or what it raises itself."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InvalidInputError(f"{path}: error: there is no such Python file; name one that lists models as ZOO")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    models: Sequence[SurveyModel] = getattr(module, "ZOO", ())
    if not models:
        raise InvalidInputError(f"{path}: error: there are no models; list them as ZOO")
    return list(models)


def built(model: SurveyModel, dtype: torch.dtype) -> tuple[nn.Module, Sequence[Any], Mapping[str, Any]]:
    """A model of full size and its arguments, with floats of a type.

    They are on the device meta; what asks for values when it is built, is built on the CPU.
    """
    try:
        with torch.device("meta"):
            module = model.build("full")
    except (RuntimeError, NotImplementedError):
        module = model.build("full")
    args, kwargs = model.inputs(module, "full", "cpu")
    cast = lambda value: value.to(dtype) if value.is_floating_point() else value  # noqa: E731
    args, kwargs = pytree.tree_map_only(torch.Tensor, cast, (args, kwargs))
    return module.to(dtype), args, kwargs


def faked(value: Any, mode: FakeTensorMode, device: str) -> Any:
    """A module, or tensors in a nest, as fake tensors of a device: they have shapes and strides, and no memory."""

    def fake(own: torch.Tensor) -> torch.Tensor:
        with mode:
            return torch.empty_strided(own.shape, own.stride(), dtype=own.dtype, device=device)

    if not isinstance(value, nn.Module):
        return pytree.tree_map_only(torch.Tensor, fake, value)
    parameters = {id(own): nn.Parameter(fake(own), own.requires_grad) for own in value.parameters()}
    return copy.deepcopy(value, {**{id(own): fake(own) for own in value.buffers()}, **parameters})
