"""What a pass says when it leaves a kernel as it is: one line with the reason."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from deplodock.passes.pipeline import PASSES

_LOGGER = logging.getLogger("deplodock.remarks")
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
    _LOGGER.warning(Remark(pass_name, symbol, reason))


@contextmanager
def collect() -> Generator[list[Remark]]:
    """Capture the remarks made inside the context instead of logging them."""
    collector = _Collector()
    propagate = _LOGGER.propagate
    _LOGGER.addHandler(collector)
    _LOGGER.propagate = False
    try:
        yield collector.remarks
    finally:
        _LOGGER.propagate = propagate
        _LOGGER.removeHandler(collector)


class _Collector(logging.Handler):
    """Keeps the remarks that a logger hands it."""

    def __init__(self) -> None:
        super().__init__()
        self.remarks: list[Remark] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, Remark):
            self.remarks.append(record.msg)
