"""Errors of passes that say where the operation at fault stands in the source."""

from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.operations import position_of


class ExceedsTarget(PassFailedException):
    """A kernel asks for more than its target has."""


def failure(op: Operation, message: str) -> PassFailedException:
    """An error about `op`, with its position in the source if it has one."""
    return PassFailedException(located(op, message))


def located(op: Operation, message: str) -> str:
    """The text of an error about `op`, with its position in the source if it has one."""
    text = f"{op.name}: {message}"
    position = position_of(op)
    return text if position is None else f"{position}: error: {text}"
