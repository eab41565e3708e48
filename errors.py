"""The errors that deplodock raises; every message says where, what is wrong and what to do."""

from collections.abc import Mapping

from xdsl.utils.exceptions import DiagnosticException

_EXTRAS = {
    "torch": "torch",
    "functorch": "torch",
    "transformers": "models",
    "safetensors": "torch",
    "huggingface_hub": "models",
    "cuda": "cuda",
    "pycuda": "cuda",
}
"""The extra of deplodock that brings a package."""


def missing_package(module: str, extra: str | None = None) -> str | None:
    """That a module is missing, and how to install the extra that brings it; None for one that none does."""
    package = module.partition(".")[0]
    extra = extra or _EXTRAS.get(package)
    return None if extra is None else f"this needs the package {package}: pip install 'deplodock[{extra}]'"


class Error(DiagnosticException):
    """Base of all errors that deplodock raises on purpose; tools print its text without a traceback.

    To xDSL's tools they are diagnostics, which `--verify-diagnostics` prints to go on with the next part of the input.
    """


class UnsupportedError(Error):
    """The input is valid, but uses an operation, type or form that deplodock does not handle."""


class RefusedError(UnsupportedError):
    """Passes refuse operations even where each is a kernel of its own; `refusals` says of each why.

    The text has a line for each.
    """

    def __init__(self, refusals: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{operation}: {reason}" for operation, reason in refusals.items()))
        self.refusals = refusals


class InvalidInputError(Error):
    """The input itself is wrong: an expression that raises, a bad option, a file that cannot be read."""


class CompileError(Error):
    """The compiler of the generated code rejected it, or no such compiler was found."""


class CheckError(Error, IndexError, RuntimeError):
    """A call asserts something that does not hold for its arguments, such as an index inside its dimension.

    PyTorch raises an IndexError or a RuntimeError there, as each operation likes it.
    """


class DeviceError(Error):
    """The GPU cannot run a kernel, or reports a fault in it; after a fault the process can use the GPU no more."""
