"""Falls: what of a program is not lowered as it was chosen, since a pass refused it, and what was done in its place.

They are kept on the module, whatever its level, so that who finds a program that was lowered before learns of them:

    builtin.module attributes {deplodock.falls = [{kind = "simpler_schedule", kernel = "k_add", ..}]} {..}

Where the environment variable `DEPLODOCK_DEBUG` is set a fall is an error, and so is a fault of a pass: so it is in the
tests, the fuzzer, the benchmark and the operator database. `driver.lower` itself never falls.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, NameLoc, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.operations import position_of
from deplodock.errors import Error
from deplodock.runtime.records import one_line

DEBUG = "DEPLODOCK_DEBUG"
"""The environment variable that, if it is not empty, has falls and faults raised."""

FALLS = "deplodock.falls"
"""The attribute of a module with its falls."""

_RAISED: ContextVar[bool] = ContextVar("_RAISED", default=False)
_ROOT = Path(__file__).parents[1]
_LOG = logging.getLogger("deplodock")


class FallKind(StrEnum):
    """What was done in place of what a pass refused; the name that it is counted under."""

    UNTUNED = "tuned_line_left_out"
    """A schedule of a file was left out: that is no loss to who asks for none, so it is never an error."""
    SIMPLER = "simpler_schedule"
    UNDONE = "fusion_undone"
    LEFT = "left_to_pytorch"


@dataclass(frozen=True)
class Fall:
    """One fall: of a kernel, the empty name where it is of an operation alone.

    `operations` are those of the kernel as far as they are known, or the line of a file; `schedule` is the one taken.
    """

    kind: FallKind
    kernel: str
    operations: tuple[str, ...]
    reason: str
    schedule: str = ""

    def __str__(self) -> str:
        operations = ", ".join(self.operations)
        if self.kind is FallKind.UNTUNED:
            return f"{operations}: the schedule is left out, as it is refused: {one_line(self.reason)}"
        if self.kind is FallKind.LEFT:
            return f"{operations} is left to PyTorch: {self.reason}"
        what = (
            "has its fusion undone" if self.kind is FallKind.UNDONE else f"takes the simpler schedule {self.schedule}"
        )
        return f"the kernel @{self.kernel} ({operations or 'of no known place'}) {what}: {self.reason}"

    @property
    def attribute(self) -> DictionaryAttr:
        """The fall as IR."""
        texts = {"kind": self.kind, "kernel": self.kernel, "reason": self.reason, "schedule": self.schedule}
        operations = ArrayAttr([StringAttr(operation) for operation in self.operations])
        return DictionaryAttr({**{name: StringAttr(text) for name, text in texts.items()}, "operations": operations})

    @staticmethod
    def of(attribute: Attribute) -> Fall:
        """The fall that `attribute` gave."""
        own = cast(DictionaryAttr, attribute).data
        kind, kernel, reason, schedule = (
            cast(StringAttr, own[name]).data for name in ("kind", "kernel", "reason", "schedule")
        )
        operations = tuple(text.data for text in cast(ArrayAttr[StringAttr], own["operations"]))
        return Fall(FallKind(kind), kernel, operations, reason, schedule)


def catches() -> bool:
    """Whether a refusal leads to a fall in place of an error."""
    return not os.environ.get(DEBUG) and not _RAISED.get()


def raise_in_this_process() -> None:
    """Have falls and faults raised from now on, in processes that this one starts, too, unless the user says otherwise.

    So our own suites begin.
    """
    os.environ.setdefault(DEBUG, "1")


@contextmanager
def raised() -> Generator[None]:
    """While it lasts, this thread has refusals raised."""
    token = _RAISED.set(True)
    try:
        yield
    finally:
        _RAISED.reset(token)


def note(module: ModuleOp, falls: Iterable[Fall]) -> None:
    """Write falls on a module, behind those that it has."""
    module.attributes[FALLS] = ArrayAttr([fall.attribute for fall in (*falls_of(module), *falls)])


def falls_of(module: ModuleOp) -> list[Fall]:
    """The falls that are written on a module."""
    found = module.attributes.get(FALLS)
    return [Fall.of(own) for own in found] if isinstance(found, ArrayAttr) else []


def report(falls: Sequence[Fall]) -> None:
    """Warn of each fall, by the logger `deplodock`. Raises an Error at the first one that is to be raised."""
    for fall in falls:
        if fall.kind is not FallKind.UNTUNED and not catches():
            raise Error(str(fall))
        _LOG.warning("%s%s", "" if fall.kind is FallKind.UNTUNED else "deplodock: ", fall)


def reason_of(error: Exception) -> str:
    """Why something is refused that gives an error when it is compiled: one line.

    An error that is no diagnostic is a fault of deplodock, which must not end the user's program. It is raised all the
    same if the environment variable `DEPLODOCK_DEBUG` is set, and where memory is exhausted.
    """
    if isinstance(error, DiagnosticException):
        return next(iter(str(error).splitlines()), type(error).__name__)
    if isinstance(error, MemoryError) or os.environ.get(DEBUG):
        raise error
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_ROOT)
    ]
    place = f" at {Path(frames[-1].filename).relative_to(_ROOT)}:{frames[-1].lineno}" if frames else ""
    return f"a fault of deplodock{place}, please report it: {type(error).__name__}: {error}"


def origins_in(op: Operation) -> tuple[str, ...]:
    """What the operations inside of one are from: calls of a program, such as `aten.sin.default (a.py:3)`, or lines."""
    return tuple(dict.fromkeys(filter(None, map(_origin, op.walk()))))


def _origin(op: Operation) -> str:
    place = (position_of(op) or "").rpartition(":")[0]
    if isinstance(op.location, NameLoc):
        return op.location.desc.data + (f" ({place})" if place else "")
    return place
