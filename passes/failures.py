"""Errors of passes that say where the operation at fault stands in the source."""

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException


def failure(op: Operation, message: str) -> PassFailedException:
    """An error about `op`, with its position in the source if it has one."""
    text = f"{op.name}: {message}"
    match op.location:
        case FileLineColLoc(filename=file, line=line, column=column):
            return PassFailedException(f"{file.data}:{line.data}:{column.data}: error: {text}")
        case _:
            return PassFailedException(text)
