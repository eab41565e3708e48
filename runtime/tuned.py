"""What `deplodock tune` found, as text: a line of JSON for each kernel and each program, taken by who is asked to.

    {"kernel": "5f2c9a..", "what": "k_linear", "card": "NVIDIA H200", "schedule": "tileify,..", "code": "9ac1..",
     "us": 298.2, "heuristic_us": 301.7, "measured": 64, "version": "0.4.0"}
    {"program": "85d3ea..", "what": "main", "card": "NVIDIA H200", "decisions": "mulf-3f2a9c01=never",
     "kernels": "1b..", "us": 410.0, "heuristic_us": 455.1, "measured": 19, "version": "0.4.0"}

A kernel and a program on tensors are found by their keys, which say what they compute and for which target, whatever
their names. A line whose schedule or decisions the passes refuse, as of an option that there is no more, is left out
with one warning of the logger `deplodock`, and the heuristics choose as ever.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.shape.kernel_identity import kernel_key
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level, level_of
from deplodock.passes.tensor.decisions import DECISIONS, PROGRAMS, program_key
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.passes.tile.rule import read_schedule
from deplodock.runtime.falls import Fall, FallKind, raised, reason_of, report
from deplodock.runtime.files import write_whole
from deplodock.runtime.records import check_texts, json_lines, microseconds, natural
from deplodock.schedule.steps import ATTRIBUTE as SCHEDULE
from deplodock.version import __version__

ORIGIN = "deplodock.tuned"
"""The attribute of a function whose schedule, or decisions of fusion, come from a file: which file, and which line."""

T = TypeVar("T")

_LOG = logging.getLogger("deplodock")


@dataclass(frozen=True)
class _Line:
    """A line of a file: its fields as JSON."""

    def __str__(self) -> str:
        """The line, without its end."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class TunedEntry(_Line):
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

    @property
    def key(self) -> str:
        """By what it is found."""
        return self.kernel

    @property
    def choice(self) -> str:
        """What it says to do."""
        return self.schedule


@dataclass(frozen=True)
class FusionEntry(_Line):
    """A line: a program on tensors by its key, which of its operations share kernels, and how that was found."""

    program: str
    what: str
    """A name of the program, for readers."""
    card: str
    decisions: str
    """What differs from the cost model's choice (`passes/tensor/decisions.py`); empty where nothing does."""
    kernels: str
    """A digest of the keys of the kernels that the decisions gave, each with its launches."""
    us: float
    """The time of all launches of these kernels, each kernel by itself, by the heuristics' schedules."""
    heuristic_us: float
    """The same for the cost model's kernels."""
    measured: int
    """The sets of kernels whose time is known."""
    version: str = __version__

    @property
    def key(self) -> str:
        """By what it is found."""
        return self.program

    @property
    def choice(self) -> str:
        """What it says to do."""
        return self.decisions or "the cost model's choice"


AnyEntry: TypeAlias = TunedEntry | FusionEntry
"""A line of a file."""


@dataclass(frozen=True)
class Tuned:
    """What a file has: entries by the keys of kernels, those by the keys of programs, and the line of each."""

    path: Path
    entries: Mapping[str, TunedEntry] = field(default_factory=dict[str, TunedEntry])
    fusions: Mapping[str, FusionEntry] = field(default_factory=dict[str, FusionEntry])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def all(self) -> dict[str, AnyEntry]:
        """All entries by their keys."""
        return {**self.fusions, **self.entries}

    def origin(self, key: str) -> str:
        """Where the line of a kernel or of a program stands."""
        return f"{self.path}:{self.lines[key]}"


def read_tuned(path: Path) -> Tuned:
    """Read a file. Raises InvalidInputError where it cannot be read, or a line is none of what was tuned."""
    found: dict[str, AnyEntry] = {}
    lines: dict[str, int] = {}
    try:
        for number, own in json_lines(path, _read):
            if not isinstance(own, ValueError) and own.key in lines:
                own = ValueError(f"line {lines[own.key]} is of the same, {own.key}")
            if isinstance(own, ValueError):
                raise InvalidInputError(f"{path}:{number}: error: no tuned schedule: {own}")
            found[own.key], lines[own.key] = own, number
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInputError(f"{path}: error: the file of tuned schedules cannot be read: {reason}") from None
    kernels = {key: own for key, own in found.items() if isinstance(own, TunedEntry)}
    fusions = {key: own for key, own in found.items() if isinstance(own, FusionEntry)}
    return Tuned(path, kernels, fusions, lines)


