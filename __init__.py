"""deplodock: a compiler from PyTorch programs to CUDA that people can read."""

import importlib
from typing import TYPE_CHECKING

from deplodock.version import __version__ as __version__

if TYPE_CHECKING:
    from deplodock.errors import CompileError, Error, InvalidInputError, UnsupportedError
    from deplodock.pytorch.function import compile
    from deplodock.pytorch.loading import load

__all__ = ["CompileError", "Error", "InvalidInputError", "UnsupportedError", "compile", "load"]

_MODULE_OF = {
    "CompileError": "deplodock.errors",
    "Error": "deplodock.errors",
    "InvalidInputError": "deplodock.errors",
    "UnsupportedError": "deplodock.errors",
    "compile": "deplodock.pytorch.function",
    "load": "deplodock.pytorch.loading",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that `import deplodock` itself stays cheap."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'deplodock' has no attribute '{name}'")
    try:
        module = importlib.import_module(_MODULE_OF[name])
    except ModuleNotFoundError as error:
        reason = importlib.import_module("deplodock.errors").missing_package(error.name or "")
        if reason is None:
            raise
        raise ModuleNotFoundError(f"deplodock.{name}: {reason}", name=error.name) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
