"""Schedules that `deplodock tune` found, as text: a line of JSON for each kernel, taken by who is asked to.

    {"kernel": "5f2c9a..", "what": "k_linear", "card": "NVIDIA H200", "schedule": "tileify,..", "code": "9ac1..",
     "us": 298.2, "heuristic_us": 301.7, "measured": 64, "version": "0.4.0"}

A kernel is found by its key, which says what it computes and for which target, whatever its names. A line whose
schedule the rules refuse, as of an option that there is no more, is left out with one warning of the logger
`deplodock`, and the heuristics choose as ever.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.machine.targets import ATTRIBUTE as TARGET
from deplodock.analysis.shape.kernel_identity import kernel_key
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.tile.rule import read_schedule
from deplodock.schedule.steps import ATTRIBUTE as SCHEDULE
from deplodock.version import __version__

ORIGIN = "deplodock.tuned"
"""The attribute of a kernel whose schedule comes from a file: which file, and which line."""

T = TypeVar("T")

_LOG = logging.getLogger("deplodock")


@dataclass(frozen=True)
class TunedEntry:
    """A line: a kernel by its key, the schedule to take, and how it was found."""

    kernel: str
    what: str
    """A name of the kernel, for readers."""
    card: str
    schedule: str
    code: str
    """A digest of the CUDA text that the schedule gave."""
    us: float
    heuristic_us: float | None
    """The time of the heuristics' schedule; None where that fails."""
    measured: int
    """The CUDA texts that were measured."""
    version: str = __version__

    def __str__(self) -> str:
        """The line, without its end."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Tuned:
    """What a file has: its entries by the keys of kernels, and the number of the line of each."""

    path: Path
    entries: Mapping[str, TunedEntry] = field(default_factory=dict[str, TunedEntry])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])

    def origin(self, kernel: str) -> str:
        """Where the line of a kernel stands."""
        return f"{self.path}:{self.lines[kernel]}"


def read_tuned(path: Path) -> Tuned:
    """Read a file. Raises InvalidInputError where it cannot be read, or a line is none of a tuned kernel."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInputError(f"{path}: error: the file of tuned schedules cannot be read: {reason}") from None
    found: dict[str, TunedEntry] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            own = _read(line)
            if own.kernel in lines:
                raise ValueError(f"line {lines[own.kernel]} is of the same kernel, {own.kernel}")
        except ValueError as error:
            raise InvalidInputError(f"{path}:{number}: error: no tuned schedule: {error}") from None
        found[own.kernel], lines[own.kernel] = own, number
    return Tuned(path, found, lines)


def write_tuned(path: Path, entries: Iterable[TunedEntry]) -> None:
    """Write entries in the order of their keys. Raises OSError if the file cannot be written."""
    ordered = sorted(entries, key=lambda own: own.kernel)
    path.write_text("".join(f"{own}\n" for own in ordered), encoding="utf-8")


def _read(line: str) -> TunedEntry:
    """The entry of a line. Raises ValueError, as JSON's own errors are, that says what is wrong with it."""
    given = json.loads(line)
    wanted = [each.name for each in fields(TunedEntry)]
    if not isinstance(given, dict) or not {*wanted} - {"version"} <= {*given}:
        raise ValueError(f"it must have {', '.join(wanted)}")
    values = {name: value for name, value in cast(dict[str, Any], given).items() if name in wanted}
    texts = ("kernel", "schedule", "card", "code")
    if not all(isinstance(values[name], str) for name in texts):
        raise ValueError(f"{', '.join(texts)} must be text")
    return TunedEntry(**values)


def lower_tuned(module: ModuleOp, tuned: Tuned, step: Callable[[], T]) -> T:
    """Write the schedules of a file on the kernels of a module at loop level that have none, and lower it.

    Args:
        module: the program; `step` changes it.
        tuned: the file.
        step: lowers the module; what it gives is given back. It is called again without the lines that are refused.

    Raises what `step` raises for another reason than such a line.
    """
    written = [function for function in kernels(module) if _write(function, tuned)]
    if not written:
        return step()
    before = module.clone()
    try:
        return step()
    except DiagnosticException:
        refused = [(function, reason) for function in kernels(before) if (reason := _refusal(function, before))]
        if not refused:
            raise
    for function, reason in refused:
        _leave_out(_origin(function), reason)
        del function.attributes[SCHEDULE], function.attributes[ORIGIN]
    module.attributes = {**before.attributes}
    module.detach_region(module.body)
    module.add_region(before.detach_region(0))
    return step()


def _write(function: func.FuncOp, tuned: Tuned) -> bool:
    """Write the schedule of a file on a kernel; whether it has one."""
    if launches(function) or SCHEDULE in function.attributes:
        return False
    if (own := tuned.entries.get(key := kernel_key(function))) is None:
        return False
    try:
        read_schedule(own.schedule)
    except DiagnosticException as error:
        _leave_out(tuned.origin(key), str(error))
        return False
    function.attributes[SCHEDULE] = StringAttr(own.schedule)
    function.attributes[ORIGIN] = StringAttr(tuned.origin(key))
    return True


def _refusal(function: func.FuncOp, module: ModuleOp) -> str:
    """Why a kernel of a module does not take the schedule that a file gives it; empty if it does, or has none."""
    if not _origin(function):
        return ""
    alone = ModuleOp([function.clone()], {TARGET: module.attributes[TARGET]})
    try:
        lower(alone, new_context(), Level.KERNEL)
    except DiagnosticException as error:
        return next(iter(str(error).splitlines()), type(error).__name__)
    return ""


def _origin(function: func.FuncOp) -> str:
    """Where the schedule of a kernel stands in a file; empty where it comes from none."""
    found = function.attributes.get(ORIGIN)
    return found.data if isinstance(found, StringAttr) else ""


def _leave_out(place: str, reason: str) -> None:
    _LOG.warning("%s: the schedule is left out, as it is refused: %s", place, reason)
