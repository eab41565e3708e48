"""What a pass says when it leaves a kernel as it is, one line with the reason, and its errors, which say where."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.operations import position_of
from deplodock.passes.pipeline import PASSES

_LOGGER = logging.getLogger("deplodock.remarks")
_COLLECTED: ContextVar[list[Remark] | None] = ContextVar("_COLLECTED", default=None)
_LABELS = {stage.name: stage.label for stage in PASSES}


@dataclass(frozen=True)
class Remark:
    """A pass skipped the kernel `symbol`, for `reason`."""

    pass_name: str
    symbol: str
    reason: str

    def __str__(self) -> str:
        label = _LABELS.get(self.pass_name, self.pass_name)
        return f"{label} skipped at @{self.symbol.removeprefix('@')}: {self.reason}"


def skip(pass_name: str, symbol: str, reason: str) -> None:
    """Report that `pass_name` does not apply to the kernel `symbol`; on stderr unless something collects remarks."""
    remark, collected = Remark(pass_name, symbol, reason), _COLLECTED.get()
    if collected is None:
        _LOGGER.warning(remark)
    else:
        collected.append(remark)


def refusal(pass_name: str, symbol: str, reason: str) -> None:
    """Report that a pattern refuses what it was tried on, as it is over and over in a walk: to who collects remarks."""
    if (collected := _COLLECTED.get()) is not None:
        collected.append(Remark(pass_name, symbol, reason))


@contextmanager
def collect() -> Generator[list[Remark]]:
    """Capture the remarks that this thread makes inside the context instead of logging them."""
    remarks: list[Remark] = []
    token = _COLLECTED.set(remarks)
    try:
        yield remarks
    finally:
        _COLLECTED.reset(token)


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