def write_tuned(path: Path, entries: Iterable[AnyEntry]) -> None:
    """Write entries, programs before kernels, in the order of their keys. Raises OSError if that is not possible."""
    ordered = sorted(entries, key=lambda own: (isinstance(own, TunedEntry), own.key))
    write_whole(path, "".join(f"{own}\n" for own in ordered))


def _read(given: Mapping[str, Any]) -> AnyEntry:
    """The entry of a line. Raises ValueError that says what is wrong with it."""
    kind = FusionEntry if "program" in given else TunedEntry
    wanted = [each.name for each in fields(kind)]
    if not {*wanted} - {"version"} <= {*given}:
        raise ValueError(f"it must have {', '.join(wanted)}")
    values = {name: value for name, value in given.items() if name in wanted}
    numbers = ("us", "heuristic_us", "measured")
    check_texts(values, [name for name in values if name not in numbers])
    natural(values["measured"])
    is_unknown = kind is TunedEntry and values["heuristic_us"] is None
    values |= {name: microseconds(values[name]) for name in numbers[: 1 if is_unknown else 2]}
    return kind(**values)


def lower_fused(module: ModuleOp, tuned: Tuned | None, step: Callable[[], T]) -> T:
    """Let a module on tensors know the decisions of a file for its functions, and lower it.

    Args:
        module: the program, for a target; `step` changes it.
        tuned: the file; None where none is asked for.
        step: lowers the module; what it gives is given back. Where it fails with decisions it is called again without.

    Raises what `step` raises without any decisions.
    """
    if tuned is None or not tuned.fusions or level_of(module) is not Level.TORCH:
        return step()
    before = module.clone()
    module.attributes[PROGRAMS] = DictionaryAttr(
        {program_key(key): _attributes(own.decisions, tuned.origin(key)) for key, own in tuned.fusions.items()}
    )
    try:
        with raised():
            return step()
    except Exception as error:
        taken = [origin_of(op) for op in module.ops if DECISIONS in op.attributes and origin_of(op)]
        reason = reason_of(error)
    become(module, before)
    found = step()
    for place in taken:
        _LOG.warning("%s: the decisions of fusion are left out, as they are refused: %s", place, reason)
    return found


def _attributes(decisions: str, origin: str) -> DictionaryAttr:
    """The attributes of a function with decisions from a file."""
    return DictionaryAttr({DECISIONS: StringAttr(decisions), ORIGIN: StringAttr(origin)})


def become(module: ModuleOp, other: ModuleOp) -> None:
    """Give a module what another one has, which loses it."""
    module.attributes = {**other.attributes}
    module.detach_region(module.body)
    module.add_region(other.detach_region(0))


def take_schedules(module: ModuleOp, tuned: Tuned) -> None:
    """Write the schedules of a file on the kernels of a module at loop level that have none."""
    for function in kernels(module):
        _write(function, tuned)


def _write(function: func.FuncOp, tuned: Tuned) -> None:
    """Write the schedule of a file on a kernel, if it has one."""
    if launches(function) or SCHEDULE in function.attributes:
        return
    if (own := tuned.entries.get(key := kernel_key(function))) is None:
        return
    try:
        write_schedule(function, read_schedule(own.schedule))
    except DiagnosticException as error:
        report([Fall(FallKind.UNTUNED, function.sym_name.data, (tuned.origin(key),), reason_of(error))])
    else:
        function.attributes[ORIGIN] = StringAttr(tuned.origin(key))


def origin_of(function: Operation) -> str:
    """Where what was tuned of a function stands in a file; empty where it comes from none."""
    found = function.attributes.get(ORIGIN)
    return found.data if isinstance(found, StringAttr) else ""
