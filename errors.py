"""The errors that deplodock raises; every message says where, what is wrong and what to do."""

from xdsl.utils.exceptions import DiagnosticException


class Error(DiagnosticException):
    """Base of all errors that deplodock raises on purpose; tools print its text without a traceback.

    To xDSL's tools they are diagnostics, which `--verify-diagnostics` prints to go on with the next part of the input.
    """


class UnsupportedError(Error):
    """The input is valid, but uses an operation, type or form that deplodock does not handle."""


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
