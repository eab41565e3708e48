"""What compiled programs are to PyTorch where it traces or transforms the function that calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

from deplodock.errors import UnsupportedError
from deplodock.frontend.tracing import is_capturing

_EVAL_FRAME: Any = torch._C._dynamo.eval_frame  # pyright: ignore[reportAttributeAccessIssue]
_SKIP = _EVAL_FRAME._FrameExecStrategy(_EVAL_FRAME._FrameAction.SKIP, _EVAL_FRAME._FrameAction.DEFAULT)
_KEYS = torch._C._TorchDispatchModeKey
_FUNCTORCH: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def is_traced() -> bool:
    """Whether what runs is traced: by deplodock itself, torch.compile, torch.export, make_fx or torch.jit."""
    if torch.compiler.is_compiling() or is_capturing() or torch._C._is_tracing():
        return True
    if not torch._C._len_torch_dispatch_stack():
        return False
    return any(torch._C._get_dispatch_mode(mode) is not None for mode in (_KEYS.PROXY, _KEYS.FAKE))


def refuse_transforms() -> None:
    """Raise UnsupportedError where a transform of functions is at work, as torch.func.grad or vmap."""
    if _FUNCTORCH.peek_interpreter_stack() is not None:
        raise UnsupportedError(
            "a compiled program is called in a transform of functions (torch.func.grad, vmap, ..), which must see its "
            'operations: transform the function, and torch.compile(.., backend="deplodock") the result'
        )


def unpicklable(what: str) -> UnsupportedError:
    """The error for whoever pickles it."""
    return UnsupportedError(f"{what} cannot be pickled: save its programs, and deplodock.load them where they go")


def opaque(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that TorchDynamo calls and does not trace, nor what it calls.

    As `torch.compiler.disable`, which imports TorchDynamo.
    """

    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        callback = _EVAL_FRAME.set_eval_frame(None)
        try:
            return function(*args, **kwargs)
        finally:
            _EVAL_FRAME.set_eval_frame(callback)

    message = "a program that deplodock has compiled; torch.compile takes the function that it was compiled from"
    _EVAL_FRAME.set_code_exec_strategy(called.__code__, _SKIP)
    for name, value in (("", True), ("_msg", message), ("_recursive", True)):
        setattr(called, f"_torchdynamo_disable{name}", value)
    return functools.update_wrapper(called, function)
