"""What a program does in its first run that torch.export cannot capture, or captures without noticing it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_LAYOUT = ("stride", "is_contiguous", "storage_offset", "dim_order", "as_strided", "untyped_storage", "data_ptr")
"""Methods of tensors that tell how they lie in memory."""
_TRANSFORM = 'transforms of functions (torch.func) cannot be captured here; torch.compile(..., backend="deplodock") can'
_NUMPY = "a tensor becomes a numpy array, which cannot be captured; use operations of tensors"
_DATA = "writes through .data cannot be captured; use .detach(), or an operation that returns a new tensor"
_FUNCTORCH: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]


class MetadataChanged(Exception):
    """An input got another shape, other strides or other memory, which is no operation of a graph."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} changes the shape, the strides or the memory of an input in place, which is not supported; "
            "use an operation that returns a new tensor"
        )


class Watch(TorchFunctionMode):
    """Watches the calls of a program.

    `asks_layout` says whether it asks where a tensor lies in memory. `obstacle` is why what it did may be impossible to
    capture, and where it did that, if it did such a thing.
    """

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.asks_layout = False
        self.obstacle: tuple[str, TracebackType | None] | None = None
        self._inputs = {id(value): (value, _metadata(value)) for value in inputs}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch.cond is compiled by TorchDynamo even in a first run.
        if torch.compiler.is_compiling():
            return func(*args, **(kwargs or {}))
        # PyTorch tells modes of no calls of set_.
        is_input = bool(args) and id(args[0]) in self._inputs
        if is_input:
            self._check(args[0], "set_")
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        self.asks_layout |= name in _LAYOUT
        is_data = getattr(getattr(func, "__self__", None), "__name__", "") == "data"
        if is_input:
            self._check(args[0], "an assignment to .data" if is_data else name)
        if is_data:
            self._note(_DATA)
        elif name in ("numpy", "__array__"):
            self._note(_NUMPY)
        elif _FUNCTORCH.peek_interpreter_stack() is not None:
            self._note(_TRANSFORM)
        return result

    def finish(self) -> None:
        """Raise MetadataChanged if an input was changed in a way that was not seen, or whose error was caught."""
        for value, _ in self._inputs.values():
            self._check(value, "set_")

    def _check(self, value: torch.Tensor, operation: str) -> None:
        if _metadata(value) != self._inputs[id(value)][1]:
            raise MetadataChanged(operation)

    def _note(self, message: str) -> None:
        self.obstacle = self.obstacle or (message, _here())


def _metadata(value: torch.Tensor) -> tuple[Any, ...]:
    return value.shape, value.stride(), value.storage_offset(), value.dtype, value.untyped_storage()._cdata


def _here() -> TracebackType | None:
    """The frames of the calls that led here, as a traceback has them."""
    found, frame = None, sys._getframe(1)
    while frame is not None:
        found, frame = TracebackType(found, frame, max(frame.f_lasti, 0), frame.f_lineno), frame.f_back
    return found
