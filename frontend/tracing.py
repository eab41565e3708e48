"""What holds while PyTorch traces a program: one thread at a time, without PyTorch's own messages."""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
import warnings
from collections.abc import Iterator

_CAPTURING = threading.RLock()
_THREAD = threading.local()


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """While it lasts, this thread runs a program in order to capture it."""
    before = is_capturing()
    _THREAD.captures = True
    try:
        yield
    finally:
        _THREAD.captures = before


def is_capturing() -> bool:
    """Whether this thread runs a program in order to capture it."""
    return getattr(_THREAD, "captures", False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings and loggers of PyTorch: what matters of them becomes one error.

    One thread at a time captures: what is silenced and redirected is the process's.
    """
    with _CAPTURING:
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.disable(disabled)


def tracing_lock() -> contextlib.AbstractContextManager[object]:
    """The lock of TorchDynamo, which takes a second to import and which torch.export imports, too."""
    return importlib.import_module("torch._dynamo.convert_frame").compile_lock
